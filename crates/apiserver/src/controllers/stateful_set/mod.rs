//! StatefulSets: pods with names that stay, one after the other.

mod member;
mod plan;
mod revision;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use tombolo_runtime::{Cache, Clock, Controller, Key, Next, Queue, unless_gone, unless_there};

use self::member::Member;
use self::plan::Step;
use self::revision::{History, Note};
use super::ownership;
use super::{Shared, patch_params, write_params};

const KIND: &str = "StatefulSet";

pub(super) struct StatefulSets {
    client: Client,
    clock: Clock,
    sets: Arc<Cache<StatefulSet>>,
    pods: Arc<Cache<Pod>>,
    revisions: Arc<Cache<ControllerRevision>>,
    queue: Arc<Queue<Key>>,
}

impl StatefulSets {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.stateful_sets.listen(move |set: &StatefulSet| add.add(Key::of(set)));
        let add = queue.clone();
        shared.revisions.listen(move |revision: &ControllerRevision| {
            owner(revision).into_iter().for_each(|key| add.add(key));
        });
        let (add, sets) = (queue.clone(), shared.stateful_sets.clone());
        shared.pods.listen(move |pod: &Pod| concerned(&sets, pod).into_iter().for_each(|key| add.add(key)));
        Self {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            sets: shared.stateful_sets.clone(),
            pods: shared.pods.clone(),
            revisions: shared.revisions.clone(),
            queue,
        }
    }

    fn api<K>(&self, set: &StatefulSet) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default())
    }

    /// Writes down the current template, if that has not been done.
    async fn take_note(&self, set: &StatefulSet, note: Note) -> Result<(), Error> {
        let api: Api<ControllerRevision> = self.api(set);
        match note {
            Note::New(revision) => unless_there(api.create(&write_params(), &revision).await),
            Note::Renew { name, number } => {
                let patch = Patch::Merge(json!({"revision": number}));
                unless_gone(api.patch(&name, &patch_params(), &patch).await)
            }
            Note::Forget(name) => unless_gone(api.delete(&name, &DeleteParams::default()).await),
        }
    }

    /// Names are known beforehand and deletions say whom they mean, so a cache that lags makes a step be taken again, never
    /// a wrong one.
    async fn carry_out(&self, set: &StatefulSet, step: Step) -> Result<(), Error> {
        let pods: Api<Pod> = self.api(set);
        match step {
            Step::Adopt { name, uid } => {
                let Some(owner) = ownership::reference(set) else { return Ok(()) };
                let patch = Patch::Strategic(ownership::adoption(&uid, &owner));
                unless_gone(pods.patch(&name, &patch_params(), &patch).await)
            }
            Step::Release { name, uid } => {
                let own = set.uid().unwrap_or_default();
                let patch = Patch::Strategic(ownership::release(&uid, &own));
                unless_gone(pods.patch(&name, &patch_params(), &patch).await)
            }
            Step::Create(member) => self.create(set, *member).await,
            Step::Delete { name, uid } => {
                let preconditions = Preconditions { uid: Some(uid), resource_version: None };
                let parameters =
                    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                unless_gone(pods.delete(&name, &parameters).await)
            }
        }
    }

    async fn create(&self, set: &StatefulSet, member: Member) -> Result<(), Error> {
        let claims: Api<PersistentVolumeClaim> = self.api(set);
        for claim in &member.claims {
            unless_there(claims.create(&write_params(), claim).await)?;
        }
        let pods: Api<Pod> = self.api(set);
        unless_there(pods.create(&write_params(), &member.pod).await)
    }

    async fn write_status(&self, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let next = StatefulSet { status: Some(status), ..set.clone() };
        let sets: Api<StatefulSet> = self.api(set);
        unless_gone(sets.replace_status(&set.name_any(), &write_params(), &next).await)
    }
}

impl Controller for StatefulSets {
    type Item = Key;

    const NAME: &'static str = "statefulset";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Next::Rest) };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Rest);
        }
        let (pods, revisions) = (self.pods.within(&key.namespace), self.revisions.within(&key.namespace));
        let Some(history) = History::of(&set, &revisions) else { return Ok(Next::Rest) };
        for note in history.notes(&pods) {
            self.take_note(&set, note).await?;
        }
        let now = self.clock.now();
        for step in plan::steps(&set, &history, &pods, now) {
            self.carry_out(&set, step).await?;
        }
        let (status, again) = status::status(&set, &history, &pods, now);
        self.write_status(&set, status).await?;
        Ok(again.map_or(Next::Rest, Next::Again))
    }
}

fn owner<K: ResourceExt>(object: &K) -> Option<Key> {
    let owner = ownership::controller_of(object).filter(|owner| owner.kind == KIND)?;
    Some(Key::new(object.namespace()?, &owner.name))
}

/// The sets that a pod concerns: its own, or every one that might adopt it.
fn concerned(sets: &Cache<StatefulSet>, pod: &Pod) -> Vec<Key> {
    if ownership::controller_of(pod).is_some() {
        return owner(pod).into_iter().collect();
    }
    let namespace = pod.namespace().unwrap_or_default();
    let fits = |set: &&Arc<StatefulSet>| ownership::selects(&set.spec.selector, pod.labels());
    sets.within(&namespace).iter().filter(fits).map(|set| Key::of(&**set)).collect()
}
