//! ReplicaSets: as many pods as asked for.

mod plan;
mod ranking;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use tombolo_runtime::{Cache, Clock, Controller, Key, Next, Queue, is_conflict, is_place_gone, unless_gone};

use self::plan::{Chosen, Moves};
use super::ownership;
use super::{Shared, patch_params, write_params};

const KIND: &str = "ReplicaSet";

pub(super) struct ReplicaSets {
    client: Client,
    clock: Clock,
    sets: Arc<Cache<ReplicaSet>>,
    pods: Arc<Cache<Pod>>,
    queue: Arc<Queue<Key>>,
}

impl ReplicaSets {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.replica_sets.listen(move |set: &ReplicaSet| add.add(Key::of(set)));
        let (add, sets) = (queue.clone(), shared.replica_sets.clone());
        shared.pods.listen(move |pod: &Pod| concerned(&sets, pod).into_iter().for_each(|key| add.add(key)));
        Self {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            sets: shared.replica_sets.clone(),
            pods: shared.pods.clone(),
            queue,
        }
    }

    /// Makes, adopts and deletes pods. The cache said that something is missing; the server is asked whether that is true
    /// now, so that a cache that lags never makes one pod too many.
    async fn act(&self, cached: &ReplicaSet) -> Result<(), Error> {
        let key = Key::of(cached);
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(set) = sets.get_opt(&key.name).await?.filter(|set| set.uid() == cached.uid()) else {
            return Ok(());
        };
        let Some(selector) = selector(&set) else { return Ok(()) };
        let found = pods.list(&ListParams::default().labels_from(&selector)).await?;
        let moves = plan::moves(&set, &found.items);
        adopt(&pods, &set, &moves.adopt).await?;
        delete(&pods, &moves.delete).await?;
        if let Some(pod) = plan::pod(&set) {
            for _ in 0..moves.create {
                pods.create(&write_params(), &pod).await?;
            }
        }
        Ok(())
    }

    /// Lets go of pods whose labels fit no more. The uid in the patch is the guard.
    async fn release(&self, set: &ReplicaSet, moves: &Moves) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        let uid = set.uid().unwrap_or_default();
        for Chosen { name, uid: pod } in &moves.release {
            let patch = Patch::Strategic(ownership::release(pod, &uid));
            unless_gone(pods.patch(name, &patch_params(), &patch).await)?;
        }
        Ok(())
    }

    async fn write_status(&self, set: &ReplicaSet, status: ReplicaSetStatus) -> Result<(), Error> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        let next = ReplicaSet { status: Some(status), ..set.clone() };
        unless_gone(api.replace_status(&set.name_any(), &write_params(), &next).await)
    }
}

impl Controller for ReplicaSets {
    type Item = Key;

    const NAME: &'static str = "replicaset";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.get(key) else { return Ok(Next::Rest) };
        let pods = self.pods.within(&key.namespace);
        let moves = plan::moves(&set, &pods);
        self.release(&set, &moves).await?;
        let acted = if moves.is_empty() { Ok(()) } else { self.act(&set).await };
        // What passes by itself is not worth telling.
        let lasting = |error: &&Error| !is_conflict(error) && !is_place_gone(error);
        let failure = acted.as_ref().err().filter(lasting).map(ToString::to_string);
        let now = self.clock.now();
        let (status, again) = plan::status(&set, &pods, failure.as_deref(), now);
        self.write_status(&set, status).await?;
        acted.map(|()| again.map_or(Next::Rest, Next::Again))
    }
}

async fn adopt(pods: &Api<Pod>, set: &ReplicaSet, names: &[Chosen]) -> Result<(), Error> {
    let Some(owner) = ownership::reference(set) else { return Ok(()) };
    for Chosen { name, uid } in names {
        let patch = Patch::Strategic(ownership::adoption(uid, &owner));
        unless_gone(pods.patch(name, &patch_params(), &patch).await)?;
    }
    Ok(())
}

async fn delete(pods: &Api<Pod>, doomed: &[Chosen]) -> Result<(), Error> {
    for Chosen { name, uid } in doomed {
        let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        unless_gone(pods.delete(name, &parameters).await)?;
    }
    Ok(())
}

fn selector(set: &ReplicaSet) -> Option<kube::core::Selector> {
    ownership::parse(&set.spec.selector)
}

/// The sets that a pod concerns: its own, or every one that might adopt it.
fn concerned(sets: &Cache<ReplicaSet>, pod: &Pod) -> Vec<Key> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(owner) = ownership::controller_of(pod) {
        return if owner.kind == KIND { vec![Key::new(namespace, &owner.name)] } else { Vec::new() };
    }
    let fits = |set: &Arc<ReplicaSet>| selector(set).is_some_and(|selector| matches(&selector, pod));
    sets.within(&namespace).iter().filter(|set| fits(set)).map(|set| Key::of(&**set)).collect()
}

fn matches(selector: &kube::core::Selector, pod: &Pod) -> bool {
    use kube::core::SelectorExt as _;
    selector.matches(pod.labels())
}
