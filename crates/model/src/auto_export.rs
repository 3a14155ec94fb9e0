//! Exports that are made because a label asks for them.
//!
//! `tombolo.dev/auto-export` on a Namespace means all its Services, on a Service that one, and there it also overrules its
//! Namespace. The value is `true` for the cluster's usual dialect, the name of a dialect, or `false`. What a user exported
//! by hand stays theirs: only exports with our mark are ever removed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tombolo_api::tombolo::{AUTO_EXPORT_LABEL, Dialect, MANAGED_BY_LABEL, MANAGER, ServiceRef};

use crate::complaint::Complaint;

/// Dialect and name of an export.
pub type Wanted = (Dialect, ServiceRef);

/// What to do about automatic exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub create: Vec<Wanted>,
    /// Ours, and no longer wanted.
    pub delete: Vec<Wanted>,
    pub complaints: Vec<Complaint>,
}

/// Compares what the labels ask for with the exports that exist, of all Services or of some: those that are given with
/// their namespaces, and all exports of the same names.
pub fn plan<'a>(
    usual: Dialect,
    namespaces: impl IntoIterator<Item = &'a Namespace>,
    services: impl IntoIterator<Item = &'a Service>,
    exports: impl IntoIterator<Item = (Dialect, &'a ObjectMeta)>,
) -> Plan {
    let namespaces: BTreeMap<&str, &Namespace> = namespaces
        .into_iter()
        .filter_map(|namespace| Some((namespace.metadata.name.as_deref()?, namespace)))
        .collect();
    let mut complaints = Vec::new();
    let mut wanted: BTreeMap<Wanted, bool> = BTreeMap::new();
    for service in services {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let (dialect, complaint) = wish(usual, namespaces.get(namespace).copied(), service);
        complaints.extend(complaint);
        if let Some(dialect) = dialect {
            wanted.insert((dialect, named(&service.metadata)), false);
        }
    }
    let mut delete = Vec::new();
    for (dialect, metadata) in exports {
        let key = (dialect, named(metadata));
        match wanted.get_mut(&key) {
            Some(exists) => *exists = true,
            None if is_ours(metadata) => delete.push(key),
            None => {}
        }
    }
    delete.sort();
    let create = wanted.into_iter().filter(|(_, exists)| !exists).map(|(key, _)| key).collect();
    Plan { create, delete, complaints }
}

/// Labels of an export that is made here.
pub fn marks() -> BTreeMap<String, String> {
    [(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned())].into()
}

/// Whether an export, or any other object, was made by Tombolo.
pub fn is_ours(metadata: &ObjectMeta) -> bool {
    label(metadata, MANAGED_BY_LABEL) == Some(MANAGER)
}

/// The dialect a Service shall be exported in, if at all.
fn wish(
    usual: Dialect,
    namespace: Option<&Namespace>,
    service: &Service,
) -> (Option<Dialect>, Option<Complaint>) {
    let own = label(&service.metadata, AUTO_EXPORT_LABEL);
    let inherited = || namespace.and_then(|namespace| label(&namespace.metadata, AUTO_EXPORT_LABEL));
    let Some(word) = own.or_else(inherited).filter(|_| can_be_exported(service)) else { return (None, None) };
    match word {
        "true" => (Some(usual), None),
        "false" => (None, None),
        _ => match word.parse() {
            Ok(dialect) => (Some(dialect), None),
            Err(_) => (None, Some(misspelt(service, word))),
        },
    }
}

fn misspelt(service: &Service, word: &str) -> Complaint {
    let ServiceRef { namespace, name } = named(&service.metadata);
    let about = format!("Service {namespace}/{name}");
    Complaint::new(
        about,
        format!(
            "label {AUTO_EXPORT_LABEL} is {word:?}, expected true, false, kep or mcs; it is not exported"
        ),
    )
}

/// A label on a Namespace must not export what makes no sense elsewhere: derived Services, ExternalName, and the API server
/// of the cluster itself.
fn can_be_exported(service: &Service) -> bool {
    let type_ = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    let name = named(&service.metadata);
    let api_server = name.namespace == "default" && name.name == "kubernetes";
    let leaving = service.metadata.deletion_timestamp.is_some();
    !is_ours(&service.metadata) && type_ != Some("ExternalName") && !api_server && !leaving
}

fn named(metadata: &ObjectMeta) -> ServiceRef {
    ServiceRef {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceSpec;

    use super::*;
    use crate::testing::{at, service};

    fn metadata(namespace: &str, name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace.into()).filter(|namespace: &String| !namespace.is_empty()),
            labels: Some(labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()),
            ..ObjectMeta::default()
        }
    }

    fn a_service(namespace: &str, name: &str, word: Option<&str>) -> Service {
        let labels: Vec<_> = word.map(|word| (AUTO_EXPORT_LABEL, word)).into_iter().collect();
        Service { metadata: metadata(namespace, name, &labels), ..Service::default() }
    }

    fn namespace(name: &str, word: Option<&str>) -> Namespace {
        let labels: Vec<_> = word.map(|word| (AUTO_EXPORT_LABEL, word)).into_iter().collect();
        Namespace { metadata: metadata("", name, &labels), ..Namespace::default() }
    }

    #[test]
    fn the_label_of_a_service_overrules_that_of_its_namespace() {
        use Dialect::{Kep, Mcs};
        for (of_namespace, of_service, expected) in [
            (None, None, None),
            (Some("true"), None, Some(Mcs)),
            (Some("kep"), None, Some(Kep)),
            (None, Some("true"), Some(Mcs)),
            (None, Some("kep"), Some(Kep)),
            (Some("true"), Some("kep"), Some(Kep)),
            (Some("true"), Some("false"), None),
            (Some("false"), Some("mcs"), Some(Mcs)),
            (Some("false"), None, None),
        ] {
            let plan =
                plan(Mcs, &[namespace("demo", of_namespace)], &[a_service("demo", "echo", of_service)], []);
            let expected: Vec<_> =
                expected.map(|dialect| (dialect, service("demo", "echo"))).into_iter().collect();
            assert_eq!(plan, Plan { create: expected, ..Plan::default() }, "{of_namespace:?} {of_service:?}");
        }
    }

    #[test]
    fn an_unknown_word_exports_nothing_and_is_complained_about() {
        let plan =
            plan(Dialect::Mcs, &[namespace("demo", Some("True"))], &[a_service("demo", "echo", None)], []);
        assert_eq!(plan.create, []);
        assert_eq!(
            plan.complaints[0].to_string(),
            "Service demo/echo: label tombolo.dev/auto-export is \"True\", expected true, false, kep or mcs; \
                it is not exported"
        );
    }

    #[test]
    fn a_namespace_does_not_export_derived_external_leaving_or_api_server_services() {
        let mut derived = a_service("default", "derived-x", None);
        derived.metadata.labels = Some(marks());
        let mut external = a_service("default", "external", None);
        external.spec = Some(ServiceSpec { type_: Some("ExternalName".into()), ..ServiceSpec::default() });
        let mut leaving = a_service("default", "leaving", None);
        leaving.metadata.deletion_timestamp = Some(at(1));
        let services = [derived, external, leaving, a_service("default", "kubernetes", None)];
        let plan = plan(Dialect::Mcs, &[namespace("default", Some("true"))], &services, []);
        assert_eq!(plan, Plan::default());
    }

    #[test]
    fn exports_of_users_are_left_alone_and_ours_go_when_they_are_no_longer_wanted() {
        let ours = [(MANAGED_BY_LABEL, MANAGER)];
        let exports = [
            metadata("demo", "wanted-by-hand", &[]),
            metadata("demo", "by-hand", &[]),
            metadata("demo", "stale", &ours),
            metadata("demo", "wanted", &ours),
        ];
        let services = ["wanted-by-hand", "by-hand", "stale", "wanted", "new"].map(|name| {
            a_service("demo", name, ["wanted-by-hand", "wanted", "new"].contains(&name).then_some("true"))
        });
        let exports = exports.iter().map(|metadata| (Dialect::Mcs, metadata));
        let plan = plan(Dialect::Mcs, &[namespace("demo", None)], &services, exports);
        assert_eq!(plan.create, [(Dialect::Mcs, service("demo", "new"))]);
        assert_eq!(plan.delete, [(Dialect::Mcs, service("demo", "stale"))]);
    }

    #[test]
    fn a_change_of_dialect_moves_our_export() {
        let ours = metadata("demo", "echo", &[(MANAGED_BY_LABEL, MANAGER)]);
        let plan = plan(
            Dialect::Mcs,
            &[namespace("demo", Some("kep"))],
            &[a_service("demo", "echo", None)],
            [(Dialect::Mcs, &ours)],
        );
        let echo = service("demo", "echo");
        assert_eq!(
            (plan.create, plan.delete),
            (vec![(Dialect::Kep, echo.clone())], vec![(Dialect::Mcs, echo)])
        );
    }
}
