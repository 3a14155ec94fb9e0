//! From an export and its Service to what the cluster offers the others, or why it offers nothing.
//!
//! NodePort and LoadBalancer Services are offered as what they are inside their cluster; nothing of their ports on nodes
//! or load balancers travels. An offer is always clean: what the merge or another cluster's API server could not use is
//! left out here and complained about, so that the exporting side can say so.

mod clean;
pub(crate) mod reading;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ClientIPConfig, Service, ServiceSpec, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::Value;
use thiserror::Error;
use tombolo_api::service::{DEFAULT_AFFINITY_SECONDS, HEADLESS};
use tombolo_api::tombolo::{
    Dialect, MANAGED_BY_LABEL, MANAGER, OfferType, PREFER_ANNOTATION, ServiceOfferSpec, ServiceRef,
    TOPOLOGY_KEYS_ANNOTATION,
};
use tombolo_api::{kep, mcs};

use crate::cluster::ClusterId;
use crate::complaint::Complaint;
use crate::prefer;

pub use clean::clean;
pub(crate) use clean::{AFFINITY_SECONDS, ANY_TOPOLOGY, clean_ports};

/// An export, whatever its edition.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    pub dialect: Dialect,
    /// The Service it means: the one of the same name and namespace.
    pub service: ServiceRef,
    pub created_at: Time,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl From<&kep::ServiceExport> for Export {
    fn from(export: &kep::ServiceExport) -> Self {
        Export::new(Dialect::Kep, &export.metadata)
    }
}

impl From<&mcs::ServiceExport> for Export {
    fn from(export: &mcs::ServiceExport) -> Self {
        let spec = export.spec.spec.clone().unwrap_or_default();
        Export {
            labels: spec.exported_labels,
            annotations: spec.exported_annotations,
            ..Export::new(Dialect::Mcs, &export.metadata)
        }
    }
}

impl Export {
    fn new(dialect: Dialect, metadata: &ObjectMeta) -> Self {
        // Only an object that no server has stored lacks the time; it must not win as the oldest.
        let created_at = metadata.creation_timestamp.clone().unwrap_or(Time(Timestamp::MAX));
        let service = ServiceRef {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        Export { dialect, service, created_at, labels: BTreeMap::new(), annotations: BTreeMap::new() }
    }
}

/// Why an export offers nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("there is no Service {name} in namespace {namespace}; the export takes effect when there is one",
        name = .0.name, namespace = .0.namespace)]
    NoService(ServiceRef),
    #[error(
        "the Service is of type ExternalName, which cannot be merged with others; create it in each cluster instead"
    )]
    ExternalName,
    #[error("the Service is of type {0:?}, which is none that can be exported")]
    UnknownType(String),
    #[error("the Service was made by Tombolo for an import; export the Service that stands behind it")]
    Derived,
}

/// An offer, and what had to be left out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub spec: ServiceOfferSpec,
    pub complaints: Vec<Complaint>,
}

/// What `cluster` offers because of `export`.
///
/// `topology_keys` is the Service's field of that name, which only old servers have: see [`topology_keys`]. Without it the
/// annotation `tombolo.dev/topology-keys` counts.
pub fn offer(
    cluster: &ClusterId,
    export: &Export,
    service: Option<&Service>,
    topology_keys: Option<Vec<String>>,
) -> Result<Offer, Refusal> {
    let service = service.ok_or_else(|| Refusal::NoService(export.service.clone()))?;
    let empty = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&empty);
    refuse_type(service, spec)?;
    let mut complaints = Vec::new();
    let annotations = service.metadata.annotations.as_ref();
    let prefer = annotations.and_then(|annotations| annotations.get(PREFER_ANNOTATION));
    let prefer = prefer.map_or(Ok(Vec::new()), |text| prefer::read(text));
    let offer = ServiceOfferSpec {
        dialect: export.dialect,
        cluster: cluster.to_string(),
        service: export.service.clone(),
        exported_at: export.created_at.clone(),
        type_: if is_headless(spec) { OfferType::Headless } else { OfferType::ClusterIp },
        ports: reading::ports(spec, &mut complaints),
        ip_families: reading::families(spec, &mut complaints),
        session_affinity: reading::word("spec.sessionAffinity", &spec.session_affinity, &mut complaints)
            .unwrap_or_default(),
        session_affinity_config: spec.session_affinity_config.clone(),
        topology_keys: topology_keys.unwrap_or_else(|| reading::list(annotations, TOPOLOGY_KEYS_ANNOTATION)),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or(false),
        internal_traffic_policy: reading::word(
            "spec.internalTrafficPolicy",
            &spec.internal_traffic_policy,
            &mut complaints,
        ),
        traffic_distribution: spec.traffic_distribution.clone(),
        prefer: prefer.unwrap_or_else(|wrong| {
            complaints.push(wrong);
            Vec::new()
        }),
        exported_labels: export.labels.clone(),
        exported_annotations: export.annotations.clone(),
    };
    let (spec, unclean) = clean(offer);
    complaints.extend(unclean);
    Ok(Offer { spec, complaints })
}

fn refuse_type(service: &Service, spec: &ServiceSpec) -> Result<(), Refusal> {
    // A derived Service has no endpoints of its own: exporting it would send every cluster's traffic in a circle.
    let labels = service.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)).is_some_and(|manager| manager == MANAGER) {
        return Err(Refusal::Derived);
    }
    match spec.type_.as_deref() {
        None | Some("" | "ClusterIP" | "NodePort" | "LoadBalancer") => Ok(()),
        Some("ExternalName") => Err(Refusal::ExternalName),
        Some(other) => Err(Refusal::UnknownType(other.to_owned())),
    }
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some(HEADLESS)
}

/// The field `spec.topologyKeys` of a Service as its server sent it; `None` where the server has no such field or the
/// Service leaves it empty.
pub fn topology_keys(service: &Value) -> Option<Vec<String>> {
    let keys = service.get("spec")?.get("topologyKeys")?.as_array()?;
    let keys: Vec<String> = keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect();
    Some(keys).filter(|keys| !keys.is_empty())
}

/// For how many seconds connections of one client stay together.
pub(crate) fn affinity_seconds(config: Option<&SessionAffinityConfig>) -> i32 {
    let client_ip = config.and_then(|config| config.client_ip.as_ref());
    client_ip.and_then(|client_ip| client_ip.timeout_seconds).unwrap_or(DEFAULT_AFFINITY_SECONDS)
}

pub(crate) fn affinity_config(seconds: i32) -> SessionAffinityConfig {
    SessionAffinityConfig { client_ip: Some(ClientIPConfig { timeout_seconds: Some(seconds) }) }
}

#[cfg(test)]
mod tests;
