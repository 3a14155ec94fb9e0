//! The derived Service: it has no selector, and its cluster IP is the address of the import.
//!
//! This way the cluster's own allocator reserves the address and any service proxy routes it to the imported slices, which
//! carry the derived Service's name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort as Declared, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;
use tombolo_api::service::{IpFamily, ServicePort, SessionAffinity};
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER, PREFER_ANNOTATION};

use super::Import;

/// The distributions an API server takes on a Service (core/v1 `ServiceTrafficDistribution`).
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// Why an import has no derived Service here.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotDerived {
    #[error("the service is headless: it has no address")]
    Headless,
    #[error("the service has no ports, so it cannot have an address")]
    NoPorts,
    #[error("the service is {}, which this cluster does not have", words(.0))]
    FamilyNotSupported(Vec<IpFamily>),
}

fn words(families: &[IpFamily]) -> String {
    families.iter().map(|family| family.as_str()).collect::<Vec<_>>().join(" and ")
}

impl Import {
    /// The Service that holds the address of this import in a cluster that has the families `supported`.
    ///
    /// `existing` is the one that is there: the order of its families stays, because its first one cannot change, and
    /// with it the address that clients know.
    pub fn derived_service(
        &self,
        supported: &[IpFamily],
        existing: Option<&Service>,
        owner: Option<OwnerReference>,
    ) -> Result<Service, NotDerived> {
        let name = self.derived_service_name().ok_or(NotDerived::Headless)?;
        if self.ports.is_empty() {
            return Err(NotDerived::NoPorts);
        }
        let mut families: Vec<IpFamily> =
            self.ip_families.iter().copied().filter(|family| supported.contains(family)).collect();
        let first = existing.and_then(first_family);
        families.sort_by_key(|family| first.as_deref() != Some(family.as_str()));
        if families.is_empty() {
            return Err(NotDerived::FamilyNotSupported(self.ip_families.clone()));
        }
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: Some(self.service.namespace.clone()),
            labels: Some(self.derived_labels()),
            annotations: self
                .prefer_annotation()
                .map(|prefer| [(PREFER_ANNOTATION.to_owned(), prefer)].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        Ok(Service { metadata, spec: Some(self.derived_spec(&families)), status: None })
    }

    fn derived_labels(&self) -> BTreeMap<String, String> {
        let labels = [(MANAGED_BY_LABEL, MANAGER), (self.policy().import_label, &self.service.name)];
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn derived_spec(&self, families: &[IpFamily]) -> ServiceSpec {
        let distribution =
            self.traffic_distribution.clone().filter(|word| DISTRIBUTIONS.contains(&word.as_str()));
        ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(self.ports.iter().map(declare).collect()),
            ip_families: Some(families.iter().map(|family| family.to_string()).collect()),
            ip_family_policy: Some(
                if families.len() > 1 { "PreferDualStack" } else { "SingleStack" }.to_owned(),
            ),
            session_affinity: Some(self.session_affinity.to_string()),
            session_affinity_config: match self.session_affinity {
                SessionAffinity::ClientIp => self.session_affinity_config.clone(),
                SessionAffinity::None => None,
            },
            internal_traffic_policy: self.internal_traffic_policy.map(|policy| policy.to_string()),
            traffic_distribution: distribution,
            ..ServiceSpec::default()
        }
    }
}

fn first_family(service: &Service) -> Option<String> {
    service.spec.as_ref()?.ip_families.as_ref()?.first().cloned()
}

/// Whether the existing derived Service cannot become the wanted one and has to be made anew: the API server lets nobody
/// change a Service's first family.
pub fn must_be_replaced(existing: &Service, wanted: &Service) -> bool {
    first_family(existing).is_some() && first_family(existing) != first_family(wanted)
}

/// The API server would set the target port to the port; saying so keeps the comparison with what is stored simple.
fn declare(port: &ServicePort) -> Declared {
    Declared {
        name: port.name.clone(),
        protocol: Some(port.protocol.to_string()),
        app_protocol: port.app_protocol.clone(),
        port: port.port,
        target_port: Some(IntOrString::Int(port.port)),
        node_port: None,
    }
}
