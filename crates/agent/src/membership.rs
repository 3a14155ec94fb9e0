//! What the agent says about its cluster at the hub: who it is, that it lives, how far it has come.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tombolo_api::tombolo::{Membership, MembershipSpec};
use tombolo_model::names;

use crate::config::Config;
use crate::progress::Report;
use crate::shared::Shared;
use crate::write::apply_params;

/// The name of a member's heartbeat, in its namespace at the hub.
pub(crate) const HEARTBEAT: &str = "heartbeat";
/// The name of a member's statement, beside it.
pub(crate) const STATEMENT: &str = "member";
/// How often the watermark may move: one small write per member and second, not one per service.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Every member hears of every report, so their number grows with the square of the members. From fifty on each speaks
/// less often, so that together they never say more than fifty reports a second.
const SHARE_OF_MEMBER: Duration = Duration::from_millis(20);
/// As many failures as there is room for.
const MOST_FAILURES: usize = 64;

/// Keeps the member's statement at the hub true, for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut beats = interval(shared.config.heartbeat);
    let mut next_report = Instant::now();
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = false;
    let mut published = None;
    loop {
        tokio::select! {
            biased;
            _ = beats.tick() => {
                let outcome = in_time(&shared, beat(&shared, &mut said)).await;
                shared.hub_contact.note(outcome.is_ok(), Instant::now());
                match outcome {
                    Ok(()) => shared.note_heartbeat(),
                    Err(error) => tracing::warn!(%error, "the heartbeat did not reach the hub"),
                }
            }
            () = sleep_until(next_report) => {
                next_report = Instant::now() + report_pace(&shared);
                let Some(report) = shared.progress.report().filter(|_| said) else { continue };
                if published.as_ref() != Some(&report) {
                    match in_time(&shared, publish(&shared, &report)).await {
                        Ok(()) => published = Some(report),
                        Err(error) => tracing::debug!(%error, "the watermark did not reach the hub"),
                    }
                }
            }
        }
    }
}

fn report_pace(shared: &Shared) -> Duration {
    let members = u32::try_from(shared.members().len()).unwrap_or(u32::MAX);
    REPORT_EVERY.max(SHARE_OF_MEMBER.saturating_mul(members))
}

/// A hub that does not answer within a heartbeat is out of reach.
async fn in_time(shared: &Shared, call: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let answer = tokio::time::timeout(shared.config.heartbeat, call).await;
    answer.unwrap_or_else(|_| Err(Error::Service("the hub does not answer".into())))
}

async fn beat(shared: &Shared, said: &mut bool) -> Result<(), Error> {
    if !*said {
        introduce(shared).await?;
        *said = true;
    }
    let namespace = names::hub_namespace(&shared.config.cluster);
    let api: Api<Lease> = Api::namespaced(shared.hub.clone(), &namespace);
    let spec = LeaseSpec {
        holder_identity: Some(shared.config.identity.clone()),
        lease_duration_seconds: i32::try_from(shared.config.dead_after.as_secs().max(1)).ok(),
        renew_time: Some(MicroTime(shared.config.clock.now())),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(HEARTBEAT.to_owned()), ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    api.patch(HEARTBEAT, &apply_params(), &Patch::Apply(&lease)).await.map(|_| ())
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

async fn publish(shared: &Shared, report: &Report) -> Result<(), Error> {
    let namespace = names::hub_namespace(&shared.config.cluster);
    let api: Api<Membership> = Api::namespaced(shared.hub.clone(), &namespace);
    let text = |version: Option<u64>| version.map(|version| version.to_string());
    let named: Vec<_> = report.failures.iter().take(MOST_FAILURES).collect();
    let status = json!({
        "apiVersion": "tombolo.dev/v1alpha1",
        "kind": "Membership",
        "metadata": {"name": STATEMENT},
        "status": {
            "watermark": text(report.offers),
            "sliceWatermark": text(report.slices),
            "failures": named,
            "moreFailures": report.failures.len() - named.len(),
            "agentVersion": env!("CARGO_PKG_VERSION"),
        },
    });
    api.patch_status(STATEMENT, &apply_params(), &Patch::Apply(&status)).await.map(|_| ())
}
