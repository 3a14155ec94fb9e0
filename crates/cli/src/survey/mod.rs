//! What the hub and the members hold, read once: the ground on which `status`, `explain` and `doctor` decide.
//!
//! Reading and judging are apart: what is here asks API servers and leaves objects as they are; whoever judges them takes a
//! [`Survey`] and asks nobody. A cluster that does not answer is part of the picture, not an error.

mod editions;
mod fetch;
mod reach;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{Membership, ServiceOffer};
use tombolo_api::{kep, mcs};
use tombolo_model::{ClusterId, names, origin};

pub(crate) use self::editions::{ExportSeen, ImportSeen, Told, count, exports, imported_slices, imports};
pub(crate) use self::fetch::survey;
pub(crate) use self::reach::{Place, Places, Reach};

/// What was found at a place, or why nothing was.
pub(crate) type Seen<T> = Result<T, String>;

/// How much of each cluster is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    /// What belongs to services of one namespace.
    Namespace(String),
}

/// Everything that was seen, at one time.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    pub(crate) now: Timestamp,
    pub(crate) hub: HubSeen,
    /// Ordered by name.
    pub(crate) members: Vec<MemberSeen>,
    /// Contexts that are no members, each with the reason.
    pub(crate) others: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct HubSeen {
    pub(crate) context: String,
    pub(crate) facts: Seen<HubFacts>,
}

/// A member that the hub or a context tells of.
#[derive(Clone, Debug)]
pub(crate) struct MemberSeen {
    pub(crate) id: String,
    /// None if the kubeconfig has no way to it.
    pub(crate) context: Option<String>,
    pub(crate) facts: Seen<MemberFacts>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HubFacts {
    pub(crate) memberships: Vec<Membership>,
    /// The members' namespaces.
    pub(crate) places: Vec<Namespace>,
    /// By namespace.
    pub(crate) heartbeats: BTreeMap<String, Lease>,
    pub(crate) offers: Vec<ServiceOffer>,
    /// Those that members offer.
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) multi_cluster_services: Vec<MultiClusterService>,
    /// What MultiClusterServices share, and the Works that carry it: only of one namespace, and only if that is what is read.
    pub(crate) services: Vec<Service>,
    pub(crate) works: Vec<Work>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MemberFacts {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) services: Vec<Service>,
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) kep_exports: Vec<kep::ServiceExport>,
    pub(crate) mcs_exports: Vec<mcs::ServiceExport>,
    pub(crate) kep_imports: Vec<kep::ImportedService>,
    pub(crate) mcs_imports: Vec<mcs::ServiceImport>,
    /// Whether each source cluster is believed to be alive.
    pub(crate) source_leases: Vec<Lease>,
}

/// When a member was last heard at the hub, and for how long that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) at: Timestamp,
    pub(crate) counts_for: i64,
}

impl Heartbeat {
    pub(crate) fn read(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let counts_for = i64::from(spec.lease_duration_seconds.unwrap_or(30));
        Some(Self { at: spec.renew_time.as_ref()?.0, counts_for })
    }

    /// Seconds since then. Clocks differ a little, and a heartbeat from the future has just come.
    pub(crate) fn age(&self, now: Timestamp) -> i64 {
        now.duration_since(self.at).as_secs().max(0)
    }

    pub(crate) fn is_silent(&self, now: Timestamp) -> bool {
        self.age(now) > self.counts_for
    }
}

impl HubFacts {
    pub(crate) fn membership(&self, id: &str) -> Option<&Membership> {
        self.memberships.iter().find(|membership| membership.spec.cluster == id)
    }

    /// The addresses of a member's pods, by its namespace.
    pub(crate) fn granted(&self, id: &str) -> Vec<String> {
        let Ok(id) = id.parse::<ClusterId>() else { return Vec::new() };
        let name = names::hub_namespace(&id);
        self.places.iter().find(|place| place.name_any() == name).map(origin::pod_cidrs).unwrap_or_default()
    }

    pub(crate) fn heartbeat(&self, id: &str) -> Option<Heartbeat> {
        let id: ClusterId = id.parse().ok()?;
        Heartbeat::read(self.heartbeats.get(&names::hub_namespace(&id))?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_heartbeat_is_silent_once_it_counts_no_more_and_never_comes_from_the_future() {
        let lease: Lease = from_value(json!({"spec": {
            "renewTime": "2026-01-01T00:00:10.000000Z", "leaseDurationSeconds": 5}}))
        .unwrap();
        let beat = Heartbeat::read(&lease).unwrap();
        let at = |second: i64| Timestamp::from_second(1_767_225_600 + second).unwrap();
        assert_eq!((beat.age(at(12)), beat.is_silent(at(15))), (2, false));
        assert!(beat.is_silent(at(16)));
        assert_eq!(beat.age(at(0)), 0);
        assert_eq!(Heartbeat::read(&Lease::default()), None);
    }
}
