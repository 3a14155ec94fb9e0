//! What must hold however the controllers are disturbed: no needless writes, no doubles, no lasting harm.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::slow::{self, Trouble};
use crate::world::{World, check, deployment, endpoints, owned, service, template, until, until_gone};

/// Everything is late by seconds: controllers act on the past all the time.
fn late(_: &str) -> Trouble {
    Trouble { lag: Duration::from_secs(3), breaks_after: None }
}

/// Watches break all the time, and kinds are late by different amounts.
fn broken(path: &str) -> Trouble {
    let lag = Duration::from_millis(path.len() as u64 * 37 % 500);
    Trouble { lag, breaks_after: Some(2 + path.len() % 3) }
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_pods_as_asked_for_are_ever_made() {
    for trouble in [|_: &str| Trouble::default(), late, broken, slices_late, pods_late] {
        let world = World::through(|cluster| slow::client(cluster, trouble));
        world.settle().await;
        world.create(&world.api::<Service>(), service("web")).await;
        world.deploy("web", 20).await;
        let mut ever = BTreeSet::new();
        until("all pods serve", async || {
            ever.extend(world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid));
            let found = endpoints(&world.slices_of("web").await);
            check(found.len() == 20 && found.values().all(|ready| *ready), found.len())
        })
        .await;
        world.rolled_out("web", 20).await;
        world.settle().await;
        ever.extend(world.pods().await.into_iter().filter_map(|pod| pod.metadata.uid));
        assert_eq!((world.pods().await.len(), ever.len()), (20, 20));
        assert_eq!(world.slices_of("web").await.len(), 1, "no twin of the slice was made");
        assert_eq!(world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items.len(), 1);
        let pods = world.pods().await;
        let addresses: BTreeSet<_> =
            pods.iter().map(|pod| pod.status.clone().unwrap().pod_ip.unwrap()).collect();
        assert_eq!(addresses.len(), 20, "every address is given out once");
        let on_first =
            pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("node1"));
        assert_eq!(on_first.count(), 10, "pods are spread evenly");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_keeps_enough_pods_even_when_news_is_late() {
    for trouble in [late, broken] {
        let world = World::through(|cluster| slow::client(cluster, trouble));
        world.deploy("web", 8).await;
        world.rolled_out("web", 8).await;
        world
            .patch(&world.api::<Deployment>(), "web", json!({"spec": {"template": template("web", "two")}}))
            .await;
        until("only new pods are left", async || {
            let pods = world.ready_pods().await;
            assert!(pods.len() >= 6, "at most a quarter of 8 may be missing, but {} are ready", pods.len());
            let old = pods
                .iter()
                .filter(|pod| pod.spec.clone().unwrap().containers[0].image.as_deref() == Some("one"));
            check(old.count() == 0 && pods.len() == 8, pods.len())
        })
        .await;
        world.rolled_out("web", 8).await;
    }
}

/// What was made for a service is seen long after the pods behind it.
fn slices_late(path: &str) -> Trouble {
    let lag = if path.ends_with("/endpointslices") { 20 } else { 0 };
    Trouble { lag: Duration::from_secs(lag), breaks_after: None }
}

/// Pods are seen long after everything else.
fn pods_late(path: &str) -> Trouble {
    let lag = if path.ends_with("/pods") { 10 } else { 0 };
    Trouble { lag: Duration::from_secs(lag), breaks_after: None }
}

/// Owners are seen long after what depends on them.
fn owners_late(path: &str) -> Trouble {
    let lag = if path.ends_with("/configmaps") { 60 } else { 0 };
    Trouble { lag: Duration::from_secs(lag), breaks_after: None }
}

/// Dependents are seen long after their owners.
fn dependents_late(path: &str) -> Trouble {
    let lag = if path.ends_with("/secrets") { 60 } else { 0 };
    Trouble { lag: Duration::from_secs(lag), breaks_after: None }
}

#[tokio::test(start_paused = true)]
async fn a_recreation_never_mixes_old_and_new_even_when_news_is_late() {
    for trouble in [|_: &str| Trouble::default(), late, pods_late] {
        let world = World::through(|cluster| slow::client(cluster, trouble));
        world.settle().await;
        let mut value = deployment("web", 3, "one");
        value["spec"]["strategy"] = json!({"type": "Recreate"});
        world.create(&world.api::<Deployment>(), value).await;
        until("the first pods are there", async || check(world.pods().await.len() == 3, "not yet")).await;
        world
            .patch(&world.api::<Deployment>(), "web", json!({"spec": {"template": template("web", "two")}}))
            .await;
        until("only new pods are left", async || {
            let pods = world.pods().await;
            let images: BTreeSet<_> =
                pods.iter().filter_map(|pod| pod.spec.clone().unwrap().containers[0].image.clone()).collect();
            assert!(images.len() < 2, "old and new pods at the same time");
            check(images.contains("two"), images)
        })
        .await;
        world.rolled_out("web", 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn late_news_never_deletes_what_has_an_owner() {
    let world = World::through(|cluster| slow::client(cluster, owners_late));
    world.settle().await;
    let owner: ConfigMap = world.create(&world.api(), json!({"metadata": {"name": "owner"}})).await;
    let secrets: Api<Secret> = world.api();
    world.create(&secrets, owned("leaf", &owner, false)).await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(secrets.get_opt("leaf").await.unwrap().is_some());
    }
    world.api::<ConfigMap>().delete("owner", &DeleteParams::background()).await.unwrap();
    until_gone(&secrets, "leaf").await;
}

#[tokio::test(start_paused = true)]
async fn late_news_does_not_break_orphaning_or_the_order_of_deletion() {
    let world = World::through(|cluster| slow::client(cluster, dependents_late));
    world.settle().await;
    let maps: Api<ConfigMap> = world.api();
    let secrets: Api<Secret> = world.api();
    let parent = world.create(&maps, json!({"metadata": {"name": "parent"}})).await;
    world.create(&secrets, owned("orphan", &parent, false)).await;
    maps.delete("parent", &DeleteParams::orphan()).await.unwrap();
    let owner = world.create(&maps, json!({"metadata": {"name": "owner"}})).await;
    world.create(&secrets, owned("leaf", &owner, true)).await;
    maps.delete("owner", &DeleteParams::foreground()).await.unwrap();
    until("the owner goes, but not before its dependent", async || {
        let owner = maps.get_opt("owner").await.unwrap();
        let leaf = secrets.get_opt("leaf").await.unwrap();
        assert!(owner.is_some() || leaf.is_none());
        check(owner.is_none(), "it is still there")
    })
    .await;
    until_gone(&maps, "parent").await;
    world.settle().await;
    assert!(secrets.get("orphan").await.unwrap().owner_references().is_empty());
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
