//! What the agent says about its cluster at the hub: who it is, that it lives, how far it has come.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tombolo_api::tombolo::{HEARTBEAT, Membership, MembershipSpec, MembershipStatus, STATEMENT};
use tombolo_model::names;
use tombolo_runtime::{Key, in_time, with_causes};

use crate::config::Config;
use crate::progress::Report;
use crate::shared::Shared;
use crate::write::apply_params;

/// How often the watermark may move: one small write per member and second, not one per service.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Every member hears of every report, so their number grows with the square of the members. From twenty-five on each speaks
/// less often, so that together they never say more than twenty-five reports a second.
const SHARE_OF_MEMBER: Duration = Duration::from_millis(40);
/// As many failures as there is room for.
const MOST_FAILURES: usize = 64;

/// What was said so far.
#[derive(Default)]
struct Said {
    /// A heartbeat was tried.
    begun: bool,
    /// The version of the heartbeat as this agent left it, once it has.
    heartbeat: Option<String>,
    status: Option<MembershipStatus>,
}

/// Keeps the member's statement at the hub true, until it turns out to be another cluster's.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut beats = interval(shared.config.heartbeat);
    let mut next_report = Instant::now();
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut said, mut answers) = (Said::default(), true);
    loop {
        tokio::select! {
            biased;
            _ = beats.tick() => {
                let sent = Instant::now();
                let outcome = in_time(shared.config.heartbeat, beat(&shared, &mut said)).await;
                shared.note_answer(&mut answers, outcome.is_ok());
                match outcome {
                    Ok(()) => shared.note_heartbeat(sent),
                    Err(error) if is_refused(&error) && is_taken(&shared) => return tell_taken(&shared, &error),
                    Err(error) => tracing::warn!(error = %with_causes(&error), "the heartbeat did not reach the hub"),
                }
            }
            () = sleep_until(next_report) => {
                next_report = Instant::now() + report_pace(shared.members().len());
                let report = shared.progress.report(shared.offers.complete_up_to()).filter(|_| said.heartbeat.is_some());
                let Some(status) = report.map(|report| status(&report)) else { continue };
                if !is_known(&shared, &said, &status) {
                    match in_time(shared.config.heartbeat, publish(&shared, &status)).await {
                        Ok(()) => said.status = Some(status),
                        Err(error) => tracing::debug!(%error, "the watermark did not reach the hub"),
                    }
                }
            }
        }
    }
}

fn tell_taken(shared: &Shared, error: &Error) {
    let cluster = &shared.config.cluster;
    tracing::error!(
        %error, %cluster, namespace = names::hub_namespace(cluster),
        "another cluster has this id at the hub now, and two must not speak under one name: start this agent with another \
         --cluster-id, or, if the other cluster is gone for good, delete the Membership in its namespace at the hub and start \
         this agent again"
    );
}

/// How often each of so many members says how far it has come.
pub(crate) fn report_pace(members: usize) -> Duration {
    REPORT_EVERY.max(SHARE_OF_MEMBER.saturating_mul(u32::try_from(members).unwrap_or(u32::MAX)))
}

/// Whether the hub has heard this, and from nobody anything else since: another agent of this cluster may still be on its
/// way out.
fn is_known(shared: &Shared, said: &Said, status: &MembershipStatus) -> bool {
    let shown = statement(shared);
    said.status.as_ref() == Some(status) && shown.is_none_or(|shown| shown.status.as_ref() == Some(status))
}

/// Whether the hub shows the statement of another cluster under this one's id.
fn is_taken(shared: &Shared) -> bool {
    statement(shared).is_some_and(|stated| stated.spec.identity != shared.config.identity)
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 422)
}

/// What the hub shows of this member's statement.
fn statement(shared: &Shared) -> Option<Arc<Membership>> {
    shared.memberships.get(&Key::new(names::hub_namespace(&shared.config.cluster), STATEMENT))
}

async fn beat(shared: &Shared, said: &mut Said) -> Result<(), Error> {
    // Until a mark is left, nobody can tell whether the hub still is the one that heard it. And a hub that was told to
    // forget this cluster learns that it is still there; or refuses, if another has taken the id meanwhile.
    if said.heartbeat.is_none() || statement(shared).is_none() || is_taken(shared) {
        introduce(shared).await?;
    }
    let namespace = names::hub_namespace(&shared.config.cluster);
    let api: Api<Lease> = Api::namespaced(shared.hub.clone(), &namespace);
    // The first may repeat what a predecessor said in the same instant, and then nothing is written.
    let seen = if said.begun { shared.progress.seen() } else { 0 };
    said.begun = true;
    let written = match write_beat(&shared.config, &api, said.heartbeat.clone()).await {
        // A conflict, or, where there is nothing any more, a complaint that there should be.
        Err(Error::Api(_)) if said.heartbeat.is_some() => {
            let held = api.get_opt(HEARTBEAT).await?;
            if held.as_ref().is_some_and(|lease| is_of_another(lease, &shared.config)) {
                // Who has taken the id meanwhile must not be spoken over: then the hub refuses this.
                introduce(shared).await?;
            }
            let held = held.and_then(|lease| lease.resource_version());
            if number(held.as_deref()) < number(said.heartbeat.as_deref()) {
                begin_anew(shared);
            }
            // An answer was lost, or another agent of this cluster wrote meanwhile.
            write_beat(&shared.config, &api, None).await?
        }
        outcome => outcome?,
    };
    said.heartbeat = written.resource_version();
    // A write is newer than all that was seen before it, unless what was seen is no more.
    if number(said.heartbeat.as_deref()).is_some_and(|version| version < seen) {
        begin_anew(shared);
    }
    Ok(())
}

fn is_of_another(lease: &Lease, config: &Config) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
    holder.is_some_and(|holder| *holder != config.identity)
}

/// The hub has less than this agent left or saw there: it was restored from a backup, and hands out again revisions that
/// mean something else to whoever watches.
fn begin_anew(shared: &Shared) {
    tracing::warn!("the hub is older than it was; beginning anew");
    shared.turned_back.notify_one();
}

fn number(version: Option<&str>) -> Option<u64> {
    version.and_then(|text| text.parse().ok())
}

/// Writes the heartbeat over the version that is expected there, if any.
async fn write_beat(config: &Config, api: &Api<Lease>, over: Option<String>) -> Result<Lease, Error> {
    let spec = LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: i32::try_from(config.dead_after.as_secs().max(1)).ok(),
        renew_time: Some(MicroTime(config.clock.now())),
        ..LeaseSpec::default()
    };
    let name = Some(HEARTBEAT.to_owned());
    let metadata = ObjectMeta { name, resource_version: over, ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    api.patch(HEARTBEAT, &apply_params(), &Patch::Apply(&lease)).await
}

/// Says who the cluster is. The hub refuses a second cluster with the same id.
async fn introduce(shared: &Shared) -> Result<(), Error> {
    state(&shared.config, &shared.hub, &apply_params()).await
}

/// Asks the hub whether it would take the cluster, without changing anything.
pub(crate) async fn rehearse(config: &Config, hub: &Client) -> Result<(), Error> {
    state(config, hub, &apply_params().dry_run()).await
}

async fn state(config: &Config, hub: &Client, params: &PatchParams) -> Result<(), Error> {
    let namespace = names::hub_namespace(&config.cluster);
    let spec = MembershipSpec {
        cluster: config.cluster.to_string(),
        identity: config.identity.clone(),
        pod_cidrs: config.pod_cidrs.clone(),
        region: config.region.clone(),
    };
    let api: Api<Membership> = Api::namespaced(hub.clone(), &namespace);
    api.patch(STATEMENT, params, &Patch::Apply(&Membership::new(STATEMENT, spec))).await.map(|_| ())
}

fn status(report: &Report) -> MembershipStatus {
    let text = |version: Option<u64>| version.map(|version| version.to_string());
    let more = report.failures.len().saturating_sub(MOST_FAILURES);
    MembershipStatus {
        watermark: text(report.offers),
        slice_watermark: text(report.slices),
        failures: report.failures.iter().take(MOST_FAILURES).cloned().collect(),
        more_failures: i32::try_from(more).unwrap_or(i32::MAX),
        agent_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

async fn publish(shared: &Shared, status: &MembershipStatus) -> Result<(), Error> {
    let namespace = names::hub_namespace(&shared.config.cluster);
    let api: Api<Membership> = Api::namespaced(shared.hub.clone(), &namespace);
    let body = json!({
        "apiVersion": "tombolo.dev/v1alpha1",
        "kind": "Membership",
        "metadata": {"name": STATEMENT},
        "status": status,
    });
    api.patch_status(STATEMENT, &apply_params(), &Patch::Apply(&body)).await.map(|_| ())
}
