//! The scheduler: a node for every pod that has none.

mod fit;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::api::{ObjectMeta, Patch};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};
use tombolo_runtime::{Cache, Clock, Controller, Key, Next, Queue, is_conflict, is_not_found, unless_gone};

use super::{Shared, moment, patch_params, pod_state, write_params};

pub(super) struct Scheduler {
    client: Client,
    clock: Clock,
    pods: Arc<Cache<Pod>>,
    nodes: Arc<Cache<Node>>,
    queue: Arc<Queue<Key>>,
    /// Pods that were bound, by uid, until the cache shows it: they count on their node already.
    assumed: Mutex<BTreeMap<String, (Key, String)>>,
}

impl Scheduler {
    pub(super) fn new(shared: &Shared) -> Self {
        let queue = Arc::new(Queue::new());
        let (add, pods) = (queue.clone(), shared.pods.clone());
        shared.pods.listen(move |pod: &Pod| {
            if fit::is_waiting(pod) {
                add.add(Key::of(pod));
            } else if pod_state::is_finished(pod) || pods.get(&Key::of(pod)).is_none() {
                wake(&pods, &add);
            }
        });
        let (add, pods) = (queue.clone(), shared.pods.clone());
        shared.nodes.listen(move |_: &Node| wake(&pods, &add));
        Self {
            client: shared.client.clone(),
            clock: shared.clock.clone(),
            pods: shared.pods.clone(),
            nodes: shared.nodes.clone(),
            queue,
            assumed: Mutex::default(),
        }
    }

    /// How many pods each node has, those included that the cache does not show there yet.
    fn load(&self) -> BTreeMap<String, usize> {
        let mut load = BTreeMap::new();
        let all = self.pods.all();
        let running = all.iter().filter(|pod| !pod_state::is_finished(pod));
        for node in running.filter_map(|pod| pod_state::node(pod)) {
            *load.entry(node.to_owned()).or_default() += 1;
        }
        let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        assumed.retain(|uid, (key, _)| {
            let pod = self.pods.get(key).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
            pod.is_some_and(|pod| pod_state::node(&pod).is_none())
        });
        for (_, node) in assumed.values() {
            *load.entry(node.clone()).or_default() += 1;
        }
        load
    }

    fn is_assumed(&self, pod: &Pod) -> bool {
        let assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        pod.metadata.uid.as_ref().is_some_and(|uid| assumed.contains_key(uid))
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<(), Error> {
        let (key, uid) = (Key::of(pod), pod.uid().unwrap_or_default());
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let metadata = ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            uid: Some(uid.clone()),
            ..ObjectMeta::default()
        };
        let target = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let binding = Binding { metadata, target };
        match api.create_subresource::<_, Value>("binding", &key.name, &write_params(), &binding).await {
            Ok(_) => {}
            // Somebody was faster: the watch will tell.
            Err(error) if is_conflict(&error) || is_not_found(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        assumed.insert(uid, (key, node.to_owned()));
        Ok(())
    }

    async fn refuse(&self, pod: &Pod, why: &str) -> Result<(), Error> {
        let said = pod_state::condition(pod, "PodScheduled");
        if said.is_some_and(|said| said.status == "False" && said.message.as_deref() == Some(why)) {
            return Ok(());
        }
        let since =
            said.filter(|said| said.status == "False").and_then(|said| said.last_transition_time.clone());
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": since.unwrap_or_else(|| moment::time(self.clock.now())),
        });
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        unless_gone(api.patch_status(&pod.name_any(), &patch_params(), &Patch::Strategic(patch)).await)
    }
}

impl Controller for Scheduler {
    type Item = Key;

    const NAME: &'static str = "scheduler";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.get(key).filter(|pod| fit::is_waiting(pod)) else { return Ok(Next::Rest) };
        let load = self.load();
        if self.is_assumed(&pod) {
            return Ok(Next::Rest);
        }
        match fit::choose(&pod, &self.nodes.all(), &load) {
            Ok(node) => self.bind(&pod, &node).await?,
            Err(why) => self.refuse(&pod, &why).await?,
        }
        Ok(Next::Rest)
    }
}

/// Gives every pod without a node another chance.
fn wake(pods: &Cache<Pod>, queue: &Queue<Key>) {
    pods.all().iter().filter(|pod| fit::is_waiting(pod)).for_each(|pod| queue.add(Key::of(&**pod)));
}
