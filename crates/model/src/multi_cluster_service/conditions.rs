//! What is said on a MultiClusterService: the three conditions of Karmada's proposal.
//!
//! Each is `True` only when every cluster it speaks of has confirmed. Otherwise it names the cluster and the object, and
//! whether something failed or is only waited for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tombolo_api::condition::{Desired, Status, find};
use tombolo_api::karmada::networking::{
    COLLECTED_CONDITION, COLLECTED_IN_PART, MultiClusterServiceCondition as Type,
    MultiClusterServiceReason as Reason,
};
use tombolo_api::karmada::strategy::MultiClusterStrategy;
use tombolo_api::karmada::work::{Work, WorkCondition, WorkReason};

use super::{Listed, Place, Plan, Refusal, Roles, View, place};
use crate::address::Dropped;
use crate::happening::Happening;
use crate::names;
use crate::strategy::of_multi_cluster_service;
use crate::verdict::listing;

const SERVICE_APPLIED: &str = "Service is propagated to target clusters.";
const COLLECTED: &str = "EndpointSlices are collected from provision clusters.";
const LEFT_OUT: &str = "Endpoints are left out of";
const APPLIED: &str = "EndpointSlices are propagated to target clusters.";
const NO_CLUSTER: &str = "there is no such cluster";
const NOT_READY: &str = "the cluster is not ready";

/// The conditions of a MultiClusterService whose Works are, or are about to be, as planned.
pub(super) fn tell(view: &View<'_>, roles: &Roles<'_>, plan: &Plan) -> Vec<Desired> {
    let held: Held<'_> = view.works.iter().map(|work| (place(work), *work)).collect();
    let (service, collected, applied) = match view.template {
        Some(_) => (
            left_over(view, &held, plan, "Service").chain(service(view, &held, roles)).collect(),
            collected(view, &held, roles),
            left_over(view, &held, plan, "EndpointSlice").chain(applied(view, &held, roles, plan)).collect(),
        ),
        None => {
            let missing =
                format!("Failed to propagate Service {}: there is no such Service at the hub", name(view));
            let waiting = format!("Waiting for Service {} at the hub", name(view));
            (vec![missing], vec![waiting.clone()], vec![waiting])
        }
    };
    // What is still to be reported cannot be in the consumers.
    let awaited = collected.iter().filter(|problem| !is_failure(problem)).cloned();
    let applied = if view.template.is_some() { awaited.chain(applied).collect() } else { applied };
    let all_collected = format!("{COLLECTED}{}", left_out(view, &held, roles, plan));
    let one = |type_, reasons, good: &str, problems| condition(view, type_, reasons, good, problems);
    vec![
        one(
            Type::ServiceApplied,
            (Reason::ServiceAppliedSuccess, Reason::ServiceAppliedFailed),
            SERVICE_APPLIED,
            service,
        ),
        one(
            Type::EndpointSliceCollected,
            (Reason::EndpointSliceCollectedSuccess, Reason::EndpointSliceCollectedFailed),
            &all_collected,
            collected,
        ),
        one(
            Type::EndpointSliceApplied,
            (Reason::EndpointSliceAppliedSuccess, Reason::EndpointSliceAppliedFailed),
            APPLIED,
            applied,
        ),
    ]
}

/// The conditions of one for which nothing is done.
pub(super) fn refuse(view: &View<'_>, refusal: &Refusal) -> Vec<Desired> {
    let types = [
        (Type::ServiceApplied, Reason::ServiceAppliedFailed),
        (Type::EndpointSliceCollected, Reason::EndpointSliceCollectedFailed),
        (Type::EndpointSliceApplied, Reason::EndpointSliceAppliedFailed),
    ];
    let problem = || vec![format!("Failed: {refusal}")];
    types.into_iter().map(|(type_, reason)| condition(view, type_, (reason, reason), "", problem())).collect()
}

fn condition(
    view: &View<'_>,
    type_: Type,
    (success, failure): (Reason, Reason),
    good: &str,
    mut problems: Vec<String>,
) -> Desired {
    // What failed is more urgent than what is waited for.
    problems.sort_by_key(|problem| !is_failure(problem));
    let fine = problems.is_empty();
    let message = if fine { good.to_owned() } else { format!("{}.", listing(problems.iter(), "; ")) };
    Desired::new(type_, fine, if fine { success } else { failure }, message)
        .observed(view.object.metadata.generation)
}

fn is_failure(problem: &str) -> bool {
    problem.starts_with("Failed")
}

fn name(view: &View<'_>) -> String {
    let service = view.service();
    format!("{}/{}", service.namespace, service.name)
}

/// The Works that are there, by place.
pub(super) type Held<'a> = BTreeMap<Place, &'a Work>;

fn service(view: &View<'_>, held: &Held<'_>, roles: &Roles<'_>) -> Vec<String> {
    let mut targets = roles.provision.clone();
    targets.extend(roles.consumption.iter());
    let object = format!("Service {}", name(view));
    let failed = |cluster: &str, why: &str| format!("Failed to apply {object} in {cluster}: {why}");
    let problem = |(cluster, member): (&&str, &Option<&super::Member>)| {
        let Some(member) = member else { return Some(failed(cluster, NO_CLUSTER)) };
        if let Some(why) = service_place(view, cluster).and_then(|place| view.unwritten.get(&place)) {
            return Some(not_written(&object, cluster, why));
        }
        match service_work(view, held, cluster) {
            Some(work) if is_confirmed(work) => None,
            Some(work) if failure(work, WorkCondition::Applied.as_str()).is_some() => {
                failure(work, WorkCondition::Applied.as_str()).map(|why| failed(cluster, &why))
            }
            _ if !member.ready => Some(failed(cluster, NOT_READY)),
            _ => Some(format!("Waiting for {object} in {cluster}")),
        }
    };
    targets.iter().filter_map(problem).collect()
}

/// What is said of an object whose Work could not be written.
fn not_written(object: &str, cluster: &str, why: &Option<String>) -> String {
    match why {
        Some(why) => format!("Failed to write the Work of {object} for {cluster}: {}", trimmed(why)),
        None => format!("Waiting for {object} in {cluster}"),
    }
}

/// What is said of Works for objects of a kind that should have gone and could not be removed.
fn left_over(view: &View<'_>, held: &Held<'_>, plan: &Plan, kind: &str) -> impl Iterator<Item = String> {
    let stays = |place: &Place| plan.works.contains_key(place) || plan.keep.contains(place);
    let goes = view.unwritten.iter().filter(|(place, _)| !stays(place));
    let problem = |(place, why): (&Place, &Option<String>)| {
        let object = object_in(held.get(place)?, kind)?;
        let why = why.as_deref()?;
        let cluster = cluster_at(place);
        Some(format!("Failed to remove the Work of {object} for {cluster}: {}", trimmed(why)))
    };
    goes.filter_map(problem).collect::<Vec<_>>().into_iter()
}

/// The object in a Work, if it is of this kind: kind, namespace and name.
fn object_in(work: &Work, kind: &str) -> Option<String> {
    let manifest = work.spec.workload.as_ref()?.manifests.first()?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &manifest["metadata"];
    (manifest["kind"] == kind)
        .then(|| format!("{kind} {}/{}", text(&metadata["namespace"]), text(&metadata["name"])))
}

/// The cluster whose execution namespace it is.
fn cluster_at(place: &Place) -> &str {
    place.0.strip_prefix(tombolo_api::karmada::EXECUTION_NAMESPACE_PREFIX).unwrap_or(&place.0)
}

/// The Work that brings the Service to a cluster.
pub(super) fn service_work<'a>(view: &View<'_>, held: &Held<'a>, cluster: &str) -> Option<&'a Work> {
    held.get(&service_place(view, cluster)?).copied()
}

fn service_place(view: &View<'_>, cluster: &str) -> Option<Place> {
    let (id, _) = view.members.get_key_value(cluster)?;
    Some((names::execution_namespace(id)?, names::service_work(&view.service())))
}

fn collected(view: &View<'_>, held: &Held<'_>, roles: &Roles<'_>) -> Vec<String> {
    let failed = |cluster: &str, why: &str| format!("Failed to list&watch EndpointSlice in {cluster}: {why}");
    let problem = |(cluster, member): (&&str, &Option<&super::Member>)| {
        let Some(member) = member else { return Some(failed(cluster, NO_CLUSTER)) };
        if !member.ready {
            return Some(failed(cluster, NOT_READY));
        }
        let work = service_work(view, held, cluster);
        match work.and_then(|work| find(conditions(work), COLLECTED_CONDITION)) {
            Some(condition) if condition.status == Status::True.as_str() => None,
            Some(condition) => Some(failed(cluster, trimmed(&condition.message))),
            None => Some(format!("Waiting for EndpointSlices of {} from {cluster}", name(view))),
        }
    };
    roles.provision.iter().filter_map(problem).collect()
}

/// What is to be said of endpoints that are not sent to anybody. Only the reasons: numbers change with every pod.
fn left_out(view: &View<'_>, held: &Held<'_>, roles: &Roles<'_>, plan: &Plan) -> String {
    let of_cluster = |cluster: &&str| {
        let told =
            service_work(view, held, cluster).and_then(|work| find(conditions(work), COLLECTED_CONDITION));
        let told = told.filter(|told| told.reason == COLLECTED_IN_PART).map(|told| trimmed(&told.message));
        let here = plan.left_out.get(*cluster).map(reasons_of);
        let reasons: Vec<String> = told.map(str::to_owned).into_iter().chain(here).collect();
        (!reasons.is_empty()).then(|| format!("{cluster} ({})", reasons.join(", ")))
    };
    let clusters: Vec<String> = roles.provision.keys().filter_map(of_cluster).collect();
    if clusters.is_empty() {
        return String::new();
    }
    format!(" {LEFT_OUT} {}.", listing(clusters.iter(), "; "))
}

/// The reasons why endpoints are left out, in words.
pub fn reasons_of<'a>(reasons: impl IntoIterator<Item = &'a Dropped>) -> String {
    let words: Vec<&str> = reasons.into_iter().map(|reason| reason.as_str()).collect();
    words.join(", ")
}

fn applied(view: &View<'_>, held: &Held<'_>, roles: &Roles<'_>, plan: &Plan) -> Vec<String> {
    let mut problems = absent(&roles.consumption);
    for (place, work) in &plan.works {
        let Some(slice) = object_in(work, "EndpointSlice") else { continue };
        let cluster = cluster_at(place);
        if !roles.consumption.get(cluster).copied().flatten().is_some_and(|member| member.ready) {
            continue;
        }
        if let Some(why) = view.unwritten.get(place) {
            problems.push(not_written(&slice, cluster, why));
            continue;
        }
        let condition = held.get(place).and_then(|work| find(conditions(work), WorkCondition::Applied));
        match condition {
            Some(condition) if condition.status == Status::True.as_str() => {
                // One that came and went as it was needed need not be there, and now it should be.
                if is_for_now(condition) && !may_be_held_back(work) {
                    problems.push(format!("Waiting for {slice} in {cluster}"));
                }
            }
            Some(condition) => {
                let why = trimmed(&condition.message);
                problems.push(format!("Failed to apply {slice} in {cluster}: {why}"));
            }
            None => problems.push(format!("Waiting for {slice} in {cluster}")),
        }
    }
    problems
}

/// Whether a member confirmed a slice that it was free to take back.
fn is_for_now(applied: &Condition) -> bool {
    [WorkReason::Attached, WorkReason::HeldBack].iter().any(|reason| applied.reason == reason.as_str())
}

/// Whether a planned Work leaves it to the member when its slice stands behind the Service.
fn may_be_held_back(work: &Work) -> bool {
    let annotations = work.metadata.annotations.as_ref();
    annotations.is_some_and(|given| of_multi_cluster_service(given) == Ok(MultiClusterStrategy::LocalFirst))
}

/// Consumers that nothing can be confirmed by.
fn absent(consumption: &Listed<'_>) -> Vec<String> {
    let failed = |cluster: &str, why: &str| format!("Failed to apply EndpointSlices in {cluster}: {why}");
    let problem = |(cluster, member): (&&str, &Option<&super::Member>)| match member {
        None => Some(failed(cluster, NO_CLUSTER)),
        Some(member) if !member.ready => Some(failed(cluster, NOT_READY)),
        Some(_) => None,
    };
    consumption.iter().filter_map(problem).collect()
}

fn conditions(work: &Work) -> &[Condition] {
    work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

/// Whether the member has applied the Work as it is now.
pub fn is_confirmed(work: &Work) -> bool {
    find(conditions(work), WorkCondition::Applied).is_some_and(|applied| {
        applied.status == Status::True.as_str() && applied.observed_generation >= work.metadata.generation
    })
}

/// Why the member could not do what a condition of the Work speaks of.
fn failure(work: &Work, type_: &str) -> Option<String> {
    let condition = find(conditions(work), type_)?;
    (condition.status == Status::False.as_str()).then(|| trimmed(&condition.message).to_owned())
}

/// Without the full stop that the sentence around it will have.
fn trimmed(message: &str) -> &str {
    message.trim_end_matches('.')
}

/// What is worth an event: a condition that came true or ceased to be, and failures that were not told before.
pub fn events(before: &[Condition], now: &[Desired]) -> Vec<Happening> {
    let happened = |condition: &Desired| {
        let was = find(before, &condition.type_);
        let was_true = was.is_some_and(|was| was.status == Status::True.as_str());
        let told = was.is_some_and(|was| was.message == condition.message);
        match condition.status {
            Status::True if !told && condition.message.contains(LEFT_OUT) => {
                Some(Happening::warning("EndpointsLeftOut", &condition.message))
            }
            Status::True if !was_true => Some(Happening::normal(&condition.reason, &condition.message)),
            Status::False if was_true || (is_failure(&condition.message) && !told) => {
                Some(Happening::warning(&condition.reason, &condition.message))
            }
            _ => None,
        }
    };
    now.iter().filter_map(happened).collect()
}
