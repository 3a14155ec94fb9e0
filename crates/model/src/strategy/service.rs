//! The Service under an import's own name: whose it is, and the one that is made where there is none.
//!
//! One that is made carries our labels and no selector. When a user writes a Service over it, which shows in a selector or
//! in kubectl's note, it is theirs from then on and our labels go. It has no owner reference, because a Service that
//! became a user's must not go with the import.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json, to_value};
use tombolo_api::mcs::{ServiceImport, ServiceImportType};
use tombolo_api::service::{
    HEADLESS, InternalTrafficPolicy, IpFamily, LAST_APPLIED_ANNOTATION, ServicePort, SessionAffinity,
};
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, NATIVE_IMPORT_LABEL, OfferType, ServiceRef};

use super::selector;
use crate::complaint::Complaint;
use crate::import::{Import, NotDerived, must_be_replaced, read_ports};
use crate::offer::{affinity_config, affinity_seconds, clean_ports};

/// What of the spec is ours to decide in a Service that we made.
const DECIDED: [&str; 7] = [
    "ports",
    "sessionAffinity",
    "sessionAffinityConfig",
    "internalTrafficPolicy",
    "trafficDistribution",
    "ipFamilies",
    "ipFamilyPolicy",
];

/// Whose the Service of a name is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing<'a> {
    Absent,
    Ours(&'a Service),
    /// Made by us, then written by a user: local, once our labels are gone.
    TakenOver(&'a Service),
    Local(&'a Service),
}

impl<'a> Standing<'a> {
    pub(super) fn of(present: Option<&'a Service>) -> Self {
        let Some(service) = present else { return Standing::Absent };
        let label =
            |key| service.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        if label(MANAGED_BY_LABEL) != Some(MANAGER) || label(NATIVE_IMPORT_LABEL).is_none() {
            return Standing::Local(service);
        }
        let annotations = service.metadata.annotations.as_ref();
        let applied =
            annotations.is_some_and(|annotations| annotations.contains_key(LAST_APPLIED_ANNOTATION));
        match applied || !selector::wanted(service).is_empty() {
            true => Standing::TakenOver(service),
            false => Standing::Ours(service),
        }
    }

    /// The Service of somebody else.
    pub(super) fn local(self) -> Option<&'a Service> {
        match self {
            Standing::Local(service) | Standing::TakenOver(service) => Some(service),
            Standing::Absent | Standing::Ours(_) => None,
        }
    }

    pub(super) fn ours(self) -> Option<&'a Service> {
        if let Standing::Ours(service) = self { Some(service) } else { None }
    }

    /// The merge patch by which a Service becomes its user's.
    pub(super) fn let_go(self) -> Option<Value> {
        let labels = json!({MANAGED_BY_LABEL: null, NATIVE_IMPORT_LABEL: null});
        matches!(self, Standing::TakenOver(_)).then(|| json!({"metadata": {"labels": labels}}))
    }
}

/// The Service that is made for an import in a cluster with the families `supported`, and what was wrong with its ports.
pub(super) fn native(
    import: &ServiceImport,
    service: &ServiceRef,
    supported: &[IpFamily],
    existing: Option<&Service>,
) -> (Result<Service, NotDerived>, Vec<Complaint>) {
    let (ports, mut complaints) = read_ports(&import.spec);
    let ports = clean_ports(ports, &mut complaints);
    let headless = import.spec.type_ == ServiceImportType::Headless;
    let bare = headless && ports.is_empty();
    // A headless service is like any other, without an address; and it alone may have no ports.
    let ports = if bare { vec![ServicePort { port: 1, ..ServicePort::default() }] } else { ports };
    let merged = Import { ports, ..as_merged(import, service, supported) };
    let made = merged.derived_service(supported, existing, None).map(|made| {
        let mut spec = made.spec.unwrap_or_default();
        spec.ports = spec.ports.filter(|_| !bare);
        finish(spec, service, headless)
    });
    (made, complaints)
}

/// The import as if it had been merged from offers.
fn as_merged(import: &ServiceImport, service: &ServiceRef, supported: &[IpFamily]) -> Import {
    let spec = &import.spec;
    let families: Vec<IpFamily> = spec.ip_families.iter().filter_map(|family| family.parse().ok()).collect();
    let affinity = spec.session_affinity.as_deref().and_then(|word| word.parse().ok());
    let policy = spec.internal_traffic_policy.as_deref().and_then(|word| word.parse().ok());
    let seconds = affinity_seconds(spec.session_affinity_config.as_ref()).clamp(1, 86400);
    Import {
        dialect: Dialect::Mcs,
        service: service.clone(),
        type_: OfferType::ClusterIp,
        ports: Vec::new(),
        ip_families: if families.is_empty() { supported.to_vec() } else { families },
        session_affinity: affinity.unwrap_or(SessionAffinity::None),
        // Said, not left to the server: so it can be compared.
        session_affinity_config: Some(affinity_config(seconds)),
        internal_traffic_policy: policy.or(Some(InternalTrafficPolicy::Cluster)),
        traffic_distribution: spec.traffic_distribution.clone(),
        prefer: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        clusters: Vec::new(),
    }
}

fn finish(mut spec: ServiceSpec, service: &ServiceRef, headless: bool) -> Service {
    let labels = [(MANAGED_BY_LABEL, MANAGER), (NATIVE_IMPORT_LABEL, &service.name)];
    let metadata = ObjectMeta {
        name: Some(service.name.clone()),
        namespace: Some(service.namespace.clone()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..ObjectMeta::default()
    };
    if headless {
        spec.cluster_ip = Some(HEADLESS.to_owned());
        (spec.session_affinity, spec.session_affinity_config) = (None, None);
    }
    Service { metadata, spec: Some(spec), status: None }
}

/// Whether the Service has no address of its own.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some(HEADLESS)
}

/// Whether ours has to be made anew, because the API server lets nobody change it into what is wanted.
pub(super) fn is_another(existing: &Service, wanted: &Service) -> bool {
    is_headless(existing) != is_headless(wanted) || must_be_replaced(existing, wanted)
}

/// The merge patch that makes ours what is wanted; `None` if it is.
pub(super) fn difference(existing: &Service, wanted: &Service) -> Option<Value> {
    let spec = |service: &Service| to_value(&service.spec).unwrap_or_default();
    let (has, wants) = (spec(existing), spec(wanted));
    let headless = is_headless(wanted);
    let differs = |key: &str| match &wants[key] {
        // The server decides what nobody asked for; only what it never sets by itself shows an earlier wish of ours.
        Value::Null => !headless && !has[key].is_null(),
        wish => has[key] != *wish,
    };
    let changes: Map<String, Value> = DECIDED
        .iter()
        .filter(|key| differs(key))
        .map(|key| ((*key).to_owned(), wants[*key].clone()))
        .collect();
    (!changes.is_empty()).then(|| json!({ "spec": changes }))
}
