//! Deployments: from one template to the next without losing too many pods at once.

mod condition;
mod plan;
mod rollout;
mod scaling;
mod sets;
mod template;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use tombolo_runtime::{Cache, Clock, Controller, Key, Next, Queue, is_conflict, unless_gone};

use self::plan::{Plan, Snapshot};
use self::sets::Step;
use super::ownership;
use super::{Shared, patch_params, write_params};

pub(super) struct Deployments {
    client: Client,
    clock: Clock,
    deployments: Arc<Cache<Deployment>>,
    sets: Arc<Cache<ReplicaSet>>,
    pods: Arc<Cache<Pod>>,
    queue: Arc<Queue<Key>>,
}

impl Deployments {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.deployments.listen(move |deployment: &Deployment| add.add(Key::of(deployment)));
        let (add, deployments) = (queue.clone(), shared.deployments.clone());
        shared.replica_sets.listen(move |set: &ReplicaSet| {
            concerned(&deployments, set).into_iter().for_each(|key| add.add(key));
        });
        let (add, sets) = (queue.clone(), shared.replica_sets.clone());
        shared
            .pods
            .listen(move |pod: &Pod| owner_of_owner(&sets, pod).into_iter().for_each(|key| add.add(key)));
        Self {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            deployments: shared.deployments.clone(),
            sets: shared.replica_sets.clone(),
            pods: shared.pods.clone(),
            queue,
        }
    }

    fn cached(&self, key: &Key) -> Option<Snapshot> {
        let deployment = self.deployments.get(key)?;
        let (sets, pods) = (self.sets.within(&key.namespace), self.pods.within(&key.namespace));
        Some(Snapshot { deployment, sets, pods })
    }

    /// What the server says now; nothing when this is no longer the deployment of the cache.
    async fn live(&self, cached: &Deployment) -> Result<Option<Snapshot>, Error> {
        let key = Key::of(cached);
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(deployment) =
            deployments.get_opt(&key.name).await?.filter(|found| found.uid() == cached.uid())
        else {
            return Ok(None);
        };
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let sets = sets.list(&ListParams::default()).await?.items.into_iter().map(Arc::new).collect();
        let pods = pods.list(&selected(&deployment)).await?.items.into_iter().map(Arc::new).collect();
        Ok(Some(Snapshot { deployment: Arc::new(deployment), sets, pods }))
    }

    async fn carry_out(&self, deployment: &Deployment, steps: Vec<Step>) -> Result<(), Error> {
        let namespace = deployment.namespace().unwrap_or_default();
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
        for step in steps {
            match step {
                Step::Create(set) => self.create(deployment, &sets, &set).await?,
                Step::Patch { name, patch } => {
                    unless_gone(sets.patch(&name, &patch_params(), &Patch::Strategic(patch)).await)?;
                }
                Step::Delete { name, uid } => {
                    let preconditions = Preconditions { uid: Some(uid), resource_version: None };
                    let parameters =
                        DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
                    unless_gone(sets.delete(&name, &parameters).await)?;
                }
                Step::Annotate(annotations) => {
                    let uid = deployment.uid();
                    let patch = json!({"metadata": {"uid": uid, "annotations": annotations}});
                    let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
                    unless_gone(
                        api.patch(&deployment.name_any(), &patch_params(), &Patch::Merge(patch)).await,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Makes a set. Its name is a hash of the template; when another template has the same, the hash is salted.
    async fn create(
        &self,
        owner: &Deployment,
        sets: &Api<ReplicaSet>,
        set: &ReplicaSet,
    ) -> Result<(), Error> {
        let failed = match sets.create(&write_params(), set).await {
            Err(error) if is_conflict(&error) => error,
            result => return result.map(drop),
        };
        let Some(existing) = sets.get_opt(&set.name_any()).await? else { return Err(failed) };
        let uid = owner.uid().unwrap_or_default();
        if ownership::is_controlled_by(&existing, &uid) && template::is_same(owner, &existing) {
            return Ok(());
        }
        let mut status = owner.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        self.write_status(owner, status).await?;
        Err(failed)
    }

    async fn write_status(&self, deployment: &Deployment, status: DeploymentStatus) -> Result<(), Error> {
        if deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        let next = Deployment { status: Some(status), ..deployment.clone() };
        unless_gone(api.replace_status(&deployment.name_any(), &write_params(), &next).await)
    }
}

impl Controller for Deployments {
    type Item = Key;

    const NAME: &'static str = "deployment";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(snapshot) = self.cached(key) else { return Ok(Next::Rest) };
        let now = self.clock.now();
        let Plan { steps, status, again } = plan::plan(&snapshot, now);
        if !steps.is_empty()
            && let Some(live) = self.live(&snapshot.deployment).await?
        {
            let plan = plan::plan(&live, now);
            self.carry_out(&live.deployment, plan.steps).await?;
        }
        self.write_status(&snapshot.deployment, status).await?;
        Ok(again.map_or(Next::Rest, Next::Again))
    }
}

fn selected(deployment: &Deployment) -> ListParams {
    let selector = ownership::parse(&deployment.spec.selector).unwrap_or_default();
    ListParams::default().labels_from(&selector)
}

/// The deployments that a set concerns: its own, or every one that might adopt it.
fn concerned(deployments: &Cache<Deployment>, set: &ReplicaSet) -> Vec<Key> {
    let namespace = set.namespace().unwrap_or_default();
    if let Some(owner) = ownership::controller_of(set) {
        return if owner.kind == "Deployment" { vec![Key::new(namespace, &owner.name)] } else { Vec::new() };
    }
    let fits = |found: &&Arc<Deployment>| ownership::selects(&found.spec.selector, set.labels());
    deployments.within(&namespace).iter().filter(fits).map(|found| Key::of(&**found)).collect()
}

/// The deployment behind the set behind a pod: one that recreates waits for its last old pod.
fn owner_of_owner(sets: &Cache<ReplicaSet>, pod: &Pod) -> Option<Key> {
    let namespace = pod.namespace()?;
    let owner = ownership::controller_of(pod).filter(|owner| owner.kind == "ReplicaSet")?;
    let set = sets.get(&Key::new(&namespace, &owner.name))?;
    let owner = ownership::controller_of(&*set).filter(|owner| owner.kind == "Deployment")?;
    Some(Key::new(namespace, &owner.name))
}
