//! Noticing that the API server is older than it was.
//!
//! One that was restored from a backup hands out again revisions that mean something else to whoever watches, so caches
//! may go on showing what is no more. The hub leaves a mark and looks whether it is still there: if not, everything has to
//! be read anew. A backup that is younger than the last mark cannot be told from none.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::shared::{Shared, WRITER};

/// The Lease that is the mark.
const MARK: &str = "tombolo-hub-mark";
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// Waits until the API server has gone back. Where no mark can be left, that is never noticed.
pub(crate) async fn gone_back(shared: Arc<Shared>) {
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), &shared.config.namespace);
    let mut ticks = interval(RENEW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = None;
    loop {
        ticks.tick().await;
        match timeout(RENEW_EVERY, renew(&shared, &api, &mut left)).await {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "no mark was left"),
            Err(_) => tracing::debug!("no mark was left in time"),
        }
    }
}

/// Leaves the mark anew, and says whether the former one has gone.
async fn renew(shared: &Shared, api: &Api<Lease>, left: &mut Option<String>) -> Result<bool, Error> {
    let written = match write(shared, api, left.clone()).await {
        // A conflict, or, where there is nothing any more, a complaint that there should be.
        Err(Error::Api(_)) if left.is_some() => {
            let held = api.get_opt(MARK).await?.and_then(|lease| lease.resource_version());
            if number(held.as_deref()) < number(left.as_deref()) {
                return Ok(true);
            }
            // An answer was lost, or a hub on its way out wrote meanwhile.
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
        ObjectMeta { name: Some(MARK.to_owned()), resource_version: over, ..ObjectMeta::default() };
    let lease = Lease { metadata, spec: Some(spec) };
    api.patch(MARK, &PatchParams::apply(WRITER).force(), &Patch::Apply(&lease)).await
}

fn number(version: Option<&str>) -> Option<u64> {
    version.and_then(|text| text.parse().ok())
}
