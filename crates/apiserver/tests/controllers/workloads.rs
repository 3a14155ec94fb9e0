//! Deployments, ReplicaSets and the scheduler.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::world::{World, check, is_ready, template, until};

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
