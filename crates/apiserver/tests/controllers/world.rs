//! A cluster under test, and ways to wait for things in it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Clock, Cluster, Entropy, Options};

pub(crate) const SERVICE: &str = "kubernetes.io/service-name";

/// A cluster and whoever works in it.
pub(crate) struct World {
    /// What tests use: it sees everything at once.
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    /// What the controllers use.
    workers: Client,
    settings: Settings,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl World {
    /// A cluster without controllers.
    pub(crate) fn still(nodes: usize) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let options = Options { clock: clock.clone(), entropy: Entropy::seeded(7), ..Options::named("test") };
        let cluster = Cluster::new(options);
        let authority = Some("PEM".to_owned());
        let settings = Settings { authority, phantom_nodes: nodes, clock, only_nodes: false };
        Self { client: cluster.client(), workers: cluster.client(), settings, running: None, cluster }
    }

    /// A cluster with controllers and two phantom nodes.
    pub(crate) fn new() -> Self {
        let mut world = Self::still(2);
        world.start();
        world
    }

    /// A cluster whose controllers reach it through `client`.
    pub(crate) fn through(client: impl FnOnce(&Cluster) -> Client) -> Self {
        let mut world = Self::still(2);
        world.workers = client(&world.cluster);
        world.start();
        world
    }

    pub(crate) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let run = controllers::run(self.workers.clone(), self.settings.clone(), async {
            let _ = stopped.await;
        });
        self.running = Some((stop, tokio::spawn(run)));
    }

    pub(crate) async fn stop(&mut self) {
        let (stop, task) = self.running.take().expect("the controllers run");
        stop.send(()).expect("the controllers listen");
        task.await.expect("the controllers ended in order");
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, api: &Api<K>, value: Value) -> K
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        let object: K = serde_json::from_value(value).expect("a well-formed object");
        api.create(&PostParams::default(), &object).await.expect("the object is accepted")
    }

    pub(crate) async fn deploy(&self, name: &str, replicas: i32) -> Deployment {
        self.create(&self.api(), deployment(name, replicas, "one")).await
    }

    pub(crate) async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value)
    where
        K: Clone + DeserializeOwned + Debug,
    {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("the patch is accepted");
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.expect("pods are listed").items
    }

    pub(crate) async fn ready_pods(&self) -> Vec<Pod> {
        self.pods().await.into_iter().filter(is_ready).collect()
    }

    pub(crate) async fn slices_of(&self, service: &str) -> Vec<EndpointSlice> {
        let labels = format!("{SERVICE}={service}");
        let api: Api<EndpointSlice> = self.api();
        api.list(&ListParams::default().labels(&labels)).await.expect("slices are listed").items
    }

    pub(crate) async fn revision(&self) -> String {
        let list = self.api::<ConfigMap>().list(&ListParams::default()).await.expect("maps are listed");
        list.metadata.resource_version.expect("a list has a version")
    }

    /// Lets time pass until nothing has been written for a while.
    pub(crate) async fn settle(&self) -> String {
        let mut last = self.revision().await;
        for _ in 0..600 {
            tokio::time::sleep(Duration::from_secs(15)).await;
            let now = self.revision().await;
            if now == last {
                return now;
            }
            last = now;
        }
        panic!("the cluster never comes to rest");
    }

    pub(crate) async fn rolled_out(&self, name: &str, replicas: i32) {
        let api: Api<Deployment> = self.api();
        until("the deployment is complete", async || {
            let Some(found) = api.get_opt(name).await.expect("the server answers") else {
                return Err("none".to_owned());
            };
            let status = found.status.clone().unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            let complete = counts.iter().all(|count| count.unwrap_or(0) == replicas);
            let current = status.observed_generation == found.metadata.generation;
            if complete && current { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    }
}

/// Waits for a condition; the last reason why it does not hold is told when it never does.
pub(crate) async fn until<F>(what: &str, mut condition: F)
where
    F: AsyncFnMut() -> Result<(), String>,
{
    let mut reason = String::new();
    for _ in 0..3000 {
        match condition().await {
            Ok(()) => return,
            Err(why) => reason = why,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{what}: never, because {reason}");
}

pub(crate) fn check(holds: bool, why: impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{why:?}")) }
}

pub(crate) async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    until(&format!("{name} goes"), async || {
        let found = api.get_metadata_opt(name).await.expect("the server answers");
        check(found.is_none(), found.map(|found| found.metadata))
    })
    .await;
}

pub(crate) async fn until_there<K>(api: &Api<K>, name: &str) -> K
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    until(&format!("{name} appears"), async || {
        check(api.get_opt(name).await.expect("the server answers").is_some(), "it is missing")
    })
    .await;
    api.get(name).await.expect("it was there a moment ago")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True")
}

pub(crate) fn template(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}

pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
        },
    })
}

pub(crate) fn service(name: &str) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}})
}

pub(crate) fn owned(name: &str, owner: &impl ResourceExt<DynamicType = ()>, blocks: bool) -> Value {
    let mut reference =
        serde_json::to_value(owner.owner_ref(&()).expect("a stored object")).expect("a reference is JSON");
    reference["blockOwnerDeletion"] = blocks.into();
    json!({"metadata": {"name": name, "ownerReferences": [reference]}})
}

pub(crate) fn endpoints(slices: &[EndpointSlice]) -> BTreeMap<String, bool> {
    let all = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    all.map(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|found| found.ready).unwrap_or(false);
        (endpoint.addresses[0].clone(), ready)
    })
    .collect()
}

pub(crate) fn toys() -> (Value, ApiResource) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Toy", "plural": "toys"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Toy".to_owned(),
        plural: "toys".to_owned(),
    };
    (definition, resource)
}

pub(crate) fn named(name: &str) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}
