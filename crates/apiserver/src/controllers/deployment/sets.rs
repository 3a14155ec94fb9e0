//! The ReplicaSets of a Deployment, old and new, and what may be done with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::ownership::{self, Claim};
use super::template;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a deployment that say nothing about its pods.
const PRIVATE: [&str; 5] =
    [REVISION, HISTORY, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration"];

/// One thing to do. Patches carry a resource version or a uid: they fail when the object is no longer what was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create(Box<ReplicaSet>),
    /// A strategic merge patch of a set.
    Patch {
        name: String,
        patch: Value,
    },
    Delete {
        name: String,
        uid: String,
    },
    /// Annotations of the deployment itself.
    Annotate(BTreeMap<String, String>),
}

/// The sets a deployment owns.
#[derive(Debug, Default)]
pub(super) struct Sets<'a> {
    /// The one with the current template.
    pub(super) new: Option<&'a ReplicaSet>,
    /// The others, oldest first.
    pub(super) old: Vec<&'a ReplicaSet>,
    /// Adoptions and releases.
    pub(super) claims: Vec<Step>,
}

impl<'a> Sets<'a> {
    /// Sorts out which of `all` belong to `deployment`.
    pub(super) fn of(deployment: &Deployment, all: &'a [Arc<ReplicaSet>]) -> Self {
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        let alive = deployment.metadata.deletion_timestamp.is_none();
        let mut sets = Self::default();
        for set in all.iter().map(|set| &**set) {
            match ownership::claim(set, uid, &deployment.spec.selector, alive) {
                Claim::Mine => sets.old.push(set),
                Claim::Adopt => sets.claims.extend(adoption(deployment, set)),
                Claim::Release => sets.claims.push(release(set, uid)),
                Claim::Foreign => {}
            }
        }
        sets.old.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
        let current = sets.old.iter().position(|set| template::is_same(deployment, set));
        sets.new = current.map(|place| sets.old.remove(place));
        sets
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.new.into_iter().chain(self.old.iter().copied())
    }

    /// Those that should have pods.
    pub(super) fn active(&self) -> Vec<&'a ReplicaSet> {
        self.all().filter(|set| replicas(set) > 0).collect()
    }

    /// How many pods all sets are asked to have.
    pub(super) fn total(&self) -> i32 {
        self.all().map(replicas).sum()
    }

    pub(super) fn available(&self) -> i32 {
        self.all().map(available).sum()
    }
}

fn adoption(deployment: &Deployment, set: &ReplicaSet) -> Option<Step> {
    let owner = ownership::reference(deployment)?;
    Some(Step::Patch {
        name: set.name_any(),
        patch: ownership::adoption(&set.uid().unwrap_or_default(), &owner),
    })
}

fn release(set: &ReplicaSet, owner: &str) -> Step {
    Step::Patch { name: set.name_any(), patch: ownership::release(&set.uid().unwrap_or_default(), owner) }
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

pub(super) fn revision(set: &ReplicaSet) -> u64 {
    set.annotations().get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

fn number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    set.annotations().get(annotation)?.parse().ok()
}

/// The size of the deployment when this set was last scaled.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED)
}

/// The most pods the deployment could have when this set was last scaled.
pub(super) fn maximum(set: &ReplicaSet) -> Option<i32> {
    number(set, MAXIMUM)
}

/// What a set notes about the size of its deployment.
pub(super) fn sizes(wanted: i32, surge: i32) -> BTreeMap<String, String> {
    let maximum = wanted.saturating_add(surge);
    BTreeMap::from([(DESIRED.to_owned(), wanted.to_string()), (MAXIMUM.to_owned(), maximum.to_string())])
}

/// Gives `set` another size. Nothing when it has that size and says so.
pub(super) fn scale(set: &ReplicaSet, size: i32, notes: &BTreeMap<String, String>) -> Option<Step> {
    let noted = notes.iter().all(|(name, value)| set.annotations().get(name) == Some(value));
    if replicas(set) == size && noted {
        return None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": set.resource_version(), "annotations": notes}});
    if replicas(set) != size {
        patch["spec"] = json!({"replicas": size});
    }
    Some(Step::Patch { name: set.name_any(), patch })
}

/// The annotations of the set that runs the current template: the deployment's own, and its revision.
pub(super) fn notes(deployment: &Deployment, sets: &Sets<'_>) -> BTreeMap<String, String> {
    let shared = deployment.annotations().iter().filter(|(name, _)| !PRIVATE.contains(&name.as_str()));
    let mut notes: BTreeMap<String, String> =
        shared.map(|(name, value)| (name.clone(), value.clone())).collect();
    let next = sets.old.iter().map(|set| revision(set)).max().unwrap_or(0).saturating_add(1);
    let known = sets.new.map(revision).unwrap_or(0);
    notes.insert(REVISION.to_owned(), known.max(next).to_string());
    if let Some(set) = sets.new.filter(|_| known > 0 && known < next) {
        let history = set.annotations().get(HISTORY).map(|history| format!("{history},")).unwrap_or_default();
        notes.insert(HISTORY.to_owned(), format!("{history}{known}"));
    }
    notes
}

/// Brings the annotations and the probation of the current set up to date.
pub(super) fn refresh(deployment: &Deployment, sets: &Sets<'_>) -> Option<Step> {
    let set = sets.new?;
    let notes = notes(deployment, sets);
    let noted = notes.iter().all(|(name, value)| set.annotations().get(name) == Some(value));
    let wanted = deployment.spec.min_ready_seconds.unwrap_or(0);
    let seconds = set.spec.min_ready_seconds.unwrap_or(0);
    if noted && wanted == seconds {
        return None;
    }
    let mut patch = json!({"metadata": {"resourceVersion": set.resource_version(), "annotations": notes}});
    if wanted != seconds {
        patch["spec"] = json!({"minReadySeconds": wanted});
    }
    Some(Step::Patch { name: set.name_any(), patch })
}
