//! What a ReplicaSet lacks and what it has too much of.

use std::borrow::Borrow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::super::ownership::{self, Claim};
use super::super::{moment, pod_state};
use super::ranking;

/// The most pods made or deleted before looking again.
const BURST: usize = 500;

/// A pod about which something is done, with the uid that guards it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Chosen {
    fn of(pod: &Pod) -> Self {
        Self { name: pod.name_any(), uid: pod.uid().unwrap_or_default() }
    }
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) adopt: Vec<Chosen>,
    pub(super) release: Vec<Chosen>,
    pub(super) create: usize,
    pub(super) delete: Vec<Chosen>,
}

impl Moves {
    /// Whether there is nothing to do that needs a second look at the server; releasing does not.
    pub(super) fn is_empty(&self) -> bool {
        self.adopt.is_empty() && self.create == 0 && self.delete.is_empty()
    }
}

/// What has to happen so that `set` has as many pods as it should. `pods` may be all of the namespace.
pub(super) fn moves<P: Borrow<Pod>>(set: &ReplicaSet, pods: &[P]) -> Moves {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let alive = set.metadata.deletion_timestamp.is_none();
    let mut moves = Moves::default();
    let mut active = Vec::new();
    for pod in pods.iter().map(Borrow::borrow) {
        match ownership::claim(pod, uid, &set.spec.selector, alive) {
            Claim::Mine => {}
            Claim::Adopt if pod_state::is_active(pod) => moves.adopt.push(Chosen::of(pod)),
            Claim::Release => {
                moves.release.push(Chosen::of(pod));
                continue;
            }
            Claim::Adopt | Claim::Foreign => continue,
        }
        active.extend(pod_state::is_active(pod).then_some(pod));
    }
    if alive {
        count(&mut moves, active, set.spec.replicas.unwrap_or(1));
    }
    moves
}

fn count(moves: &mut Moves, mut active: Vec<&Pod>, wanted: i32) {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if active.len() < wanted {
        moves.create = (wanted - active.len()).min(BURST);
    } else if active.len() > wanted {
        let surplus = (active.len() - wanted).min(BURST);
        ranking::sort(&mut active);
        moves.delete = active.into_iter().take(surplus).map(Chosen::of).collect();
    }
}

/// A pod as the set's template describes it.
pub(super) fn pod(set: &ReplicaSet) -> Option<Pod> {
    let template = set.spec.template.as_ref()?;
    let described = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", set.name_any())),
        namespace: set.namespace(),
        labels: described.labels,
        annotations: described.annotations,
        finalizers: described.finalizers,
        owner_references: Some(vec![ownership::reference(set)?]),
        ..ObjectMeta::default()
    };
    Some(Pod { metadata, spec: template.spec.clone(), status: None })
}

/// The status of `set`, and after which time it may change by itself.
pub(super) fn status<P: Borrow<Pod>>(
    set: &ReplicaSet,
    pods: &[P],
    failure: Option<&str>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let owned = pods.iter().map(Borrow::borrow).filter(|pod| ownership::is_controlled_by(*pod, uid));
    let active: Vec<&Pod> = owned.filter(|pod| pod_state::is_active(pod)).collect();
    let seconds = set.spec.min_ready_seconds.unwrap_or(0);
    let waits = active.iter().filter_map(|pod| pod_state::until_available(pod, seconds, now));
    let (over, left): (Vec<Duration>, Vec<Duration>) = waits.partition(Duration::is_zero);
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let some = |count: usize| (count > 0).then(|| number(count));
    let status = ReplicaSetStatus {
        replicas: number(active.len()),
        fully_labeled_replicas: some(active.iter().filter(|pod| is_fully_labeled(set, pod)).count()),
        ready_replicas: some(over.len() + left.len()),
        available_replicas: some(over.len()),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, now),
        ..ReplicaSetStatus::default()
    };
    (status, left.into_iter().min())
}

fn is_fully_labeled(set: &ReplicaSet, pod: &Pod) -> bool {
    let template = set.spec.template.as_ref();
    let labels = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    labels.into_iter().flatten().all(|(name, value)| pod.labels().get(name) == Some(value))
}

/// Everything others put there, and whether pods could not be made.
fn conditions(set: &ReplicaSet, failure: Option<&str>, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    const FAILURE: &str = "ReplicaFailure";
    let current = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let known = current.iter().find(|condition| condition.type_.as_deref() == Some(FAILURE)).cloned();
    let mut conditions = current;
    conditions.retain(|condition| condition.type_.as_deref() != Some(FAILURE));
    if let Some(message) = failure {
        let since = known.and_then(|known| known.last_transition_time);
        conditions.push(ReplicaSetCondition {
            type_: Some(FAILURE.to_owned()),
            status: Some("True".to_owned()),
            reason: Some("FailedCreate".to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: since.or(Some(moment::time(now))),
        });
    }
    (!conditions.is_empty()).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn set(replicas: i32, extra: Value) -> ReplicaSet {
        let mut set = json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "me", "generation": 3},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
            },
        });
        json_patch::merge(&mut set, &extra);
        from_value(set).unwrap()
    }

    fn pod(name: &str, extra: Value) -> Pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "me", "controller": true});
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": [owner],
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
        });
        json_patch::merge(&mut pod, &extra);
        from_value(pod).unwrap()
    }

    fn names(pods: &[Chosen]) -> Vec<&str> {
        pods.iter().map(|pod| pod.name.as_str()).collect()
    }

    #[test]
    fn the_difference_is_made_or_deleted() {
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let pods =
            [pod("a", json!({})), pod("b", not_ready), pod("c", json!({"status": {"phase": "Failed"}}))];
        let cases = [(4, 2, vec![]), (2, 0, vec![]), (1, 0, vec!["b"]), (0, 0, vec!["b", "a"])];
        for (replicas, create, delete) in cases {
            let moves = moves(&set(replicas, json!({})), &pods);
            assert_eq!((moves.create, names(&moves.delete)), (create, delete), "{replicas} replicas");
        }
    }

    #[test]
    fn pods_are_adopted_and_released_by_their_labels() {
        let orphan = json!({"metadata": {"ownerReferences": null}});
        let strange = json!({"metadata": {"labels": {"app": "other"}}});
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let pods = [pod("orphan", orphan), pod("strange", strange), pod("going", going)];
        let found = moves(&set(2, json!({})), &pods);
        assert_eq!(
            (names(&found.adopt), names(&found.release), found.create),
            (vec!["orphan"], vec!["strange"], 1)
        );
    }

    #[test]
    fn a_set_on_its_way_out_does_nothing() {
        let going = set(2, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(moves::<Pod>(&going, &[]).is_empty());
    }

    #[test]
    fn a_pod_counts_as_available_after_its_probation() {
        let set = set(2, json!({"spec": {"minReadySeconds": 30}}));
        let pods = [pod("a", json!({})), pod("b", json!({"metadata": {"labels": {"extra": "x"}}}))];
        let at = |time: &str| status(&set, &pods, None, time.parse().unwrap());
        let (early, again) = at("2026-01-01T00:00:30Z");
        assert_eq!((early.ready_replicas, early.available_replicas), (Some(2), None));
        assert_eq!(again, Some(Duration::from_secs(10)));
        let (late, again) = at("2026-01-01T00:00:40Z");
        assert_eq!((late.available_replicas, late.fully_labeled_replicas, again), (Some(2), Some(2), None));
        assert_eq!(late.observed_generation, Some(3));
    }

    #[test]
    fn a_failure_shows_until_it_is_over() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (failed, _) = status::<Pod>(&set(1, json!({})), &[], Some("quota"), now);
        let condition = &failed.conditions.as_ref().unwrap()[0];
        assert_eq!(
            (condition.type_.as_deref(), condition.message.as_deref()),
            (Some("ReplicaFailure"), Some("quota"))
        );
        let set = ReplicaSet { status: Some(failed), ..set(1, json!({})) };
        assert_eq!(status::<Pod>(&set, &[], None, now).0.conditions, None);
    }
}
