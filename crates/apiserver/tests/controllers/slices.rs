//! EndpointSlices: what stands behind a Service.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{SERVICE, World, check, endpoints, service, until};

const FOREIGN: &str = "endpointslice.kubernetes.io/managed-by";

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
