//! EndpointSlices: which pods stand behind a Service.
//!
//! Only slices that carry this controller's name are read or written; those of others, such as the ones imported from
//! other clusters, are none of its business.

mod endpoint;
mod packing;
mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use tombolo_runtime::{Cache, Controller, Key, Next, Queue, unless_gone};

use self::plan::{Action, MANAGED_BY, MANAGER, SERVICE_NAME};
use super::{Shared, write_params};

pub(super) struct EndpointSlices {
    client: Client,
    services: Arc<Cache<Service>>,
    pods: Arc<Cache<Pod>>,
    nodes: Arc<Cache<Node>>,
    slices: Arc<Cache<EndpointSlice>>,
    queue: Arc<Queue<Key>>,
}

impl EndpointSlices {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let add = queue.clone();
        shared.services.listen(move |service: &Service| add.add(Key::of(service)));
        let add = queue.clone();
        shared.slices.listen(move |slice: &EndpointSlice| {
            if let Some(name) = plan::service_of(slice) {
                add.add(Key::new(slice.namespace().unwrap_or_default(), name));
            }
        });
        let (add, services) = (queue.clone(), shared.services.clone());
        shared.pods.listen(move |pod: &Pod| {
            let behind = services.within(&pod.namespace().unwrap_or_default());
            let selected = behind.iter().filter(|service| plan::selects(service, pod));
            selected.for_each(|service| add.add(Key::of(&**service)));
        });
        let (add, pods, services) = (queue.clone(), shared.pods.clone(), shared.services.clone());
        shared.nodes.listen(move |node: &Node| {
            behind_node(&pods, &services, node).into_iter().for_each(|key| add.add(key));
        });
        Self {
            client: shared.client.clone(),
            services: shared.services.clone(),
            pods: shared.pods.clone(),
            nodes: shared.nodes.clone(),
            slices: shared.slices.clone(),
            queue,
        }
    }

    fn plan<S: std::borrow::Borrow<EndpointSlice>>(&self, service: &Service, slices: &[S]) -> Vec<Action> {
        let pods = self.pods.within(&service.namespace().unwrap_or_default());
        plan::plan(service, &pods, |name| self.nodes.get(&Key::new("", name)), slices)
    }

    /// The slices this service has on the server: names are generated, so a stale cache would make twins.
    async fn live(&self, key: &Key) -> Result<Vec<EndpointSlice>, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &key.namespace);
        let labels = format!("{SERVICE_NAME}={},{MANAGED_BY}={MANAGER}", key.name);
        Ok(api.list(&ListParams::default().labels(&labels)).await?.items)
    }

    async fn carry_out(&self, namespace: &str, actions: Vec<Action>) -> Result<(), Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), namespace);
        for action in actions {
            match action {
                Action::Create(slice) => drop(api.create(&write_params(), &slice).await?),
                Action::Update(slice) => {
                    drop(api.replace(&slice.name_any(), &write_params(), &slice).await?);
                }
                Action::Delete { name, uid } => {
                    let preconditions = Preconditions { uid: Some(uid), resource_version: None };
                    let parameters =
                        DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                    unless_gone(api.delete(&name, &parameters).await)?;
                }
            }
        }
        Ok(())
    }
}

impl Controller for EndpointSlices {
    type Item = Key;

    const NAME: &'static str = "endpointslice";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(service) = self.services.get(key) else { return Ok(Next::Rest) };
        if self.plan(&service, &self.slices.within(&key.namespace)).is_empty() {
            return Ok(Next::Rest);
        }
        let live = self.live(key).await?;
        let actions = self.plan(&service, &live);
        self.carry_out(&key.namespace, actions).await?;
        Ok(Next::Rest)
    }
}

/// The services with pods on a node: its zone is part of their endpoints.
fn behind_node(pods: &Cache<Pod>, services: &Cache<Service>, node: &Node) -> Vec<Key> {
    let name = node.name_any();
    let here: Vec<Arc<Pod>> = pods.all();
    let here = here.iter().filter(|pod| super::pod_state::node(pod) == Some(name.as_str()));
    let mut keys = Vec::new();
    for pod in here {
        let behind = services.within(&pod.namespace().unwrap_or_default());
        let selected = behind.iter().filter(|service| plan::selects(service, pod));
        keys.extend(selected.map(|service| Key::of(&**service)));
    }
    keys
}
