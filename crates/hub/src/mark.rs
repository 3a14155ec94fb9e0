//! The hub's own heartbeat, by which it notices how its API server does.
//!
//! It is a Lease in the hub's namespace, called like the heartbeats of clusters, so that it comes back over the watch that
//! brings those: see [`crate::ear`].
//!
//! It is a mark, too. A server that was restored from a backup hands out again revisions that mean something else to
//! whoever watches, so caches may go on showing what is no more. So the hub looks whether the mark it left is still there:
//! if not, everything has to be read anew. A backup that is younger than the last mark cannot be told from none.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Error, ResourceExt};
use tokio::time::{MissedTickBehavior, interval};
use tombolo_api::tombolo::HEARTBEAT;
use tombolo_runtime::{Change, Key, in_time, is_place_gone, is_refusal, unless_there, with_causes};

use crate::shared::{Shared, WRITER};

/// How often it is written.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(2);

/// Listens for the hub's own heartbeat among those of the clusters.
pub(crate) fn listen(shared: &Shared) {
    let (ear, own) = (shared.ear.clone(), Key::new(shared.config.namespace.clone(), HEARTBEAT));
    shared.heartbeats.listen_to_changes(move |change| {
        if let Change::Put { old, new } = change
            && Key::of(*new) == own
            && old.is_none_or(|old| old.spec != new.spec)
        {
            ear.note_echo();
        }
    });
}

/// Beats, until the API server has gone back. Where no mark can be left, that is never noticed.
pub(crate) async fn gone_back(shared: Arc<Shared>) {
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), &shared.config.namespace);
    let mut ticks = interval(RENEW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut left, mut failing) = (None, false);
    loop {
        ticks.tick().await;
        let outcome = in_time(RENEW_EVERY, renew(&shared, &api, &mut left)).await;
        if outcome.as_ref().err().is_none_or(is_refusal) {
            shared.ear.note_answer();
        }
        match outcome {
            Ok(true) => return,
            Ok(false) => failing = false,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    let namespace = &shared.config.namespace;
                    tracing::warn!(error = %with_causes(&error), namespace, "the hub's own heartbeat, Lease {HEARTBEAT}, was not written; until it is, no cluster is found to be silent");
                }
            }
        }
    }
}

/// Leaves the mark anew, and says whether the former one has gone.
async fn renew(shared: &Shared, api: &Api<Lease>, left: &mut Option<String>) -> Result<bool, Error> {
    let written = match write(shared, api, left.clone()).await {
        // A conflict, or, where there is nothing any more, a complaint that there should be.
        Err(Error::Api(_)) if left.is_some() => {
            let held = api.get_opt(HEARTBEAT).await?.and_then(|lease| lease.resource_version());
            if number(held.as_deref()) < number(left.as_deref()) {
                return Ok(true);
            }
            // An answer was lost, or a hub on its way out wrote meanwhile.
            write(shared, api, None).await?
        }
        Err(error) if is_place_gone(&error) => {
            make_namespace(shared).await?;
            write(shared, api, None).await?
        }
        outcome => outcome?,
    };
    *left = written.resource_version();
    Ok(false)
}

/// Writes the mark over the version that is expected there, if any.
async fn write(shared: &Shared, api: &Api<Lease>, over: Option<String>) -> Result<Lease, Error> {
    let spec = LeaseSpec {
        holder_identity: Some(shared.config.instance.clone()),
        renew_time: Some(MicroTime(shared.config.clock.now())),
        ..LeaseSpec::default()
    };
    let metadata =
        ObjectMeta { name: Some(HEARTBEAT.to_owned()), resource_version: over, ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    api.patch(HEARTBEAT, &PatchParams::apply(WRITER).force(), &Patch::Apply(&lease)).await
}

async fn make_namespace(shared: &Shared) -> Result<(), Error> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(shared.config.namespace.clone());
    let api: Api<Namespace> = Api::all(shared.client.clone());
    unless_there(api.create(&PostParams::default(), &namespace).await)
}

fn number(version: Option<&str>) -> Option<u64> {
    version.and_then(|text| text.parse().ok())
}
