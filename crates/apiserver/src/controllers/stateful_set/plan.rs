//! What is to be done next for a StatefulSet.
//!
//! In order, unless the set says that order does not matter: pods come from the lowest number up, each when the one before
//! is available; they go from the highest down; and they are replaced from the highest down, too.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{RollingUpdateStatefulSetStrategy, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::ownership::{self, Claim};
use super::super::pod_state;
use super::member::{self, Member, REVISION};
use super::revision::{History, Revision};

/// One thing to be done. Pods are named with the uid that guards them.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Adopt { name: String, uid: String },
    Release { name: String, uid: String },
    Create(Box<Member>),
    Delete { name: String, uid: String },
}

/// What can be done now; more becomes possible when it has happened. `pods` may be all of the namespace.
pub(super) fn steps<P: Borrow<Pod>>(
    set: &StatefulSet,
    history: &History<'_>,
    pods: &[P],
    now: Timestamp,
) -> Vec<Step> {
    let (mut steps, own) = claim(set, pods);
    let plan = Plan { set, history, own, now };
    let turn = if set.spec.pod_management_policy.as_deref() == Some("Parallel") {
        plan.all_at_once()
    } else {
        plan.next()
    };
    match turn {
        Turn::Do(more) => steps.extend(more),
        Turn::Wait => {}
        Turn::Free => steps.extend(plan.replace()),
    }
    steps
}

/// The pods that belong to the set by number, and what makes that official.
fn claim<'a, P: Borrow<Pod>>(set: &StatefulSet, pods: &'a [P]) -> (Vec<Step>, BTreeMap<i32, &'a Pod>) {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let (mut steps, mut own) = (Vec::new(), BTreeMap::new());
    for pod in pods.iter().map(Borrow::borrow) {
        let Some(ordinal) = member::ordinal(set, pod) else { continue };
        let (name, of) = (pod.name_any(), pod.uid().unwrap_or_default());
        match ownership::claim(pod, uid, &set.spec.selector, true) {
            Claim::Mine => drop(own.insert(ordinal, pod)),
            Claim::Adopt => {
                steps.push(Step::Adopt { name, uid: of });
                own.insert(ordinal, pod);
            }
            Claim::Release => steps.push(Step::Release { name, uid: of }),
            Claim::Foreign => {}
        }
    }
    (steps, own)
}

/// What the right number of pods asks for; old ones are replaced only when it asks for nothing.
enum Turn {
    Do(Vec<Step>),
    Wait,
    Free,
}

struct Plan<'a> {
    set: &'a StatefulSet,
    history: &'a History<'a>,
    own: BTreeMap<i32, &'a Pod>,
    now: Timestamp,
}

impl Plan<'_> {
    /// One thing at a time.
    fn next(&self) -> Turn {
        for ordinal in member::ordinals(self.set) {
            match self.own.get(&ordinal) {
                None => return Turn::Do(self.create(ordinal).into_iter().collect()),
                Some(pod) if pod_state::is_finished(pod) && !pod_state::is_terminating(pod) => {
                    return Turn::Do(vec![delete(pod)]);
                }
                Some(pod) if !self.is_available(pod) => return Turn::Wait,
                Some(_) => {}
            }
        }
        match self.surplus().next() {
            None => Turn::Free,
            Some(pod) if pod_state::is_terminating(pod) => Turn::Wait,
            Some(pod) => Turn::Do(vec![delete(pod)]),
        }
    }

    fn all_at_once(&self) -> Turn {
        let missing = member::ordinals(self.set).filter(|ordinal| !self.own.contains_key(ordinal));
        let finished = self.own.values().copied().filter(|pod| pod_state::is_finished(pod));
        let doomed = self.surplus().chain(finished).filter(|pod| !pod_state::is_terminating(pod));
        let steps: Vec<Step> =
            missing.filter_map(|ordinal| self.create(ordinal)).chain(doomed.map(delete)).collect();
        if steps.is_empty() { Turn::Free } else { Turn::Do(steps) }
    }

    /// Pods beyond the wanted number, the highest first.
    fn surplus(&self) -> impl Iterator<Item = &Pod> {
        let wanted = member::ordinals(self.set);
        self.own.iter().rev().filter(move |(ordinal, _)| !wanted.contains(*ordinal)).map(|(_, pod)| *pod)
    }

    /// The highest pod that still has the old template, once all above it have the new one and are available.
    fn replace(&self) -> Option<Step> {
        if !is_rolling(self.set) || self.surplus().next().is_some() {
            return None;
        }
        let from = first_updated(self.set);
        for (_, pod) in self.own.range(from..).rev() {
            if pod_state::is_terminating(pod) {
                return None;
            }
            if pod.labels().get(REVISION) != Some(&self.history.update.name) {
                return Some(delete(pod));
            }
            if !self.is_available(pod) {
                return None;
            }
        }
        None
    }

    fn create(&self, ordinal: i32) -> Option<Step> {
        let old = is_rolling(self.set) && ordinal < first_updated(self.set);
        let Revision { name, template } = if old { &self.history.current } else { &self.history.update };
        member::member(self.set, template, name, ordinal).map(|member| Step::Create(Box::new(member)))
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let seconds = self.set.spec.min_ready_seconds.unwrap_or(0);
        let left = pod_state::until_available(pod, seconds, self.now);
        !pod_state::is_terminating(pod) && left.is_some_and(|left| left.is_zero())
    }
}

fn delete(pod: &Pod) -> Step {
    Step::Delete { name: pod.name_any(), uid: pod.uid().unwrap_or_default() }
}

pub(super) fn is_rolling(set: &StatefulSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
}

fn rolling(set: &StatefulSet) -> Option<&RollingUpdateStatefulSetStrategy> {
    set.spec.update_strategy.as_ref()?.rolling_update.as_ref()
}

/// How many of the lowest pods keep the template they have.
pub(super) fn partition(set: &StatefulSet) -> i32 {
    rolling(set).and_then(|rolling| rolling.partition).unwrap_or(0)
}

fn first_updated(set: &StatefulSet) -> i32 {
    member::ordinals(set).start.saturating_add(partition(set))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ControllerRevision;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn set(extra: Value) -> StatefulSet {
        let mut set = json!({
            "metadata": {"namespace": "a", "name": "db", "uid": "me"},
            "spec": {
                "replicas": 3,
                "serviceName": "peers",
                "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            },
        });
        json_patch::merge(&mut set, &extra);
        from_value(set).unwrap()
    }

    fn pod(name: &str, revision: &str, extra: Value) -> Pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "me", "controller": true});
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "labels": {"app": "db", REVISION: revision},
                "ownerReferences": [owner]},
            "spec": {"containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]},
        });
        json_patch::merge(&mut pod, &extra);
        from_value(pod).unwrap()
    }

    fn shown(set: &StatefulSet, pods: &[Pod]) -> Vec<String> {
        let revisions: [ControllerRevision; 0] = [];
        let history = History::of(set, &revisions).unwrap();
        let show = |step| match step {
            Step::Adopt { name, .. } => format!("adopt {name}"),
            Step::Release { name, .. } => format!("release {name}"),
            Step::Create(member) => format!("create {}", member.pod.name_any()),
            Step::Delete { name, .. } => format!("delete {name}"),
        };
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        steps(set, &history, pods, now).into_iter().map(show).collect()
    }

    fn current(set: &StatefulSet) -> String {
        let revisions: [ControllerRevision; 0] = [];
        History::of(set, &revisions).unwrap().update.name
    }

    #[test]
    fn pods_come_one_after_the_other_and_go_from_the_top() {
        let new = current(&set(json!({})));
        let ready = |name: &str| pod(name, &new, json!({}));
        let waiting = |name: &str| {
            pod(name, &new, json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
        };
        let going =
            |name: &str| pod(name, &new, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let failed = pod("db-1", &new, json!({"status": {"phase": "Failed"}}));
        let cases: [(i32, Vec<Pod>, &[&str]); 9] = [
            (3, vec![], &["create db-0"]),
            (3, vec![ready("db-0")], &["create db-1"]),
            (3, vec![waiting("db-0")], &[]),
            (3, vec![ready("db-0"), ready("db-2")], &["create db-1"]),
            (3, vec![ready("db-0"), going("db-1"), ready("db-2")], &[]),
            (3, vec![ready("db-0"), failed, ready("db-2")], &["delete db-1"]),
            (1, vec![ready("db-0"), ready("db-1"), ready("db-2")], &["delete db-2"]),
            (1, vec![ready("db-0"), ready("db-1"), going("db-2")], &[]),
            (0, vec![ready("db-0")], &["delete db-0"]),
        ];
        for (replicas, pods, expected) in cases {
            let set = set(json!({"spec": {"replicas": replicas}}));
            assert_eq!(shown(&set, &pods), expected, "{replicas} of {:?}", pods.len());
        }
    }

    #[test]
    fn old_pods_are_replaced_from_the_top_down_to_the_partition() {
        let new = current(&set(json!({})));
        let pods = |revisions: [&str; 3]| -> Vec<Pod> {
            (0..3).map(|at| pod(&format!("db-{at}"), revisions[at], json!({}))).collect()
        };
        let cases: [(&str, i32, [&str; 3], &[&str]); 5] = [
            ("RollingUpdate", 0, ["old", "old", "old"], &["delete db-2"]),
            ("RollingUpdate", 0, ["old", "old", &new], &["delete db-1"]),
            ("RollingUpdate", 2, ["old", "old", &new], &[]),
            ("RollingUpdate", 0, [&new, &new, &new], &[]),
            ("OnDelete", 0, ["old", "old", "old"], &[]),
        ];
        for (kind, partition, revisions, expected) in cases {
            let strategy = json!({"type": kind, "rollingUpdate": {"partition": partition}});
            let set = set(json!({"spec": {"updateStrategy": strategy}}));
            assert_eq!(shown(&set, &pods(revisions)), expected, "{kind} {partition} {revisions:?}");
        }
    }

    #[test]
    fn in_parallel_nobody_waits() {
        let new = current(&set(json!({})));
        let set = set(json!({"spec": {"podManagementPolicy": "Parallel", "ordinals": {"start": 4}}}));
        let pods = [pod("db-9", &new, json!({})), pod("db-8", &new, json!({}))];
        let expected = ["create db-4", "create db-5", "create db-6", "delete db-9", "delete db-8"];
        assert_eq!(shown(&set, &pods), expected);
    }

    #[test]
    fn only_pods_with_its_names_are_its_own() {
        let new = current(&set(json!({})));
        let orphan = json!({"metadata": {"ownerReferences": null}});
        let strange = json!({"metadata": {"labels": {"app": "other"}}});
        let pods = [
            pod("db-0", &new, orphan.clone()),
            pod("db-1", &new, strange),
            pod("db-01", &new, orphan.clone()),
            pod("other-2", &new, orphan),
        ];
        assert_eq!(shown(&set(json!({})), &pods), ["adopt db-0", "release db-1", "create db-1"]);
    }

    #[test]
    fn a_pod_has_its_name_as_hostname_below_the_service() {
        let claims = json!([{"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]);
        let set = set(json!({"spec": {"volumeClaimTemplates": claims}}));
        let member = member::member(&set, &set.spec.template, "db-x", 2).unwrap();
        let spec = member.pod.spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-2"), Some("peers")));
        assert_eq!(member.claims[0].name_any(), "disk-db-2");
        assert_eq!(spec.volumes.as_ref().unwrap()[0].name, "disk");
        assert_eq!(member.pod.labels()["statefulset.kubernetes.io/pod-name"], "db-2");
    }
}
