//! Whether clusters are ready: as long as their heartbeats advance.
//!
//! Heartbeats are looked at once a second and make nothing else happen; what is written, and what others react to, is only
//! the change of the condition. Silence counts against a cluster only while the hub hears its own heartbeat, which comes
//! over the same watch (`ear`); and while the hub does not reach its API server, no time passes at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tombolo_api::condition;
use tombolo_api::karmada::cluster::{Cluster, SyncMode};
use tombolo_api::tombolo::HEARTBEAT;
use tombolo_model::liveness::{Beat, Patience, Pulse};
use tombolo_model::multi_cluster_service::{Readiness, ready_condition};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Key, in_time, is_conflict, unless_gone, with_causes};

use crate::shared::{Shared, WRITER, is_ready};

/// How often the keeper looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A change that takes longer to be written down is given up.
const LONGEST_WRITE: Duration = Duration::from_secs(5);

/// Keeps the condition `Ready` of all clusters true, for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut keeper = Keeper { shared, pulses: BTreeMap::new(), written: BTreeMap::new() };
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = keeper.look().await
            && !is_conflict(&error)
        {
            tracing::warn!(error = %with_causes(&error), "the health of clusters could not be told");
        }
    }
}

/// Whose heartbeat it is, by the UID of the Cluster and who writes it: what comes back under the same name, or is reached
/// in another way, begins anew.
type Heart = (String, SyncMode);

fn heart(cluster: &Cluster) -> Heart {
    (cluster.uid().unwrap_or_default(), cluster.spec.sync_mode)
}

struct Keeper {
    shared: Arc<Shared>,
    pulses: BTreeMap<Heart, Pulse>,
    /// What was written and may not have come back through the watch yet: the resource version.
    written: BTreeMap<String, u64>,
}

impl Keeper {
    async fn look(&mut self) -> Result<(), Error> {
        let mut clusters = self.shared.clusters.all();
        clusters.retain(|cluster| self.shared.is_ours(cluster));
        let known: BTreeSet<Heart> = clusters.iter().map(|cluster| heart(cluster)).collect();
        self.pulses.retain(|heart, _| known.contains(heart));
        self.written.retain(|uid, _| known.iter().any(|(known, _)| known == uid));
        let mut outcome = Ok(());
        for cluster in clusters.iter().filter(|cluster| cluster.metadata.deletion_timestamp.is_none()) {
            let readiness = self.judge(cluster);
            outcome = outcome.and(self.tell(cluster, readiness).await);
        }
        outcome
    }

    fn judge(&mut self, cluster: &Cluster) -> Readiness {
        let now = self.shared.ear.time();
        let beat = self.beat(cluster);
        if beat.is_none() && !is_ready(cluster) {
            // Its first heartbeat will be a sign of life.
            self.pulses.entry(heart(cluster)).or_insert_with(|| Pulse::first_seen(None, now));
            return Readiness::Unheard;
        }
        let holder = beat.as_ref().map(|beat| &beat.holder);
        if cluster.spec.id.is_some() && holder.is_some_and(|holder| *holder != cluster.spec.id) {
            return Readiness::Impostor;
        }
        // One that a predecessor took for dead must be heard first; one that nobody judged has its time.
        let known_dead =
            cluster.status.as_ref().is_some_and(|status| !status.conditions.is_empty()) && !is_ready(cluster);
        let pulse = self.pulses.entry(heart(cluster)).or_insert_with(|| match known_dead {
            true => Pulse::known_dead(beat.clone(), now),
            false => Pulse::first_seen(beat.clone(), now),
        });
        if let Some(beat) = beat {
            pulse.observe(beat, now);
        }
        let patience = Patience { duration: self.shared.config.dead_after, hold: self.shared.config.hold };
        Readiness::Heard(pulse.judge(self.shared.ear.contact(), &patience, now))
    }

    /// The heartbeat: an agent's in the member's namespace, the hub's own for members that it reaches into.
    fn beat(&self, cluster: &Cluster) -> Option<Beat> {
        let id: ClusterId = cluster.name_any().parse().ok()?;
        let namespace = match cluster.spec.sync_mode {
            SyncMode::Pull => names::hub_namespace(&id),
            SyncMode::Push => names::execution_namespace(&id)?,
        };
        let lease = self.shared.heartbeats.get(&Key::new(namespace, HEARTBEAT))?;
        lease.spec.as_ref().map(Beat::from)
    }

    async fn tell(&mut self, cluster: &Cluster, readiness: Readiness) -> Result<(), Error> {
        let uid = cluster.uid().unwrap_or_default();
        let seen = cluster.resource_version().and_then(|version| version.parse::<u64>().ok());
        if self.written.get(&uid).is_some_and(|written| seen.is_some_and(|seen| seen < *written)) {
            return Ok(());
        }
        let mode = cluster.spec.sync_mode;
        let Some(desired) = ready_condition(mode, readiness, cluster.metadata.generation) else {
            return Ok(());
        };
        let mut conditions =
            cluster.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let now = Time(self.shared.config.clock.now());
        self.shared.metrics.note_ready(&cluster.name_any(), desired.status == condition::Status::True);
        if !condition::set(&mut conditions, desired.clone(), now) {
            return Ok(());
        }
        tracing::info!(cluster = cluster.name_any(), ready = %desired.status, reason = desired.reason, "cluster");
        let api: Api<Cluster> = Api::all(self.shared.client.clone());
        let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
        // Only over what was looked at: others may have conditions of their own there.
        let metadata = json!({"resourceVersion": cluster.resource_version()});
        let patch = json!({"metadata": metadata, "status": {"conditions": conditions}});
        let name = cluster.name_any();
        let written = in_time(LONGEST_WRITE, api.patch_status(&name, &params, &Patch::Merge(&patch))).await;
        if let Ok(written) = &written
            && let Some(version) = written.resource_version().and_then(|version| version.parse().ok())
        {
            self.written.insert(uid, version);
        }
        unless_gone(written)
    }
}
