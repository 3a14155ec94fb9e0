//! Which templates a StatefulSet has had: the one it moves to, the one it comes from, and those it can go back to.
//!
//! Each is written down as a ControllerRevision, as kubectl expects for `rollout history` and `rollout undo`.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::{fingerprint, ownership};
use super::member::REVISION;

const HASH: &str = "controller.kubernetes.io/hash";

/// A template and the name it is written down under.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) template: PodTemplateSpec,
}

/// What is to be written down or struck out.
#[derive(Debug, PartialEq)]
pub(super) enum Note {
    New(Box<ControllerRevision>),
    /// An old template is the newest again.
    Renew {
        name: String,
        number: i64,
    },
    Forget(String),
}

pub(super) struct History<'a> {
    set: &'a StatefulSet,
    /// The set's own, the oldest first.
    known: Vec<&'a ControllerRevision>,
    /// What the set asks for now.
    pub(super) update: Revision,
    /// What it ran before; the same when nothing is going on.
    pub(super) current: Revision,
}

impl<'a> History<'a> {
    /// What is known about the templates of `set`. `revisions` may be all of the namespace.
    pub(super) fn of<R: Borrow<ControllerRevision>>(
        set: &'a StatefulSet,
        revisions: &'a [R],
    ) -> Option<Self> {
        let uid = set.metadata.uid.as_deref()?;
        let all = revisions.iter().map(Borrow::borrow);
        let mut known: Vec<&ControllerRevision> =
            all.filter(|revision| ownership::is_controlled_by(*revision, uid)).collect();
        known.sort_by_key(|revision| revision.revision);
        let data = data(&set.spec.template);
        let same = known.iter().rev().find(|revision| revision.data.0 == data);
        let name = same.map_or_else(|| name(set), |same| same.name_any());
        let update = Revision { name, template: set.spec.template.clone() };
        let running = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let running = known.iter().find(|revision| Some(revision.name_any().as_str()) == running);
        let current = running.and_then(|revision| read(revision)).unwrap_or_else(|| update.clone());
        Some(Self { set, known, update, current })
    }

    fn newest(&self) -> i64 {
        self.known.last().and_then(|revision| revision.revision).unwrap_or(0)
    }

    /// What has to be written down or struck out. `pods` may be all of the namespace.
    pub(super) fn notes<P: Borrow<Pod>>(&self, pods: &[P]) -> Vec<Note> {
        let found = self.known.iter().find(|revision| revision.name_any() == self.update.name);
        let first = match found {
            None => self.fresh().map(|revision| Note::New(Box::new(revision))),
            Some(found) if found.revision.unwrap_or(0) < self.newest() => {
                Some(Note::Renew { name: found.name_any(), number: self.newest() + 1 })
            }
            Some(_) => None,
        };
        first.into_iter().chain(self.forgotten(pods).map(Note::Forget)).collect()
    }

    fn fresh(&self) -> Option<ControllerRevision> {
        let described = self.set.spec.template.metadata.clone().unwrap_or_default();
        let mut labels = described.labels.unwrap_or_default();
        labels.insert(HASH.to_owned(), fingerprint::of(&self.set.spec.template, 0));
        let metadata = ObjectMeta {
            name: Some(self.update.name.clone()),
            namespace: self.set.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![ownership::reference(self.set)?]),
            ..ObjectMeta::default()
        };
        let data = RawExtension(data(&self.set.spec.template));
        Some(ControllerRevision { metadata, data, revision: Some(self.newest() + 1) })
    }

    /// The oldest of those that nobody runs, beyond the limit.
    fn forgotten<P: Borrow<Pod>>(&self, pods: &[P]) -> impl Iterator<Item = String> {
        let labels = pods.iter().filter_map(|pod| pod.borrow().labels().get(REVISION).cloned());
        let mut live: BTreeSet<String> = labels.collect();
        live.extend([self.update.name.clone(), self.current.name.clone()]);
        let unused: Vec<String> = self
            .known
            .iter()
            .map(|revision| revision.name_any())
            .filter(|name| !live.contains(name))
            .collect();
        let limit = usize::try_from(self.set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        let surplus = unused.len().saturating_sub(limit);
        unused.into_iter().take(surplus)
    }
}

fn name(set: &StatefulSet) -> String {
    format!("{}-{}", set.name_any(), fingerprint::of(&set.spec.template, 0))
}

/// A patch that makes a set run this template, which is what kubectl takes a revision for.
fn data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

fn read(revision: &ControllerRevision) -> Option<Revision> {
    let mut template = revision.data.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    Some(Revision { name: revision.name_any(), template: serde_json::from_value(template).ok()? })
}
