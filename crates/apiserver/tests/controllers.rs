//! The controllers against an embedded cluster, through its API only.
//!
//! The clock is paused and moves by itself when everybody waits, so minutes pass in milliseconds and every run is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Clock, Cluster, Entropy, Options};

const FOREIGN: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE: &str = "kubernetes.io/service-name";

/// A cluster and whoever works in it.
struct World {
    client: Client,
    settings: Settings,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    _cluster: Cluster,
}

impl World {
    /// A cluster without controllers.
    fn still(nodes: usize) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let options = Options { clock: clock.clone(), entropy: Entropy::seeded(7), ..Options::named("test") };
        let cluster = Cluster::new(options);
        let settings = Settings { authority: Some("PEM".to_owned()), phantom_nodes: nodes, clock };
        Self { client: cluster.client(), settings, running: None, _cluster: cluster }
    }

    /// A cluster with controllers and two phantom nodes.
    fn new() -> Self {
        let mut world = Self::still(2);
        world.start();
        world
    }

    fn start(&mut self) {
        let (stop, stopped) = oneshot::channel();
        let run = controllers::run(self.client.clone(), self.settings.clone(), async {
            let _ = stopped.await;
        });
        self.running = Some((stop, tokio::spawn(run)));
    }

    async fn stop(&mut self) {
        let (stop, task) = self.running.take().expect("the controllers run");
        stop.send(()).expect("the controllers listen");
        task.await.expect("the controllers ended in order");
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create<K>(&self, api: &Api<K>, value: Value) -> K
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        let object: K = serde_json::from_value(value).expect("a well-formed object");
        api.create(&PostParams::default(), &object).await.expect("the object is accepted")
    }

    async fn deploy(&self, name: &str, replicas: i32) -> Deployment {
        self.create(&self.api(), deployment(name, replicas, "one")).await
    }

    async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value)
    where
        K: Clone + DeserializeOwned + Debug,
    {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("the patch is accepted");
    }

    async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.expect("pods are listed").items
    }

    async fn ready_pods(&self) -> Vec<Pod> {
        self.pods().await.into_iter().filter(is_ready).collect()
    }

    async fn slices_of(&self, service: &str) -> Vec<EndpointSlice> {
        let labels = format!("{SERVICE}={service}");
        let api: Api<EndpointSlice> = self.api();
        api.list(&ListParams::default().labels(&labels)).await.expect("slices are listed").items
    }

    async fn revision(&self) -> String {
        let list = self.api::<ConfigMap>().list(&ListParams::default()).await.expect("maps are listed");
        list.metadata.resource_version.expect("a list has a version")
    }

    /// Lets time pass until nothing has been written for a while.
    async fn settle(&self) -> String {
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

    async fn rolled_out(&self, name: &str, replicas: i32) {
        let api: Api<Deployment> = self.api();
        until("the deployment is complete", async || {
            let Some(found) = api.get_opt(name).await.unwrap() else { return Err("none".to_owned()) };
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
async fn until<F>(what: &str, mut condition: F)
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

fn check(holds: bool, why: impl Debug) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{why:?}")) }
}

async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    until(&format!("{name} goes"), async || {
        let found = api.get_metadata_opt(name).await.unwrap();
        check(found.is_none(), found.map(|found| found.metadata))
    })
    .await;
}

async fn until_there<K>(api: &Api<K>, name: &str) -> K
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    until(&format!("{name} appears"), async || {
        check(api.get_opt(name).await.unwrap().is_some(), "it is missing")
    })
    .await;
    api.get(name).await.expect("it was there a moment ago")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True")
}

fn template(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}

fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
        },
    })
}

fn service(name: &str) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}})
}

fn owned(name: &str, owner: &impl ResourceExt<DynamicType = ()>, blocks: bool) -> Value {
    let mut reference = serde_json::to_value(owner.owner_ref(&()).unwrap()).unwrap();
    reference["blockOwnerDeletion"] = blocks.into();
    json!({"metadata": {"name": name, "ownerReferences": [reference]}})
}

fn endpoints(slices: &[EndpointSlice]) -> BTreeMap<String, bool> {
    let all = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    all.map(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|found| found.ready).unwrap_or(false);
        (endpoint.addresses[0].clone(), ready)
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_grows_and_shrinks() {
    let world = World::new();
    world.deploy("web", 3).await;
    world.rolled_out("web", 3).await;
    let pods = world.ready_pods().await;
    assert_eq!(pods.len(), 3);
    let addresses: BTreeSet<_> = pods.iter().map(|pod| pod.status.clone().unwrap().pod_ip.unwrap()).collect();
    assert_eq!(addresses.len(), 3, "every pod has an address of its own");
    let nodes: BTreeSet<_> = pods.iter().map(|pod| pod.spec.clone().unwrap().node_name.unwrap()).collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["node1", "node2"]);
    for replicas in [7, 2, 0] {
        world.patch(&world.api::<Deployment>(), "web", json!({"spec": {"replicas": replicas}})).await;
        world.rolled_out("web", replicas).await;
        until("superfluous pods are gone", async || {
            let pods = world.pods().await;
            check(pods.len() == usize::try_from(replicas).unwrap(), pods.len())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_replaces_pods_and_keeps_enough_of_them() {
    let world = World::new();
    world.deploy("web", 4).await;
    world.rolled_out("web", 4).await;
    world
        .patch(&world.api::<Deployment>(), "web", json!({"spec": {"template": template("web", "two")}}))
        .await;
    let mut fewest = usize::MAX;
    until("only new pods are left", async || {
        let pods = world.pods().await;
        fewest = fewest.min(pods.iter().filter(|pod| is_ready(pod)).count());
        let images: BTreeSet<_> =
            pods.iter().map(|pod| pod.spec.clone().unwrap().containers[0].image.clone()).collect();
        check(images == BTreeSet::from([Some("two".to_owned())]) && pods.len() == 4, images)
    })
    .await;
    assert!(fewest >= 3, "at most a quarter may be missing, but only {fewest} of 4 were ready");
    world.rolled_out("web", 4).await;
    world.settle().await;
    let deployment = world.api::<Deployment>().get("web").await.unwrap();
    assert_eq!(deployment.annotations()["deployment.kubernetes.io/revision"], "2");
    let sets = world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    let mut revisions: Vec<_> = sets
        .iter()
        .map(|set| (set.annotations()["deployment.kubernetes.io/revision"].clone(), set.spec.replicas))
        .collect();
    revisions.sort();
    assert_eq!(revisions, [("1".to_owned(), Some(0)), ("2".to_owned(), Some(4))]);
    let conditions = deployment.status.unwrap().conditions.unwrap();
    let reasons: BTreeSet<_> = conditions.into_iter().filter_map(|condition| condition.reason).collect();
    assert_eq!(
        reasons.into_iter().collect::<Vec<_>>(),
        ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_recreation_never_mixes_old_and_new() {
    let world = World::new();
    let mut value = deployment("web", 3, "one");
    value["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create(&world.api::<Deployment>(), value).await;
    world.rolled_out("web", 3).await;
    world
        .patch(&world.api::<Deployment>(), "web", json!({"spec": {"template": template("web", "two")}}))
        .await;
    until("only new pods are left", async || {
        let images: BTreeSet<_> = world
            .pods()
            .await
            .iter()
            .filter_map(|pod| pod.spec.clone().unwrap().containers[0].image.clone())
            .collect();
        assert!(images.len() < 2, "old and new pods at the same time");
        check(images.contains("two"), images)
    })
    .await;
    world.rolled_out("web", 3).await;
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_pods_as_asked_for_are_ever_made() {
    let world = World::new();
    world.deploy("web", 40).await;
    world.rolled_out("web", 40).await;
    world.settle().await;
    let made = world.pods().await;
    assert_eq!(made.len(), 40);
    assert!(made.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()));
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_and_released_by_their_labels() {
    let world = World::new();
    let pods: Api<Pod> = world.api();
    let mut orphan = template("web", "one");
    orphan["metadata"]["name"] = "orphan".into();
    world.create(&pods, orphan).await;
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "one")},
    });
    let set: ReplicaSet = world.create(&world.api(), set).await;
    until("two pods are there, one adopted", async || {
        let owned = world
            .pods()
            .await
            .iter()
            .filter(|pod| pod.owner_references().iter().any(|o| o.uid == set.uid().unwrap()))
            .count();
        check(owned == 2, owned)
    })
    .await;
    assert_eq!(world.pods().await.len(), 2);
    world.patch(&pods, "orphan", json!({"metadata": {"labels": {"app": "free"}}})).await;
    until("the pod is let go and replaced", async || {
        let all = world.pods().await;
        let free = pods.get("orphan").await.unwrap().owner_references().is_empty();
        check(free && all.len() == 3, all.len())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn slices_follow_the_readiness_of_pods() {
    let world = World::new();
    world.create(&world.api::<Service>(), service("web")).await;
    until("an empty slice is there", async || {
        let slices = world.slices_of("web").await;
        check(slices.len() == 1 && endpoints(&slices).is_empty(), slices)
    })
    .await;
    world.deploy("web", 2).await;
    until("both pods are ready endpoints", async || {
        let found = endpoints(&world.slices_of("web").await);
        check(found.len() == 2 && found.values().all(|ready| *ready), found)
    })
    .await;
    let slices = world.slices_of("web").await;
    assert_eq!(slices.len(), 1, "the empty slice was filled");
    let endpoint = slices[0].endpoints.as_ref().unwrap()[0].clone();
    assert!(endpoint.zone.is_some_and(|zone| zone.starts_with("zone")));
    let victim = endpoint.target_ref.unwrap().name.unwrap();
    let unready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:05:00Z"}]}});
    let patch = Patch::Strategic(unready);
    world.api::<Pod>().patch_status(&victim, &PatchParams::default(), &patch).await.unwrap();
    until("one endpoint is not ready", async || {
        let found = endpoints(&world.slices_of("web").await);
        check(found.len() == 2 && found.values().filter(|ready| !**ready).count() == 1, found)
    })
    .await;
    world.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    until("no endpoint is left", async || {
        let slices = world.slices_of("web").await;
        check(slices.len() == 1 && endpoints(&slices).is_empty(), slices)
    })
    .await;
    world.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    until("the slices go with their service", async || {
        let slices = world.slices_of("web").await;
        check(slices.is_empty(), slices)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn more_pods_than_fit_one_slice_make_several() {
    let world = World::new();
    world.create(&world.api::<Service>(), service("web")).await;
    world.deploy("web", 120).await;
    until("all pods are endpoints", async || {
        let found = endpoints(&world.slices_of("web").await);
        check(found.len() == 120 && found.values().all(|ready| *ready), found.len())
    })
    .await;
    let slices = world.slices_of("web").await;
    assert!(slices.len() >= 2 && slices.iter().all(|slice| slice.endpoints.as_ref().unwrap().len() <= 100));
}

#[tokio::test(start_paused = true)]
async fn slices_of_others_are_left_alone() {
    let world = World::new();
    let foreign = json!({
        "metadata": {"name": "imported", "labels": {SERVICE: "web", FOREIGN: "somebody.else"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}],
    });
    let before: EndpointSlice = world.create(&world.api(), foreign).await;
    world.create(&world.api::<Service>(), service("web")).await;
    world.deploy("web", 1).await;
    until("the pod is an endpoint", async || {
        let found = endpoints(&world.slices_of("web").await);
        check(found.len() == 2, found)
    })
    .await;
    world.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    until("only the foreign slice is left", async || {
        let slices = world.slices_of("web").await;
        check(slices.len() == 1, slices)
    })
    .await;
    let after = world.api::<EndpointSlice>().get("imported").await.unwrap();
    assert_eq!(before, after);
}

fn toys() -> (Value, ApiResource) {
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

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_everything_in_it_has_gone() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    world.create(&namespaces, json!({"metadata": {"name": "shop"}})).await;
    let (definition, resource) = toys();
    world.create(&Api::<CustomResourceDefinition>::all(world.client.clone()), definition).await;
    let toys: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "shop", &resource);
    let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy",
        "metadata": {"name": "bear", "finalizers": ["example.com/hold"]}});
    world.create(&toys, toy).await;
    world
        .create(&Api::<Deployment>::namespaced(world.client.clone(), "shop"), deployment("web", 2, "one"))
        .await;
    world.create(&Api::<Service>::namespaced(world.client.clone(), "shop"), service("web")).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "shop");
    until("pods run", async || {
        let ready =
            pods.list(&ListParams::default()).await.unwrap().iter().filter(|pod| is_ready(pod)).count();
        check(ready == 2, ready)
    })
    .await;
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    until("only the held object is left", async || {
        let namespace = namespaces.get("shop").await.unwrap();
        let conditions = namespace.status.unwrap().conditions.unwrap_or_default();
        let remaining = conditions.iter().find(|found| found.type_ == "NamespaceContentRemaining");
        let message = remaining.and_then(|found| found.message.clone()).unwrap_or_default();
        check(message == "Some resources are remaining: Toy.example.com has 1", message)
    })
    .await;
    let secrets = Api::<Secret>::namespaced(world.client.clone(), "shop");
    let refused = secrets
        .create(&PostParams::default(), &Secret { metadata: named("late"), ..Secret::default() })
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let resting = world.settle().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(world.revision().await, resting, "waiting for a finalizer writes nothing");
    world.patch(&toys, "bear", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&namespaces, "shop").await;
    assert!(toys.list(&ListParams::default()).await.unwrap().items.is_empty());
}

fn named(name: &str) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_certificate() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    world.create(&namespaces, json!({"metadata": {"name": "shop"}})).await;
    for namespace in ["default", "kube-system", "shop"] {
        let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
        until_there(&accounts, "default").await;
        let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
        let map = until_there(&maps, "kube-root-ca.crt").await;
        assert_eq!(map.data.unwrap()["ca.crt"], "PEM");
    }
    let maps: Api<ConfigMap> = world.api();
    world.patch(&maps, "kube-root-ca.crt", json!({"data": {"ca.crt": "forged"}})).await;
    until("the certificate is restored", async || {
        let data = maps.get("kube-root-ca.crt").await.unwrap().data.unwrap();
        check(data["ca.crt"] == "PEM", data)
    })
    .await;
    world.api::<ServiceAccount>().delete("default", &DeleteParams::default()).await.unwrap();
    until_there(&world.api::<ServiceAccount>(), "default").await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_respects_selectors_and_says_why_not() {
    let world = World::new();
    let pods: Api<Pod> = world.api();
    let pod = |name: &str, zone: &str| {
        let containers = json!([{"name": "c", "image": "one"}]);
        json!({"metadata": {"name": name},
            "spec": {"nodeSelector": {"topology.kubernetes.io/zone": zone}, "containers": containers}})
    };
    world.create(&pods, pod("here", "zone2")).await;
    world.create(&pods, pod("nowhere", "zone9")).await;
    until("the pod runs on the node of its zone", async || {
        let found = pods.get("here").await.unwrap();
        check(
            is_ready(&found) && found.spec.as_ref().unwrap().node_name.as_deref() == Some("node2"),
            found.status,
        )
    })
    .await;
    until("the other one is told why it waits", async || {
        let status = pods.get("nowhere").await.unwrap().status.unwrap();
        let message =
            status.conditions.into_iter().flatten().find_map(|found| found.message).unwrap_or_default();
        let expected = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.";
        check(message == expected, message)
    })
    .await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    world
        .patch(&nodes, "node1", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone9"}}}))
        .await;
    until("it runs when a node fits", async || {
        check(is_ready(&pods.get("nowhere").await.unwrap()), "not yet")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dependents_go_after_their_owner_in_the_background() {
    let world = World::new();
    let maps: Api<ConfigMap> = world.api();
    let owner = world.create(&maps, json!({"metadata": {"name": "owner"}})).await;
    let middle = world.create(&maps, owned("middle", &owner, true)).await;
    world.create(&world.api::<Secret>(), owned("leaf", &middle, true)).await;
    let other = world.create(&maps, json!({"metadata": {"name": "other"}})).await;
    let mut shared = owned("shared", &owner, true);
    let second = serde_json::to_value(other.owner_ref(&()).unwrap()).unwrap();
    shared["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    world.create(&maps, shared).await;
    world.settle().await;
    assert!(maps.get_opt("middle").await.unwrap().is_some());
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    until_gone(&maps, "middle").await;
    until_gone(&world.api::<Secret>(), "leaf").await;
    until("the shared one keeps its other owner only", async || {
        let owners: Vec<_> =
            maps.get("shared").await.unwrap().owner_references().iter().map(|o| o.name.clone()).collect();
        check(owners == ["other"], owners)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_in_the_foreground_goes_last() {
    let world = World::new();
    let maps: Api<ConfigMap> = world.api();
    let owner = world.create(&maps, json!({"metadata": {"name": "owner"}})).await;
    let mut held = owned("held", &owner, true);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create(&maps, held).await;
    world.create(&maps, owned("free", &owner, false)).await;
    maps.delete("owner", &DeleteParams::foreground()).await.unwrap();
    until_gone(&maps, "free").await;
    world.settle().await;
    let waiting = maps.get("owner").await.unwrap();
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
    world.patch(&maps, "held", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&maps, "held").await;
    until_gone(&maps, "owner").await;
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_owner_and_stay() {
    let world = World::new();
    world.deploy("web", 2).await;
    world.rolled_out("web", 2).await;
    let sets: Api<ReplicaSet> = world.api();
    let set = sets.list(&ListParams::default()).await.unwrap().items[0].name_any();
    world.api::<Deployment>().delete("web", &DeleteParams::orphan()).await.unwrap();
    until_gone(&world.api::<Deployment>(), "web").await;
    world.settle().await;
    assert!(sets.get(&set).await.unwrap().owner_references().is_empty());
    assert_eq!(world.ready_pods().await.len(), 2);
    sets.delete(&set, &DeleteParams::foreground()).await.unwrap();
    until_gone(&sets, &set).await;
    assert_eq!(world.pods().await.len(), 0, "foreground: the pods went first");
}

#[tokio::test(start_paused = true)]
async fn impossible_owners_are_told_from_missing_ones() {
    let world = World::new();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let shop = world.create(&namespaces, json!({"metadata": {"name": "shop"}})).await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(world.client.clone(), "shop");
    let owner = world.create(&elsewhere, json!({"metadata": {"name": "owner"}})).await;
    let maps: Api<ConfigMap> = world.api();
    // An owner in another namespace is none: names without a namespace mean the dependent's own.
    world.create(&maps, owned("foreign", &owner, false)).await;
    // A kind that nobody serves may be served again; something without a namespace cannot have an owner in one.
    let strange =
        json!([{"apiVersion": "example.com/v1", "kind": "Ghost", "name": "g", "uid": "no-such-uid"}]);
    world.create(&maps, json!({"metadata": {"name": "strange", "ownerReferences": strange}})).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    world.create(&nodes, owned("misled", &owner, false)).await;
    // What has no namespace may own what has one.
    world.create(&maps, owned("of-namespace", &shop, false)).await;
    until_gone(&maps, "foreign").await;
    world.settle().await;
    for name in ["strange", "of-namespace"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    assert!(nodes.get_opt("misled").await.unwrap().is_some());
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    until_gone(&maps, "of-namespace").await;
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_that_appear_later_are_collected_too() {
    let world = World::new();
    world.settle().await;
    let (definition, resource) = toys();
    world.create(&Api::<CustomResourceDefinition>::all(world.client.clone()), definition).await;
    let toys: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "default", &resource);
    let maps: Api<ConfigMap> = world.api();
    let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "bear"}});
    let toy = world.create(&toys, toy).await;
    let reference =
        json!([{"apiVersion": "example.com/v1", "kind": "Toy", "name": "bear", "uid": toy.uid()}]);
    world.create(&maps, json!({"metadata": {"name": "label", "ownerReferences": reference}})).await;
    let owner = maps.get("label").await.unwrap();
    let mut part = owned("ribbon", &owner, false);
    part["apiVersion"] = "example.com/v1".into();
    part["kind"] = "Toy".into();
    world.create(&toys, part).await;
    world.settle().await;
    assert!(maps.get_opt("label").await.unwrap().is_some());
    toys.delete("bear", &DeleteParams::default()).await.unwrap();
    until_gone(&maps, "label").await;
    until_gone(&toys, "ribbon").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changes() {
    let world = World::new();
    world.create(&world.api::<Service>(), service("web")).await;
    world.deploy("web", 5).await;
    world.rolled_out("web", 5).await;
    let resting = world.settle().await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.revision().await, resting);
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_are_stopped_and_started_finish_what_was_begun() {
    let mut world = World::still(2);
    world.create(&world.api::<Service>(), service("web")).await;
    world.deploy("web", 6).await;
    // Each time they get a little further, and each time the world has moved on meanwhile.
    for round in 0..12 {
        world.start();
        tokio::time::sleep(Duration::from_millis(round)).await;
        for _ in 0..round * 7 {
            tokio::task::yield_now().await;
        }
        world.stop().await;
        let image = format!("image-{round}");
        world
            .patch(&world.api::<Deployment>(), "web", json!({"spec": {"template": template("web", &image)}}))
            .await;
    }
    world.start();
    world.rolled_out("web", 6).await;
    world.settle().await;
    assert_eq!(world.pods().await.len(), 6);
    let found = endpoints(&world.slices_of("web").await);
    assert!(found.len() == 6 && found.values().all(|ready| *ready), "{found:?}");
    let resting = world.revision().await;
    world.stop().await;
    world.start();
    world.settle().await;
    assert_eq!(world.revision().await, resting, "a restart alone changes nothing");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_world() {
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        world.create(&world.api::<Service>(), service("web")).await;
        world.deploy("web", 4).await;
        world.rolled_out("web", 4).await;
        world.settle().await;
        let pods: Vec<String> =
            world.pods().await.iter().map(|pod| format!("{} {:?}", pod.name_any(), pod.uid())).collect();
        worlds.push((world.revision().await.len(), pods));
    }
    assert_eq!(worlds[0], worlds[1]);
}
