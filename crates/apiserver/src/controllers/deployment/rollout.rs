//! One step from the old template to the new one.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::{ownership, pod_state};
use super::scaling::Limits;
use super::sets::{self, Sets, Step};
use super::template;

/// The next steps of a rolling update: the new set grows as far as the surge allows, then old ones shrink as far as
/// enough pods stay available.
pub(super) fn rolling(deployment: &Deployment, sets: &Sets<'_>) -> Vec<Step> {
    let limits = Limits::of(deployment);
    let Some(new) = sets.new else {
        let room = (limits.most() - sets.total()).clamp(0, limits.replicas);
        return creation(deployment, sets, room);
    };
    let size = grown(sets::replicas(new), sets.total(), limits);
    let mut steps: Vec<Step> = sets::scale(new, size, &limits.notes()).into_iter().collect();
    if steps.is_empty() {
        steps = shrink(sets, limits);
    }
    steps
}

fn grown(size: i32, total: i32, limits: Limits) -> i32 {
    if size >= limits.replicas {
        return limits.replicas;
    }
    let room = (limits.most() - total).max(0);
    size + room.min(limits.replicas - size)
}

/// Makes old sets smaller: first by pods that are of no use anyway, then by as many as may be missing.
fn shrink(sets: &Sets<'_>, limits: Limits) -> Vec<Step> {
    let Some(new) = sets.new else { return Vec::new() };
    let not_yet = (sets::replicas(new) - sets::available(new)).max(0);
    let mut room = sets.total() - limits.least_available() - not_yet;
    let mut spare = sets.available() - limits.least_available();
    let mut steps = Vec::new();
    for old in &sets.old {
        let (size, available) = (sets::replicas(old), sets::available(old).min(sets::replicas(old)));
        let useless = (size - available).clamp(0, room.max(0));
        let useful = available.min(spare.max(0)).min((room - useless).max(0));
        if useless + useful > 0 {
            steps.extend(sets::scale(old, size - useless - useful, &limits.notes()));
        }
        room -= useless + useful;
        spare -= useful;
    }
    steps
}

/// The next steps of a recreation: all old pods go before the first new one comes.
pub(super) fn recreate(deployment: &Deployment, sets: &Sets<'_>, pods: &[Arc<Pod>]) -> Vec<Step> {
    let limits = Limits::of(deployment);
    let active = sets.old.iter().filter(|old| sets::replicas(old) > 0);
    let steps: Vec<Step> = active.filter_map(|old| sets::scale(old, 0, &limits.notes())).collect();
    if !steps.is_empty() || is_any_old_pod_left(sets, pods) {
        return steps;
    }
    match sets.new {
        None => creation(deployment, sets, limits.replicas),
        Some(new) => sets::scale(new, limits.replicas, &limits.notes()).into_iter().collect(),
    }
}

fn is_any_old_pod_left(sets: &Sets<'_>, pods: &[Arc<Pod>]) -> bool {
    let old: Vec<String> = sets.old.iter().filter_map(|set| set.uid()).collect();
    pods.iter().any(|pod| {
        let owner = ownership::controller_of(&**pod);
        !pod_state::is_finished(pod) && owner.is_some_and(|owner| old.contains(&owner.uid))
    })
}

fn creation(deployment: &Deployment, sets: &Sets<'_>, replicas: i32) -> Vec<Step> {
    let mut notes = sets::notes(deployment, sets);
    notes.extend(Limits::of(deployment).notes());
    let set = template::set(deployment, replicas, notes);
    set.map(|set| Step::Create(Box::new(set))).into_iter().collect()
}

/// Old sets that nobody will go back to.
pub(super) fn clean_up(deployment: &Deployment, sets: &Sets<'_>) -> Vec<Step> {
    let limit = deployment.spec.revision_history_limit.unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let is_empty = |set: &ReplicaSet| {
        let observed = set.status.as_ref().and_then(|status| status.observed_generation);
        let running = set.status.as_ref().map_or(0, |status| status.replicas);
        sets::replicas(set) == 0 && running == 0 && observed >= set.metadata.generation
    };
    let alive = sets.old.iter().filter(|set| set.metadata.deletion_timestamp.is_none());
    let mut alive: Vec<_> = alive.copied().collect();
    alive.sort_by_key(|set| sets::revision(set));
    let surplus = alive.len().saturating_sub(limit);
    let doomed = alive.into_iter().take(surplus).filter(|set| is_empty(set));
    doomed.map(|set| Step::Delete { name: set.name_any(), uid: set.uid().unwrap_or_default() }).collect()
}
