//! What a Deployment needs next: one round of steps, never more than one ahead of what is seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::scaling;
use super::sets::{self, REVISION, Sets, Step};
use super::{condition, rollout};

/// A deployment, and the sets and pods of its namespace.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) deployment: Arc<Deployment>,
    pub(super) sets: Vec<Arc<ReplicaSet>>,
    pub(super) pods: Vec<Arc<Pod>>,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) status: DeploymentStatus,
    /// When to look again although nothing changed.
    pub(super) again: Option<Duration>,
}

pub(super) fn plan(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let deployment = &snapshot.deployment;
    let sets = Sets::of(deployment, &snapshot.sets);
    let status = condition::status(deployment, &sets, now);
    let again = condition::look_again(deployment, &status, now);
    let steps = if deployment.metadata.deletion_timestamp.is_some() {
        Vec::new()
    } else if !sets.claims.is_empty() {
        sets.claims
    } else {
        steps(snapshot, &sets, &status)
    };
    Plan { steps, status, again }
}

fn steps(snapshot: &Snapshot, sets: &Sets<'_>, status: &DeploymentStatus) -> Vec<Step> {
    let deployment = &snapshot.deployment;
    let paused = deployment.spec.paused == Some(true);
    let mut steps = Vec::new();
    if paused || scaling::is_due(deployment, sets) {
        steps = scaling::steps(deployment, sets);
    }
    if paused {
        return steps;
    }
    if steps.is_empty() {
        steps = sets::refresh(deployment, sets).into_iter().chain(revision(deployment, sets)).collect();
    }
    if steps.is_empty() {
        steps = if scaling::is_rolling(deployment) {
            rollout::rolling(deployment, sets)
        } else {
            rollout::recreate(deployment, sets, &snapshot.pods)
        };
    }
    if steps.is_empty() && condition::is_complete(deployment, status) {
        steps = rollout::clean_up(deployment, sets);
    }
    steps
}

/// The deployment shows the revision of its current set.
fn revision(deployment: &Deployment, sets: &Sets<'_>) -> Option<Step> {
    let noted = sets.new?.annotations().get(REVISION)?;
    if deployment.annotations().get(REVISION) == Some(noted) {
        return None;
    }
    Some(Step::Annotate(BTreeMap::from([(REVISION.to_owned(), noted.clone())])))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::super::template;
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn deployment(image: &str, extra: Value) -> Deployment {
        let mut value = json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "me", "generation": 7},
            "spec": {
                "replicas": 4,
                "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
            },
        });
        json_patch::merge(&mut value, &extra);
        from_value(value).unwrap()
    }

    /// A set of the template with `image`: its size, how many pods are available, its revision.
    fn set(image: &str, size: i32, available: i32, revision: u32) -> ReplicaSet {
        let owner = deployment(image, json!({}));
        let mut notes = scaling::Limits::of(&owner).notes();
        notes.insert(REVISION.to_owned(), revision.to_string());
        let mut set = template::set(&owner, size, notes).unwrap();
        set.metadata.uid = set.metadata.name.clone();
        set.metadata.resource_version = Some(revision.to_string());
        set.metadata.creation_timestamp =
            Some(from_value(json!(format!("2026-01-01T00:00:0{revision}Z"))).unwrap());
        let status = json!({"replicas": size, "availableReplicas": available, "readyReplicas": available});
        set.status = Some(from_value(status).unwrap());
        set
    }

    fn snapshot(deployment: &Deployment, sets: &[ReplicaSet], pods: Vec<Pod>) -> Snapshot {
        let sets = sets.iter().cloned().map(Arc::new).collect();
        Snapshot {
            deployment: Arc::new(deployment.clone()),
            sets,
            pods: pods.into_iter().map(Arc::new).collect(),
        }
    }

    fn steps_of(deployment: Deployment, sets: &[ReplicaSet], pods: Vec<Pod>) -> Vec<String> {
        let names: BTreeMap<String, &str> =
            ["one", "two"].map(|image| (set(image, 0, 0, 1).name_any(), image)).into_iter().collect();
        let called = |name: &str| names.get(name).map_or(name, |image| *image).to_owned();
        let snapshot = snapshot(&deployment, sets, pods);
        let plan = plan(&snapshot, NOW.parse().unwrap());
        plan.steps
            .iter()
            .map(|step| match step {
                Step::Create(set) => {
                    format!("create {} with {}", called(&set.name_any()), sets::replicas(set))
                }
                Step::Patch { name, patch } if patch["spec"]["replicas"].is_i64() => {
                    format!("scale {} to {}", called(name), patch["spec"]["replicas"])
                }
                Step::Patch { name, .. } => format!("note on {}", called(name)),
                Step::Delete { name, .. } => format!("delete {}", called(name)),
                Step::Annotate(notes) => format!("revision {}", notes[REVISION]),
            })
            .collect()
    }

    fn at_revision(revision: &str) -> Value {
        json!({"metadata": {"annotations": {REVISION: revision}}})
    }

    #[test]
    fn a_rollout_goes_step_by_step() {
        let two = || deployment("two", at_revision("2"));
        let one = deployment("one", json!({}));
        let cases: [(Deployment, Vec<ReplicaSet>, Vec<&str>); 12] = [
            (one.clone(), vec![], vec!["create one with 4"]),
            (one, vec![set("one", 4, 0, 1)], vec!["revision 1"]),
            (deployment("one", at_revision("1")), vec![set("one", 4, 4, 1)], vec![]),
            (two(), vec![set("one", 4, 4, 1)], vec!["create two with 1"]),
            (two(), vec![set("one", 4, 4, 1), set("two", 1, 0, 2)], vec!["scale one to 3"]),
            (two(), vec![set("one", 3, 3, 1), set("two", 1, 0, 2)], vec!["scale two to 2"]),
            (two(), vec![set("one", 3, 3, 1), set("two", 2, 0, 2)], vec![]),
            (two(), vec![set("one", 3, 3, 1), set("two", 2, 2, 2)], vec!["scale one to 1"]),
            (two(), vec![set("one", 1, 1, 1), set("two", 2, 2, 2)], vec!["scale two to 4"]),
            (two(), vec![set("one", 1, 1, 1), set("two", 4, 4, 2)], vec!["scale one to 0"]),
            (two(), vec![set("one", 0, 0, 1), set("two", 4, 4, 2)], vec![]),
            // Old pods that do not work are no reason to wait.
            (two(), vec![set("one", 4, 0, 1), set("two", 1, 0, 2)], vec!["scale one to 3"]),
        ];
        for (place, (deployment, sets, expected)) in cases.into_iter().enumerate() {
            assert_eq!(steps_of(deployment, &sets, vec![]), expected, "case {place}");
        }
    }

    #[test]
    fn going_back_makes_an_old_set_the_newest_revision() {
        let back = deployment("one", at_revision("2"));
        let sets = [set("one", 0, 0, 1), set("two", 4, 4, 2)];
        let steps = plan(&snapshot(&back, &sets, vec![]), NOW.parse().unwrap()).steps;
        let Step::Patch { patch, .. } = &steps[0] else { panic!("{steps:?}") };
        assert_eq!(patch["metadata"]["annotations"][REVISION], "3");
        assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    }

    #[test]
    fn a_new_size_reaches_the_set_at_once_even_when_paused() {
        for extra in [json!({"spec": {"replicas": 9}}), json!({"spec": {"replicas": 9, "paused": true}})] {
            assert_eq!(
                steps_of(deployment("one", extra), &[set("one", 4, 4, 1)], vec![]),
                ["scale one to 9"]
            );
        }
        let paused = deployment("two", json!({"spec": {"paused": true}}));
        assert_eq!(steps_of(paused, &[set("one", 4, 4, 1)], vec![]), Vec::<String>::new());
    }

    #[test]
    fn a_recreation_waits_for_the_last_old_pod() {
        let recreate = || {
            let mut deployment = deployment("two", at_revision("2"));
            deployment.spec.strategy = Some(from_value(json!({"type": "Recreate"})).unwrap());
            deployment
        };
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": true,
            "uid": set("one", 0, 0, 1).uid()});
        let pod: Pod = from_value(json!({"metadata": {"name": "p", "deletionTimestamp": NOW,
            "ownerReferences": [owner]}}))
        .unwrap();
        assert_eq!(steps_of(recreate(), &[set("one", 4, 4, 1)], vec![]), ["scale one to 0"]);
        assert_eq!(steps_of(recreate(), &[set("one", 0, 0, 1)], vec![pod]), Vec::<String>::new());
        assert_eq!(steps_of(recreate(), &[set("one", 0, 0, 1)], vec![]), ["create two with 4"]);
    }

    #[test]
    fn only_so_much_history_is_kept() {
        let mut done = deployment("two", at_revision("2"));
        done.spec.revision_history_limit = Some(0);
        assert_eq!(steps_of(done, &[set("one", 0, 0, 1), set("two", 4, 4, 2)], vec![]), ["delete one"]);
    }

    #[test]
    fn progress_and_availability_are_told() {
        let check = |deployment: &Deployment, sets: &[ReplicaSet], now: &str| {
            let plan = plan(&snapshot(deployment, sets, vec![]), now.parse().unwrap());
            let conditions = plan.status.conditions.clone().unwrap_or_default();
            let told: Vec<String> = conditions
                .iter()
                .map(|found| format!("{}={}", found.reason.clone().unwrap(), found.status.clone().unwrap()))
                .collect();
            (Deployment { status: Some(plan.status), ..deployment.clone() }, told.join(" "), plan.again)
        };
        let fresh = deployment("one", at_revision("1"));
        let (waiting, told, again) = check(&fresh, &[set("one", 4, 0, 1)], NOW);
        assert_eq!(told, "NewReplicaSetCreated=True MinimumReplicasUnavailable=False");
        assert_eq!(again, Some(Duration::from_secs(600)));
        let (half, told, _) = check(&waiting, &[set("one", 4, 3, 1)], "2026-01-01T00:11:00Z");
        assert_eq!(told, "ReplicaSetUpdated=True MinimumReplicasAvailable=True");
        let (same, _, again) = check(&half, &[set("one", 4, 3, 1)], "2026-01-01T00:12:00Z");
        assert_eq!((&same.status, again), (&half.status, Some(Duration::from_secs(540))));
        let (_, told, again) = check(&same, &[set("one", 4, 3, 1)], "2026-01-01T00:21:00Z");
        assert_eq!(
            (told.as_str(), again),
            ("ProgressDeadlineExceeded=False MinimumReplicasAvailable=True", None)
        );
        let (done, told, again) = check(&half, &[set("one", 4, 4, 1)], NOW);
        assert_eq!(
            (told.as_str(), again),
            ("NewReplicaSetAvailable=True MinimumReplicasAvailable=True", None)
        );
        let (_, told, _) = check(&done, &[set("one", 4, 2, 1)], NOW);
        assert_eq!(told, "NewReplicaSetAvailable=True MinimumReplicasUnavailable=False");
    }
}
