//! Looks at objects whose owners changed, and deletes, disowns or lets go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ListParams, Patch, Preconditions, PropagationPolicy};
use kube::{Client, Error, ResourceExt};
use serde_json::json;
use tombolo_runtime::{Controller, Next, Queue, unless_gone};

use super::super::catalogue::{self, Catalogue, GroupKind, Kind, Meta};
use super::super::{Shared, patch_params};
use super::graph::{self, FOREGROUND, Graph, ORPHAN, Record};
use super::observer::observe;
use super::verdict::{self, Following, Owner, Verdict};

/// How soon to look again at an owner whose dependents the graph does not show yet.
const SOON: Duration = Duration::from_secs(1);

pub(in super::super) struct Collector {
    client: Client,
    catalogue: Arc<Catalogue>,
    graph: Arc<Mutex<Graph>>,
    queue: Arc<Queue<String>>,
}

/// An object as the server shows it now.
struct Seen<'a> {
    object: Meta,
    kind: &'a Kind,
    record: Record,
}

impl Seen<'_> {
    fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }
}

impl Collector {
    pub(in super::super) fn new(shared: &Shared) -> Self {
        Self {
            client: shared.client.clone(),
            catalogue: shared.catalogue.clone(),
            graph: Arc::default(),
            queue: Arc::new(Queue::new()),
        }
    }

    /// The task that draws this collector's graph.
    pub(in super::super) fn observe(&self) -> impl Future<Output = ()> + Send + use<> {
        observe(self.client.clone(), self.catalogue.clone(), self.graph.clone(), self.queue.clone())
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn following(&self, uid: &str) -> Following {
        let graph = self.graph();
        let mut following = Following::default();
        for (_, record) in graph.dependents(uid) {
            following.some = true;
            following.waiting |= record.waits_for(FOREGROUND);
        }
        following
    }

    /// What the owner is like, for a dependent in `namespace`.
    async fn find(&self, owner: &OwnerReference, namespace: &str) -> Result<Owner, Error> {
        let name = GroupKind::new(&owner.api_version, &owner.kind);
        if let Some(place) = self.graph().gone_from(&owner.uid) {
            let possible = place.is_empty() || !namespace.is_empty();
            return Ok(if possible { Owner::Absent } else { Owner::Unknown });
        }
        let kinds = self.catalogue.borrow().clone();
        let Some(kind) = kinds.get(&name) else { return Ok(Owner::Unknown) };
        // Something without a namespace cannot have an owner in one; which would it be?
        if kind.namespaced && namespace.is_empty() {
            return Ok(Owner::Unknown);
        }
        if let Some(known) = self.graph().get(&owner.uid) {
            let there = known.kind == name && (!kind.namespaced || known.namespace == namespace);
            if there && known.name == owner.name {
                return Ok(if known.waits_for(FOREGROUND) { Owner::Waiting } else { Owner::Present });
            }
        }
        let found = kind.within(&self.client, namespace).get_metadata_opt(&owner.name).await?;
        let same = found.filter(|found| found.metadata.uid.as_deref() == Some(owner.uid.as_str()));
        Ok(same.map_or(Owner::Absent, |found| {
            if Record::of(&name, &found).waits_for(FOREGROUND) { Owner::Waiting } else { Owner::Present }
        }))
    }

    /// Decides about an object that is not being deleted.
    async fn judge(&self, seen: &Seen<'_>) -> Result<(), Error> {
        let mut owners = Vec::new();
        for owner in seen.object.owner_references() {
            owners.push((owner, self.find(owner, &seen.record.namespace).await?));
        }
        let following = self.following(&seen.uid());
        match verdict::judge(&owners, seen.object.finalizers(), following) {
            Verdict::Keep => Ok(()),
            Verdict::Disown(lost) => {
                let left = seen.object.owner_references().iter().filter(|owner| !lost.contains(&owner.uid));
                self.set_owners(seen.kind, &seen.object, left.collect()).await
            }
            Verdict::Delete(policy) => self.delete(seen, policy).await,
            Verdict::Unblock => {
                let mut owners = seen.object.owner_references().to_vec();
                owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
                self.set_owners(seen.kind, &seen.object, owners.iter().collect()).await
            }
        }
    }

    /// Deletes what was seen and nothing else: the resource version makes sure that its owners are still the same.
    async fn delete(&self, seen: &Seen<'_>, policy: PropagationPolicy) -> Result<(), Error> {
        let preconditions =
            Preconditions { uid: seen.object.uid(), resource_version: seen.object.resource_version() };
        let parameters = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api = seen.kind.within(&self.client, &seen.record.namespace);
        unless_gone(api.delete(&seen.record.name, &parameters).await)
    }

    /// Lets an owner go when nothing it waits for is left. The graph may lag, so the last word is the server's.
    async fn finish_foreground(&self, seen: &Seen<'_>) -> Result<Next, Error> {
        let uid = seen.uid();
        let blocking = self.graph().blocking(&uid);
        if !blocking.is_empty() {
            blocking.into_iter().for_each(|uid| self.queue.add(uid));
            return Ok(Next::Rest);
        }
        let left = self.dependents(&uid, &seen.record.namespace).await?;
        if left.iter().any(|(_, object)| graph::blocks(object.owner_references(), &uid)) {
            return Ok(Next::Again(SOON));
        }
        self.drop_finalizer(seen, FOREGROUND).await?;
        Ok(Next::Rest)
    }

    /// Takes the owner off everything that depends on it, then lets it go.
    async fn finish_orphan(&self, seen: &Seen<'_>) -> Result<Next, Error> {
        let uid = seen.uid();
        for (kind, object) in self.dependents(&uid, &seen.record.namespace).await? {
            let left = object.owner_references().iter().filter(|owner| owner.uid != uid);
            self.set_owners(&kind, &object, left.collect()).await?;
        }
        self.drop_finalizer(seen, ORPHAN).await?;
        Ok(Next::Rest)
    }

    /// Everything that names `uid` as an owner, from the server and of all kinds it has now.
    async fn dependents(&self, uid: &str, namespace: &str) -> Result<Vec<(Kind, Meta)>, Error> {
        let mut found = Vec::new();
        for (name, kind) in catalogue::discover(&self.client).await? {
            // What is in a namespace owns only what is in the same.
            if name.kind == "Event" || (!namespace.is_empty() && !kind.namespaced) {
                continue;
            }
            let objects =
                kind.within(&self.client, namespace).list_metadata(&ListParams::default()).await?.items;
            let owned = objects
                .into_iter()
                .filter(|object| object.owner_references().iter().any(|owner| owner.uid == uid));
            found.extend(owned.map(|object| (kind.clone(), object)));
        }
        Ok(found)
    }

    async fn set_owners(
        &self,
        kind: &Kind,
        object: &Meta,
        owners: Vec<&OwnerReference>,
    ) -> Result<(), Error> {
        let version = object.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        let api = kind.within(&self.client, &object.namespace().unwrap_or_default());
        unless_gone(api.patch_metadata(&object.name_any(), &patch_params(), &Patch::Merge(patch)).await)
    }

    async fn drop_finalizer(&self, seen: &Seen<'_>, finalizer: &str) -> Result<(), Error> {
        let left: Vec<&String> = seen.object.finalizers().iter().filter(|name| *name != finalizer).collect();
        let version = seen.object.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": left}});
        let api = seen.kind.within(&self.client, &seen.record.namespace);
        unless_gone(api.patch_metadata(&seen.record.name, &patch_params(), &Patch::Merge(patch)).await)
    }
}

impl Controller for Collector {
    type Item = String;

    const NAME: &'static str = "garbage collector";

    fn queue(&self) -> &Queue<String> {
        &self.queue
    }

    async fn reconcile(&self, uid: &String) -> Result<Next, Error> {
        let Some(known) = self.graph().get(uid).cloned() else { return Ok(Next::Rest) };
        let kinds = self.catalogue.borrow().clone();
        let Some(kind) = kinds.get(&known.kind) else { return Ok(Next::Rest) };
        let found = kind.within(&self.client, &known.namespace).get_metadata_opt(&known.name).await?;
        let Some(object) = found.filter(|found| found.metadata.uid.as_ref() == Some(uid)) else {
            return Ok(Next::Rest);
        };
        let record = Record::of(&known.kind, &object);
        let seen = Seen { object, kind, record };
        if seen.record.waits_for(ORPHAN) {
            self.finish_orphan(&seen).await
        } else if seen.record.waits_for(FOREGROUND) {
            self.finish_foreground(&seen).await
        } else if seen.record.going.is_some() {
            Ok(Next::Rest)
        } else {
            self.judge(&seen).await.map(|()| Next::Rest)
        }
    }
}
