//! The objects a Work holds, read.
//!
//! Only Services and EndpointSlices are taken: whoever can write Works at the hub must not thereby be able to run anything
//! in the member.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::Value;
use tombolo_api::karmada::work::{ResourceIdentifier, Work};
use tombolo_runtime::Key;

/// A kind that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TakenKind {
    Service,
    EndpointSlice,
}

/// An object in the member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: TakenKind,
    pub(crate) key: Key,
}

impl Target {
    pub(crate) fn of_service(service: &Service) -> Self {
        Self { kind: TakenKind::Service, key: Key::of(service) }
    }

    pub(crate) fn of_slice(slice: &EndpointSlice) -> Self {
        Self { kind: TakenKind::EndpointSlice, key: Key::of(slice) }
    }

    /// The group of Works that hold it.
    pub(crate) fn group(&self) -> Key {
        Key::new(self.key.namespace.clone(), format!("{:?}/{}", self.kind, self.key.name))
    }
}

/// One object of a Work.
#[derive(Debug)]
pub(crate) enum Manifest {
    Service(Box<Service>),
    Slice(Box<EndpointSlice>),
}

impl Manifest {
    pub(crate) fn target(&self) -> Target {
        match self {
            Manifest::Service(service) => Target::of_service(service),
            Manifest::Slice(slice) => Target::of_slice(slice),
        }
    }
}

fn manifests(work: &Work) -> &[Value] {
    work.spec.workload.as_ref().map(|workload| workload.manifests.as_slice()).unwrap_or_default()
}

/// Reads a manifest, or says why not.
fn read(value: &Value) -> Result<Manifest, String> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let unreadable = |error: serde_json::Error| format!("a manifest cannot be read: {error}");
    let manifest = match (text("apiVersion"), text("kind")) {
        ("v1", "Service") => {
            Manifest::Service(Box::new(serde_json::from_value(value.clone()).map_err(unreadable)?))
        }
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            Manifest::Slice(Box::new(serde_json::from_value(value.clone()).map_err(unreadable)?))
        }
        (version, kind) => {
            let found: String = format!("{version} {kind}").chars().take(100).collect();
            return Err(format!("only Services and EndpointSlices are applied, not {found}"));
        }
    };
    let key = manifest.target().key;
    match key.namespace.is_empty() || key.name.is_empty() {
        true => Err("a manifest has no name or no namespace".to_owned()),
        false => Ok(manifest),
    }
}

/// All manifests of a Work in order, each read or refused.
pub(crate) fn read_all(work: &Work) -> Vec<Result<Manifest, String>> {
    manifests(work).iter().map(read).collect()
}

/// The objects that a Work wants in the member: none if it is only stored, or on its way out.
pub(crate) fn targets(work: &Work) -> Vec<Target> {
    if !is_dispatched(work) {
        return Vec::new();
    }
    // What an object is called does not need the whole of it to be read.
    let target = |value: &Value| {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let kind = match value["kind"].as_str() {
            Some("Service") => TakenKind::Service,
            Some("EndpointSlice") => TakenKind::EndpointSlice,
            _ => return None,
        };
        let metadata = &value["metadata"];
        Some(Target { kind, key: Key::new(text(&metadata["namespace"]), text(&metadata["name"])) })
    };
    manifests(work).iter().filter_map(target).collect()
}

/// Whether a Work is to be applied at all.
pub(crate) fn is_dispatched(work: &Work) -> bool {
    work.spec.suspend_dispatching != Some(true) && work.metadata.deletion_timestamp.is_none()
}

/// Which manifest of a Work is meant.
pub(crate) fn identifier(ordinal: usize, value: Option<&Manifest>) -> ResourceIdentifier {
    let ordinal = i64::try_from(ordinal).unwrap_or(i64::MAX);
    let (group, kind, resource) = match value {
        Some(Manifest::Service(_)) => ("", "Service", "services"),
        Some(Manifest::Slice(_)) => ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
        None => ("", "", ""),
    };
    let key = value.map(|manifest| manifest.target().key).unwrap_or(Key::new("", ""));
    ResourceIdentifier {
        ordinal,
        group: group.to_owned(),
        version: if value.is_some() { "v1".to_owned() } else { String::new() },
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        namespace: key.namespace,
        name: key.name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_services_and_slices_with_a_place_are_taken() {
        let named = json!({"name": "a", "namespace": "b"});
        let cases = [
            (json!({"apiVersion": "v1", "kind": "Service", "metadata": named}), None),
            (
                json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": named,
                    "addressType": "IPv4", "endpoints": []}),
                None,
            ),
            (json!({"apiVersion": "v1", "kind": "Pod", "metadata": named}), Some("not v1 Pod")),
            (json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}), Some("no namespace")),
            (json!({"apiVersion": "v1", "kind": "Service", "metadata": 7}), Some("cannot be read")),
            (json!("text"), Some("only Services")),
        ];
        for (value, refusal) in cases {
            match (read(&value), refusal) {
                (Ok(_), None) => {}
                (Err(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                (found, _) => panic!("{value}: {found:?}"),
            }
        }
    }
}
