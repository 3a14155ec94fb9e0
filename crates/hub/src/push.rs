//! Members without an agent: the hub reaches into them and does there what an agent would.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Error};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tombolo_api::tombolo::HEARTBEAT;
use tombolo_model::address::Declared;
use tombolo_model::names;
use tombolo_runtime::{Queue, in_time, is_place_gone, with_causes};
use tombolo_works::{Member, Works};

use crate::clusters::Clusters;
use crate::config::PushMember;
use crate::shared::{Shared, WRITER};

/// Starts the work of every member that is reached into.
pub(crate) fn start(shared: &Arc<Shared>, clusters: &Clusters, tasks: &mut JoinSet<()>) {
    for pushed in &shared.config.push {
        let member = Member::new(pushed.client.clone());
        let config = tombolo_works::Config {
            cluster: pushed.cluster.clone(),
            declared: Declared::Nothing,
            create_namespaces: pushed.create_namespaces,
            clock: shared.config.clock.clone(),
        };
        let Some(works) =
            Works::new(config, member.clone(), shared.client.clone(), &shared.metrics.durations)
        else {
            tracing::error!(cluster = %pushed.cluster, "this is no name of a cluster that Works can be sent to");
            continue;
        };
        tasks.spawn(member.follow());
        tasks.spawn(works.run());
        tasks.spawn(beat(shared.clone(), pushed.clone(), clusters.inbox()));
    }
}

/// Says at the hub that the member answers, as its agent would, for ever.
async fn beat(shared: Arc<Shared>, member: PushMember, clusters: Arc<Queue<String>>) {
    let mut beats = interval(shared.config.heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut identity = None;
    loop {
        beats.tick().await;
        let found = match in_time(shared.config.heartbeat, identify(&member.client)).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                tracing::debug!(%error, cluster = %member.cluster, "a member does not answer");
                continue;
            }
        };
        if identity.as_ref() != Some(&found) {
            shared.pushed().insert(member.cluster.to_string(), found.clone());
            clusters.add(member.cluster.to_string());
            identity = Some(found.clone());
        }
        match in_time(shared.config.heartbeat, renew(&shared, &member, found)).await {
            Ok(()) => {}
            // The cluster is only about to join, or leaving.
            Err(error) if is_place_gone(&error) => clusters.add(member.cluster.to_string()),
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), cluster = %member.cluster, "its heartbeat was not written")
            }
        }
    }
}

/// What tells the cluster from every other: the UID of a namespace that is made once and never deleted. Asked with every
/// heartbeat: it shows that the member answers, and that it is still the same.
async fn identify(client: &Client) -> Result<Option<String>, Error> {
    Ok(Api::<Namespace>::all(client.clone()).get("kube-system").await?.metadata.uid)
}

async fn renew(shared: &Shared, member: &PushMember, identity: String) -> Result<(), Error> {
    let Some(namespace) = names::execution_namespace(&member.cluster) else { return Ok(()) };
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), &namespace);
    let spec = LeaseSpec {
        holder_identity: Some(identity),
        lease_duration_seconds: i32::try_from(shared.config.dead_after.as_secs().max(1)).ok(),
        renew_time: Some(MicroTime(shared.config.clock.now())),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(HEARTBEAT.to_owned()), ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    let params = PatchParams::apply(WRITER).force();
    api.patch(HEARTBEAT, &params, &Patch::Apply(&lease)).await.map(|_| ())
}
