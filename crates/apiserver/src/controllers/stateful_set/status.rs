//! What a StatefulSet says about itself.

use std::borrow::Borrow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::{ownership, pod_state};
use super::member::REVISION;
use super::plan;
use super::revision::History;

/// The status of `set`, and after which time it may change by itself. `pods` may be all of the namespace.
pub(super) fn status<P: Borrow<Pod>>(
    set: &StatefulSet,
    history: &History<'_>,
    pods: &[P],
    now: Timestamp,
) -> (StatefulSetStatus, Option<Duration>) {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let own = pods.iter().map(Borrow::borrow).filter(|pod| ownership::is_controlled_by(*pod, uid));
    let there: Vec<&Pod> = own.filter(|pod| !pod_state::is_finished(pod)).collect();
    let seconds = set.spec.min_ready_seconds.unwrap_or(0);
    let waits = there.iter().filter_map(|pod| pod_state::until_available(pod, seconds, now));
    let (over, left): (Vec<Duration>, Vec<Duration>) = waits.partition(Duration::is_zero);
    let active = there.iter().filter(|pod| pod_state::is_active(pod));
    let runs = |name: &str| {
        active.clone().filter(|pod| pod.labels().get(REVISION).is_some_and(|found| found == name)).count()
    };
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let some = |count: usize| (count > 0).then(|| number(count));
    let before = set.status.clone().unwrap_or_default();
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: number(there.len()),
        ready_replicas: some(over.len() + left.len()),
        available_replicas: Some(number(over.len())),
        current_replicas: some(runs(&history.current.name)),
        updated_replicas: some(runs(&history.update.name)),
        current_revision: Some(history.current.name.clone()),
        update_revision: Some(history.update.name.clone()),
        collision_count: Some(before.collision_count.unwrap_or(0)),
        conditions: before.conditions,
    };
    if is_complete(set, &status) {
        status.current_revision = status.update_revision.clone();
        status.current_replicas = status.updated_replicas;
    }
    (status, left.into_iter().min())
}

/// Whether all pods have the new template and are ready.
fn is_complete(set: &StatefulSet, status: &StatefulSetStatus) -> bool {
    let all = |count: Option<i32>| count.unwrap_or(0) == status.replicas;
    plan::is_rolling(set)
        && plan::partition(set) == 0
        && status.replicas == set.spec.replicas.unwrap_or(1)
        && all(status.updated_replicas)
        && all(status.ready_replicas)
}
