//! Phantom nodes: pods on them look as if they ran, and nothing does.
//!
//! Good enough for everything that looks at pods through the API, and free: no process, no network, no privileges.

mod node;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use tombolo_runtime::{Cache, Controller, Key, Next, Queue, unless_gone};

use super::{Shared, patch_params, pod_state, write_params};

/// What may need attention.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Node(usize),
    Pod(Key),
}

pub(super) struct Phantoms {
    client: Client,
    nodes: Arc<Cache<Node>>,
    pods: Arc<Cache<Pod>>,
    queue: Arc<Queue<Item>>,
    /// Addresses that were given out, by uid, until the cache shows them.
    assumed: Mutex<BTreeMap<String, (Key, Ipv4Addr)>>,
}

impl Phantoms {
    /// Keeps `count` nodes and whatever is bound to them.
    pub(super) fn new(shared: &Shared, count: usize) -> Self {
        let queue = Arc::new(Queue::new());
        (1..=count).for_each(|number| queue.add(Item::Node(number)));
        let (add, pods) = (queue.clone(), shared.pods.clone());
        shared.nodes.listen(move |node: &Node| {
            let number = (1..=count).find(|number| node::name(*number) == node.name_any());
            let Some(number) = number else { return };
            add.add(Item::Node(number));
            let here = pods.all();
            let here = here.iter().filter(|pod| pod_state::node(pod) == Some(node::name(number).as_str()));
            here.for_each(|pod| add.add(Item::Pod(Key::of(&**pod))));
        });
        let add = queue.clone();
        shared.pods.listen(move |pod: &Pod| {
            if pod_state::node(pod).is_some() {
                add.add(Item::Pod(Key::of(pod)));
            }
        });
        Self {
            client: shared.client.clone(),
            nodes: shared.nodes.clone(),
            pods: shared.pods.clone(),
            queue,
            assumed: Mutex::default(),
        }
    }

    async fn keep_node(&self, number: usize) -> Result<(), Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let wanted = node::node(number);
        let Some(found) = self.nodes.get(&Key::new("", node::name(number))) else {
            return match api.create(&write_params(), &wanted).await {
                Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
                result => result.map(drop),
            };
        };
        if !node::is_phantom(&found) || node::is_ready(&found) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": found.uid()}, "status": node::status(&found, number)});
        unless_gone(api.patch_status(&found.name_any(), &patch_params(), &Patch::Strategic(patch)).await)
    }

    async fn keep_pod(&self, key: &Key) -> Result<(), Error> {
        let Some(pod) = self.pods.get(key) else { return Ok(()) };
        let node = pod_state::node(&pod).and_then(|name| self.nodes.get(&Key::new("", name)));
        let Some(node) = node.filter(|node| node::is_phantom(node)) else { return Ok(()) };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        if pod_state::is_terminating(&pod) {
            let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
            let parameters = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            };
            // What still holds it is a finalizer: asking again would change nothing.
            if pod.metadata.deletion_grace_period_seconds == Some(0) && !pod.finalizers().is_empty() {
                return Ok(());
            }
            return unless_gone(api.delete(&key.name, &parameters).await);
        }
        let Some(status) = pod::status(&pod, &node, || self.address(&pod, &node)) else { return Ok(()) };
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        unless_gone(api.patch_status(&key.name, &patch_params(), &Patch::Strategic(patch)).await)
    }

    /// A free address of the node's range. What was given out counts before the cache shows it.
    fn address(&self, pod: &Pod, node: &Node) -> Option<Ipv4Addr> {
        let uid = pod.uid()?;
        let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        assumed.retain(|uid, (key, _)| {
            let pod = self.pods.get(key).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
            pod.is_some_and(|pod| pod_state::addresses(&pod).is_empty())
        });
        if let Some((_, address)) = assumed.get(&uid) {
            return Some(*address);
        }
        let all = self.pods.all();
        let shown = all.iter().flat_map(|pod| pod_state::addresses(pod)).filter_map(|text| text.parse().ok());
        let taken: BTreeSet<Ipv4Addr> = shown.chain(assumed.values().map(|(_, address)| *address)).collect();
        let address = node::free_address(node, &taken)?;
        assumed.insert(uid, (Key::of(pod), address));
        Some(address)
    }
}

impl Controller for Phantoms {
    type Item = Item;

    const NAME: &'static str = "phantom";

    fn queue(&self) -> &Queue<Item> {
        &self.queue
    }

    async fn reconcile(&self, item: &Item) -> Result<Next, Error> {
        match item {
            Item::Node(number) => self.keep_node(*number).await?,
            Item::Pod(key) => self.keep_pod(key).await?,
        }
        Ok(Next::Rest)
    }
}
