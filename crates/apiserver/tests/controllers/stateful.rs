//! StatefulSets: names that stay, and the order of things.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::world::{World, check, is_ready, template, until};

fn set(replicas: i32, extra: &Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "one"),
        },
    });
    json_patch::merge(&mut set, extra);
    set
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

fn images(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(|pod| pod.spec.clone().unwrap().containers[0].image.clone().unwrap()).collect()
}

async fn rolled_out(world: &World, replicas: i32) -> StatefulSet {
    let sets: Api<StatefulSet> = world.api();
    until("the set is rolled out", async || {
        let found = sets.get("db").await.unwrap();
        let status = found.status.clone().unwrap_or_default();
        let done = status.observed_generation == found.metadata.generation
            && status.replicas == replicas
            && status.ready_replicas.unwrap_or(0) == replicas
            && status.updated_replicas.unwrap_or(0) == replicas
            && status.current_revision == status.update_revision;
        check(done, status)
    })
    .await;
    sets.get("db").await.unwrap()
}

/// What happens to pods, in order, from now on until `count` things happened.
async fn history(pods: &Api<Pod>, from: &str, count: usize) -> Vec<String> {
    use futures_util::StreamExt as _;
    let mut stream = pods.watch(&WatchParams::default(), from).await.unwrap().boxed();
    let mut seen = Vec::new();
    let mut ready = BTreeSet::new();
    while seen.len() < count {
        match stream.next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) => seen.push(format!("{} comes", pod.name_any())),
            WatchEvent::Deleted(pod) => seen.push(format!("{} goes", pod.name_any())),
            // One that goes was ready before.
            WatchEvent::Modified(pod)
                if is_ready(&pod)
                    && pod.metadata.deletion_timestamp.is_none()
                    && ready.insert(pod.uid().unwrap()) =>
            {
                seen.push(format!("{} is ready", pod.name_any()));
            }
            _ => {}
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn pods_come_in_order_and_go_in_reverse() {
    let world = World::new();
    let from = world.revision().await;
    world.create(&world.api::<StatefulSet>(), set(3, &json!({}))).await;
    let set = rolled_out(&world, 3).await;
    assert_eq!(names(&world.pods().await), ["db-0", "db-1", "db-2"]);
    let expected =
        ["db-0 comes", "db-0 is ready", "db-1 comes", "db-1 is ready", "db-2 comes", "db-2 is ready"];
    assert_eq!(history(&world.api(), &from, 6).await, expected);
    assert_eq!(set.status.unwrap().available_replicas, Some(3));
    let from = world.revision().await;
    world.patch(&world.api::<StatefulSet>(), "db", json!({"spec": {"replicas": 1}})).await;
    rolled_out(&world, 1).await;
    assert_eq!(names(&world.pods().await), ["db-0"]);
    assert_eq!(history(&world.api(), &from, 2).await, ["db-2 goes", "db-1 goes"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_top_and_can_be_taken_back() {
    let world = World::new();
    let sets: Api<StatefulSet> = world.api();
    world.create(&sets, set(3, &json!({}))).await;
    let first = rolled_out(&world, 3).await.status.unwrap().update_revision;
    let from = world.revision().await;
    world.patch(&sets, "db", json!({"spec": {"template": template("db", "two")}})).await;
    let second = rolled_out(&world, 3).await.status.unwrap().update_revision;
    assert_ne!(first, second);
    assert_eq!(images(&world.pods().await), ["two", "two", "two"]);
    let seen = history(&world.api(), &from, 9).await;
    let order: Vec<&str> = seen.iter().map(String::as_str).filter(|line| line.ends_with("goes")).collect();
    assert_eq!(order, ["db-2 goes", "db-1 goes", "db-0 goes"]);
    let place = |line: &str| seen.iter().position(|found| found == line).unwrap();
    assert!(place("db-2 is ready") < place("db-1 goes"), "one after the other: {seen:?}");
    world.patch(&sets, "db", json!({"spec": {"template": template("db", "one")}})).await;
    assert_eq!(rolled_out(&world, 3).await.status.unwrap().update_revision, first, "the old revision again");
    let revisions = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap();
    let mut numbers: Vec<_> = revisions.iter().map(|found| (found.revision, found.name_any())).collect();
    numbers.sort();
    assert_eq!(numbers, [(Some(2), second.unwrap()), (Some(3), first.unwrap())]);
}

#[tokio::test(start_paused = true)]
async fn below_the_partition_everything_stays() {
    let world = World::new();
    let sets: Api<StatefulSet> = world.api();
    let strategy = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}});
    world.create(&sets, set(3, &strategy)).await;
    rolled_out(&world, 3).await;
    world.patch(&sets, "db", json!({"spec": {"template": template("db", "two")}})).await;
    until("the highest is new", async || {
        let pods = world.ready_pods().await;
        check(images(&pods) == ["one", "one", "two"], images(&pods))
    })
    .await;
    world.api::<Pod>().delete("db-0", &DeleteParams::default()).await.unwrap();
    until("the lowest is back, as it was", async || {
        let pods = world.ready_pods().await;
        check(images(&pods) == ["one", "one", "two"], images(&pods))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_comes_back_with_its_name_and_claims() {
    let world = World::new();
    let claims = json!([{"metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    world
        .create(&world.api::<StatefulSet>(), set(2, &json!({"spec": {"volumeClaimTemplates": claims}})))
        .await;
    rolled_out(&world, 2).await;
    let before = world.api::<Pod>().get("db-1").await.unwrap();
    let found = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    let found: Vec<_> = found.iter().map(|claim| (claim.name_any(), claim.uid())).collect();
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["disk-db-0", "disk-db-1"]);
    world.api::<Pod>().delete("db-1", &DeleteParams::default()).await.unwrap();
    until("another pod has the name", async || {
        let pods = world.ready_pods().await;
        check(pods.len() == 2 && pods[1].uid() != before.uid(), names(&pods))
    })
    .await;
    let again = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    assert_eq!(again.iter().map(|claim| (claim.name_any(), claim.uid())).collect::<Vec<_>>(), found);
}

#[tokio::test(start_paused = true)]
async fn a_headless_service_has_the_names_of_the_pods() {
    let world = World::new();
    let service = json!({
        "metadata": {"name": "peers"},
        "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 80}]},
    });
    world.create(&world.api::<Service>(), service).await;
    world.create(&world.api::<StatefulSet>(), set(2, &json!({}))).await;
    rolled_out(&world, 2).await;
    until("both names are there", async || {
        let slices = world.slices_of("peers").await;
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let mut hostnames: Vec<_> =
            endpoints.map(|endpoint| endpoint.hostname.clone().unwrap_or_default()).collect();
        hostnames.sort();
        check(hostnames == ["db-0", "db-1"], hostnames)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_has_all_it_needs_is_left_alone_and_takes_its_pods_along() {
    let world = World::new();
    world.create(&world.api::<StatefulSet>(), set(2, &json!({}))).await;
    rolled_out(&world, 2).await;
    let settled = world.settle().await;
    assert_eq!(world.settle().await, settled);
    world.api::<StatefulSet>().delete("db", &DeleteParams::background()).await.unwrap();
    until("its pods are gone", async || {
        let pods = world.pods().await;
        check(pods.is_empty(), names(&pods))
    })
    .await;
}
