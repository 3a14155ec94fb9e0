//! What a Deployment says about itself.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use kube::ResourceExt;

use super::super::moment;
use super::scaling::Limits;
use super::sets::Sets;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const COMPLETE: &str = "NewReplicaSetAvailable";
const CREATED: &str = "NewReplicaSetCreated";
const PAUSED: &str = "DeploymentPaused";
const LATE: &str = "ProgressDeadlineExceeded";

/// A condition before it is compared with the one that is there.
struct Finding {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
    /// Progress moves the time of the last update even when nothing else changes.
    renew: bool,
}

/// The status of a deployment with these sets.
pub(super) fn status(deployment: &Deployment, sets: &Sets<'_>, now: Timestamp) -> DeploymentStatus {
    let before = deployment.status.clone().unwrap_or_default();
    let some = |count: i32| (count > 0).then_some(count);
    let count = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let available = sets.available();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sets.all().map(count).sum()),
        updated_replicas: some(sets.new.map_or(0, count)),
        ready_replicas: some(sets.all().map(ready).sum()),
        available_replicas: some(available),
        unavailable_replicas: some(sets.total() - available),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
        ..DeploymentStatus::default()
    };
    let findings =
        [progress(deployment, sets, &before, &status, now), Some(availability(deployment, available))];
    for finding in findings.into_iter().flatten() {
        record(&mut status, finding, now);
    }
    status
}

fn availability(deployment: &Deployment, available: i32) -> Finding {
    let enough = available >= Limits::of(deployment).least_available();
    let (status, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    Finding { kind: AVAILABLE, status, reason, message: message.to_owned(), renew: false }
}

/// How the rollout goes; nothing when what was said before still holds.
fn progress(
    deployment: &Deployment,
    sets: &Sets<'_>,
    before: &DeploymentStatus,
    after: &DeploymentStatus,
    now: Timestamp,
) -> Option<Finding> {
    deadline(deployment)?;
    let said = find(before, PROGRESSING);
    let reason = said.and_then(|said| said.reason.as_deref());
    let found = |status, reason, message: String, renew| {
        Some(Finding { kind: PROGRESSING, status, reason, message, renew })
    };
    if deployment.spec.paused == Some(true) {
        return found("Unknown", PAUSED, "Deployment is paused".to_owned(), false);
    }
    let name = sets.new?.name_any();
    if is_complete(deployment, after) {
        return found("True", COMPLETE, format!("ReplicaSet {name:?} has successfully progressed."), false);
    }
    match reason {
        None => found("True", CREATED, format!("Created new replica set {name:?}"), true),
        Some(PAUSED) => found("Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), true),
        Some(COMPLETE) if after.replicas == after.updated_replicas => None,
        Some(COMPLETE) => found("True", CREATED, format!("Created new replica set {name:?}"), true),
        _ if has_progressed(before, after) => {
            found("True", "ReplicaSetUpdated", format!("ReplicaSet {name:?} is progressing."), true)
        }
        _ if until_late(deployment, said, now) == Some(Duration::ZERO) => {
            found("False", LATE, format!("ReplicaSet {name:?} has timed out progressing."), false)
        }
        _ => None,
    }
}

/// Whether every pod is of the new template and available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = Limits::of(deployment).replicas;
    [status.updated_replicas, status.replicas, status.available_replicas]
        .into_iter()
        .all(|count| count.unwrap_or(0) == wanted)
}

fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn deadline(deployment: &Deployment) -> Option<i64> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != i32::MAX).then(|| seconds.into())
}

fn until_late(
    deployment: &Deployment,
    said: Option<&DeploymentCondition>,
    now: Timestamp,
) -> Option<Duration> {
    let since = said?.last_update_time.as_ref()?.0.as_second();
    let left = since.saturating_add(deadline(deployment)?).saturating_sub(now.as_second());
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

/// When to look again although nothing happened: a rollout may be late then.
pub(super) fn look_again(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let said = find(status, PROGRESSING)?;
    if matches!(said.reason.as_deref(), Some(COMPLETE | PAUSED | LATE)) {
        return None;
    }
    until_late(deployment, Some(said), now).map(|left| left.max(Duration::from_secs(1)))
}

fn find<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_.as_deref() == Some(kind))
}

fn record(status: &mut DeploymentStatus, finding: Finding, now: Timestamp) {
    let said = find(status, finding.kind).cloned();
    let same = |said: &DeploymentCondition| {
        said.status.as_deref() == Some(finding.status)
            && said.reason.as_deref() == Some(finding.reason)
            && said.message.as_deref() == Some(finding.message.as_str())
    };
    if !finding.renew && said.as_ref().is_some_and(same) {
        return;
    }
    let now = moment::time(now);
    let unchanged = said.filter(|said| said.status.as_deref() == Some(finding.status));
    let condition = DeploymentCondition {
        type_: Some(finding.kind.to_owned()),
        status: Some(finding.status.to_owned()),
        reason: Some(finding.reason.to_owned()),
        message: Some(finding.message),
        last_update_time: Some(now.clone()),
        last_transition_time: unchanged.and_then(|said| said.last_transition_time).or(Some(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|known| known.type_.as_deref() == Some(finding.kind)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
