//! What is said in the status of a Work: whether the member has applied it, and how the objects do there.
//!
//! The two controllers each have a condition in one list. In Karmada's own definition of a Work that list is atomic: whoever
//! writes one condition writes all of them. So all are written, as they were when they were looked at: who comes second gets
//! a conflict and looks again.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};
use tombolo_api::condition::{self, Desired, Status};
use tombolo_api::karmada::networking::{COLLECTED_CONDITION, COLLECTED_IN_PART};
use tombolo_api::karmada::work::{Health, ManifestStatus, Work, WorkCondition, WorkReason};
use tombolo_model::address::DropCount;
use tombolo_model::multi_cluster_service::reasons_of;

use crate::manifest::{Manifest, identifier};
use crate::shared::{Shared, WRITER};

const APPLIED: &str = "Manifest has been successfully applied";

const ATTACHED: &str =
    "Manifest has been successfully applied: attached while too few local endpoints are ready";
const HELD_BACK: &str =
    "Manifest has been successfully applied: held back while enough local endpoints are ready";

/// What became of one manifest, or why nothing did.
pub(crate) type Outcome = Result<Done, String>;

/// What became of all manifests of a Work; one that cannot be read is not there.
pub(crate) type Results = Vec<(Option<Manifest>, Outcome)>;

/// What became of a manifest that could be applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The status of the object in the member.
    pub(crate) status: Option<Value>,
    pub(crate) standing: Standing,
    /// When time alone may change that.
    pub(crate) look_again_in: Option<Duration>,
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    #[default]
    Always,
    /// As long as the strategy needs it.
    Attached,
    /// It is not: the strategy does without it now.
    HeldBack,
}

impl Done {
    pub(crate) fn with_status(status: Option<Value>) -> Self {
        Self { status, ..Self::default() }
    }
}

/// Says what became of a Work. A slice whose endpoints changed and are applied again is no news: only the first success,
/// failures and recoveries are written, so that a change of endpoints costs no write per consumer here.
pub(crate) async fn tell_applied(
    shared: &Shared,
    work: &Work,
    results: &[(Option<Manifest>, Outcome)],
) -> Result<(), Error> {
    let mut conditions = conditions(work);
    let desired = applied(results);
    let only_slices = results.iter().all(|(manifest, _)| matches!(manifest, Some(Manifest::Slice(_))));
    let before = condition::find(&conditions, WorkCondition::Applied);
    let stays = before.filter(|before| {
        only_slices && before.status == Status::True.as_str() && desired.status == Status::True
    });
    let generation = stays.map_or(work.metadata.generation, |stays| stays.observed_generation);
    let now = Time(shared.config.clock.now());
    let news = condition::set(&mut conditions, desired.observed(generation), now);
    let statuses = manifest_statuses(results);
    let same = work.status.as_ref().is_some_and(|status| status.manifest_statuses == statuses);
    if !news && same {
        return Ok(());
    }
    write(shared, work, json!({"conditions": conditions, "manifestStatuses": statuses})).await
}

fn applied(results: &[(Option<Manifest>, Outcome)]) -> Desired {
    let failures: Vec<&str> =
        results.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).map(String::as_str).collect();
    if failures.is_empty() {
        let standing = results.iter().filter_map(|(_, outcome)| Some(outcome.as_ref().ok()?.standing)).max();
        let (reason, message) = match standing.unwrap_or_default() {
            Standing::Always => (WorkReason::AppliedSuccessful, APPLIED),
            Standing::Attached => (WorkReason::Attached, ATTACHED),
            Standing::HeldBack => (WorkReason::HeldBack, HELD_BACK),
        };
        return Desired::new(WorkCondition::Applied, true, reason, message);
    }
    let (done, all) = (results.len() - failures.len(), results.len());
    let message = format!("Failed to apply all manifests ({done}/{all}): {}", failures.join("; "));
    let message: String = message.chars().take(2048).collect();
    Desired::new(WorkCondition::Applied, false, WorkReason::AppliedFailed, message)
}

fn manifest_statuses(results: &[(Option<Manifest>, Outcome)]) -> Vec<ManifestStatus> {
    let one = |(ordinal, (manifest, outcome)): (usize, &(Option<Manifest>, Outcome))| ManifestStatus {
        identifier: identifier(ordinal, manifest.as_ref()),
        status: outcome.as_ref().ok().and_then(|done| done.status.clone()),
        health: Some(if outcome.is_ok() { Health::Healthy } else { Health::Unhealthy }),
    };
    results.iter().enumerate().map(one).collect()
}

/// Says whether the slices of the Service that a Work holds are reported; `None` if they are not to be.
pub(crate) async fn tell_collected(
    shared: &Shared,
    work: &Work,
    outcome: Option<Result<&DropCount, &Error>>,
) -> Result<(), Error> {
    let mut conditions = conditions(work);
    let now = Time(shared.config.clock.now());
    let news = match outcome {
        None => condition::remove(&mut conditions, COLLECTED_CONDITION),
        Some(outcome) => condition::set(&mut conditions, collected(outcome), now),
    };
    if !news {
        return Ok(());
    }
    write(shared, work, json!({"conditions": conditions})).await
}

fn collected(outcome: Result<&DropCount, &Error>) -> Desired {
    match outcome {
        Ok(left_out) if !left_out.is_empty() => {
            Desired::new(COLLECTED_CONDITION, true, COLLECTED_IN_PART, reasons_of(left_out.keys()))
        }
        Ok(_) => Desired::new(COLLECTED_CONDITION, true, "Collected", "EndpointSlices are reported."),
        Err(error) => {
            let message: String = error.to_string().chars().take(1024).collect();
            Desired::new(COLLECTED_CONDITION, false, "CollectFailed", message)
        }
    }
}

fn conditions(work: &Work) -> Vec<Condition> {
    work.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
}

async fn write(shared: &Shared, work: &Work, status: Value) -> Result<(), Error> {
    let api: Api<Work> = Api::namespaced(shared.hub.clone(), &shared.namespace);
    let metadata = json!({"resourceVersion": work.resource_version()});
    let patch = json!({"metadata": metadata, "status": status});
    let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
    let written = api.patch_status(&work.name_any(), &params, &Patch::Merge(&patch)).await;
    tombolo_runtime::unless_gone(written)
}
