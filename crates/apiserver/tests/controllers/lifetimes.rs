//! What comes and goes with something else: the contents of namespaces, and dependents of owners.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::world::{
    World, check, deployment, is_ready, named, owned, service, toys, until, until_gone, until_there,
};

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
    let events: Api<Event> = Api::namespaced(world.client.clone(), "shop");
    world
        .create(&events, json!({"metadata": {"name": "news"}, "involvedObject": {"namespace": "shop"}}))
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
    assert!(events.list(&ListParams::default()).await.unwrap().items.is_empty());
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
async fn owners_in_a_circle_can_be_deleted_in_the_foreground() {
    let world = World::new();
    let maps: Api<ConfigMap> = world.api();
    let first = world.create(&maps, json!({"metadata": {"name": "first"}})).await;
    let second = world.create(&maps, owned("second", &first, true)).await;
    world.patch(&maps, "first", owned("first", &second, true)).await;
    world.settle().await;
    maps.delete("first", &DeleteParams::foreground()).await.unwrap();
    until_gone(&maps, "first").await;
    until_gone(&maps, "second").await;
}

#[tokio::test(start_paused = true)]
async fn dependents_go_even_when_the_kind_of_their_owner_goes() {
    let world = World::new();
    let (definition, resource) = toys();
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    world.create(&definitions, definition).await;
    let toys: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "default", &resource);
    let maps: Api<ConfigMap> = world.api();
    let toy = json!({"apiVersion": "example.com/v1", "kind": "Toy", "metadata": {"name": "bear"}});
    let toy = world.create(&toys, toy).await;
    let reference =
        json!([{"apiVersion": "example.com/v1", "kind": "Toy", "name": "bear", "uid": toy.uid()}]);
    world.create(&maps, json!({"metadata": {"name": "label", "ownerReferences": reference}})).await;
    world.settle().await;
    definitions.delete("toys.example.com", &DeleteParams::default()).await.unwrap();
    until_gone(&maps, "label").await;
}
