//! Which clusters are settled: what silent clusters sent is withdrawn from those alone.
//!
//! Clusters may lose their way to the hub together. Of those one is found out first, and until the others are they count as
//! ready; and one comes back first. So a cluster is settled if it was heard lately, and has been ready for as long as it takes
//! others to be heard again. Who was ready when the hub began is taken to have been so for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use tokio::time::Instant;
use tombolo_api::karmada::cluster::Cluster;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Cache, Change};

use crate::shared::{is_ready, locked};

/// What is remembered of clusters.
pub(crate) struct Settled {
    long: Duration,
    /// When heartbeats were last seen to advance, by namespace.
    heard: Mutex<BTreeMap<String, Instant>>,
    /// When clusters became ready, by name.
    returned: Mutex<BTreeMap<String, Instant>>,
}

impl Settled {
    /// `long` is how long a cluster is silent until it is found out.
    pub(crate) fn new(long: Duration, heartbeats: &Cache<Lease>, clusters: &Cache<Cluster>) -> Arc<Self> {
        let settled = Arc::new(Self { long, heard: Mutex::default(), returned: Mutex::default() });
        let note = settled.clone();
        heartbeats.listen_to_changes(move |change| match change {
            Change::Put { old: Some(old), new } if old.spec != new.spec => {
                locked(&note.heard).insert(new.namespace().unwrap_or_default(), Instant::now());
            }
            Change::Put { .. } => {}
            Change::Gone(last) => _ = locked(&note.heard).remove(&last.namespace().unwrap_or_default()),
        });
        let note = settled.clone();
        clusters.listen_to_changes(move |change| match change {
            Change::Put { old: Some(old), new } if is_ready(new) && !is_ready(old) => {
                locked(&note.returned).insert(new.name_any(), Instant::now());
            }
            Change::Put { .. } => {}
            Change::Gone(last) => _ = locked(&note.returned).remove(&last.name_any()),
        });
        settled
    }

    /// Whether a cluster that is ready is settled.
    pub(crate) fn is(&self, cluster: &ClusterId) -> bool {
        let namespaces = [Some(names::hub_namespace(cluster)), names::execution_namespace(cluster)];
        let heard = locked(&self.heard);
        let mut last = namespaces.into_iter().flatten().filter_map(|namespace| heard.get(&namespace));
        last.any(|last| last.elapsed() < self.long / 2) && self.left(cluster.as_str()).is_zero()
    }

    /// When all will be that are ready now, unless they are not heard.
    pub(crate) fn all_in(&self) -> Duration {
        let names: Vec<String> = locked(&self.returned).keys().cloned().collect();
        names.iter().map(|name| self.left(name)).max().unwrap_or_default()
    }

    fn left(&self, cluster: &str) -> Duration {
        let returned = locked(&self.returned).get(cluster).copied();
        returned.map_or(Duration::ZERO, |returned| self.long.saturating_sub(returned.elapsed()))
    }
}
