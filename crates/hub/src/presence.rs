//! Who is a member of ours.
//!
//! The API server may be a Karmada control plane, with Clusters that Karmada's own controllers look after. Tombolo judges,
//! sends to and cleans up only those that it made or that a member of ours stated. Once it is known, a label says so.

use kube::ResourceExt;
use tombolo_api::karmada::cluster::{Cluster, SyncMode};
use tombolo_api::tombolo::{CLUSTER_FINALIZER, MANAGED_BY_LABEL, MANAGER, MEMBER_LABEL};
use tombolo_model::{ClusterId, names};

use crate::shared::Shared;

/// What is known about a cluster that is there.
pub(crate) struct Presence {
    pub(crate) identity: String,
    pub(crate) mode: SyncMode,
    pub(crate) region: Option<String>,
}

impl Presence {
    /// Whether the name was another cluster's.
    pub(crate) fn is_other_than(&self, cluster: &Cluster) -> bool {
        cluster.spec.id.as_ref().is_some_and(|id| *id != self.identity)
    }
}

/// Whether a Cluster says that it is ours.
pub(crate) fn is_marked(cluster: &Cluster) -> bool {
    cluster.labels().contains_key(MEMBER_LABEL)
        || cluster.finalizers().iter().any(|name| name == CLUSTER_FINALIZER)
}

impl Shared {
    /// The cluster that has a name: the one that the hub reaches into, or the one that stated it.
    pub(crate) fn presence(&self, id: &ClusterId) -> Option<Presence> {
        if self.is_pushed(id) {
            let identity = self.pushed().get(id.as_str()).cloned()?;
            return Some(Presence { identity, mode: SyncMode::Push, region: None });
        }
        let stated = self.membership(id)?;
        let (identity, region) = (stated.spec.identity.clone(), stated.spec.region.clone());
        Some(Presence { identity, mode: SyncMode::Pull, region })
    }

    /// Whether a Cluster is a member of ours. One from before there was a mark is known by its namespace.
    pub(crate) fn is_ours(&self, cluster: &Cluster) -> bool {
        let Ok(id) = cluster.name_any().parse::<ClusterId>() else { return false };
        let is_present = || self.presence(&id).is_some_and(|presence| !presence.is_other_than(cluster));
        is_marked(cluster) || self.made_namespace(&id) || is_present()
    }

    /// Whether the hub made the execution namespace of a cluster, so that it may take it away.
    pub(crate) fn made_namespace(&self, id: &ClusterId) -> bool {
        let namespace = names::execution_namespace(id).and_then(|name| self.namespace(&name));
        namespace.is_some_and(|found| found.labels().get(MANAGED_BY_LABEL).is_some_and(|by| by == MANAGER))
    }
}
