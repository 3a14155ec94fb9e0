//! The merged service, free of dialect, and what becomes of it in a consuming cluster.
//!
//! Three objects follow from it: the import in the words of its dialect ([`kep_import`](Import::kep_import),
//! [`mcs_import`](Import::mcs_import)), the Service whose cluster IP is its address
//! ([`derived_service`](Import::derived_service)), and the slices (see [`slices`](crate::slices)). They are the same in
//! every cluster but for the addresses.

mod lower;
mod service;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use tombolo_api::service::{InternalTrafficPolicy, IpFamily, ServicePort, SessionAffinity};
use tombolo_api::tombolo::{Dialect, OfferType, ServiceRef, Tier};

use crate::cluster::ClusterId;
use crate::names;
use crate::policy::Policy;

pub use lower::read_ports;
pub use service::{NotDerived, must_be_replaced};

/// A service of the supercluster: all its exports, merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub dialect: Dialect,
    pub service: ServiceRef,
    pub type_: OfferType,
    pub ports: Vec<ServicePort>,
    /// The families of the service, the preferred one first; never empty.
    pub ip_families: Vec<IpFamily>,
    /// For the service as a whole. Where affinity is carried per cluster: what all clusters have in common.
    pub session_affinity: SessionAffinity,
    pub session_affinity_config: Option<SessionAffinityConfig>,
    pub internal_traffic_policy: Option<InternalTrafficPolicy>,
    pub traffic_distribution: Option<String>,
    pub prefer: Vec<Tier>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The exporting clusters by id; never empty.
    pub clusters: Vec<Contribution>,
}

/// What one cluster's export brings along.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    pub cluster: ClusterId,
    /// The ports that its Service has: traffic to others of the import must not go there.
    pub ports: Vec<ServicePort>,
    pub ip_families: Vec<IpFamily>,
    pub topology_keys: Vec<String>,
    pub publish_not_ready_addresses: bool,
    pub session_affinity: SessionAffinity,
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

impl Import {
    pub fn policy(&self) -> &'static Policy {
        Policy::of(self.dialect)
    }

    pub fn is_headless(&self) -> bool {
        self.type_ == OfferType::Headless
    }

    /// The part of one cluster; `None` if it does not export the service.
    pub fn contribution(&self, cluster: &ClusterId) -> Option<&Contribution> {
        let place = self.clusters.binary_search_by(|part| part.cluster.cmp(cluster)).ok()?;
        self.clusters.get(place)
    }

    /// The name of the Service that holds the address; `None` if the service has none.
    pub fn derived_service_name(&self) -> Option<String> {
        (!self.is_headless()).then(|| names::derived_service(self.dialect, &self.service))
    }

    /// What ties slices and the derived Service to the import object with this uid, so that they go with it.
    pub fn owner_reference(&self, uid: &str) -> OwnerReference {
        let (api_version, kind) = self.policy().import_kind;
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: self.service.name.clone(),
            uid: uid.to_owned(),
            controller: Some(false),
            block_owner_deletion: None,
        }
    }
}

#[cfg(test)]
mod tests;
