//! Pools and Services that make no sense: a clear condition, or a refused object.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tombolo_api::loadbalancer::Profile;
use tombolo_api::tombolo::AddressPool;

use crate::world::{NORMAL, World, addresses, condition, message, wait};

/// Waits until a pool says this about being accepted, and returns why.
async fn until_pool(world: &World, name: &str, reason: &str) -> String {
    let mut said = String::new();
    wait(async || {
        let pool = world.pools().get(name).await.unwrap();
        let conditions = pool.status.map(|status| status.conditions).unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|condition| condition.type_ == "Accepted" && condition.reason == reason);
        said = found.as_ref().map(|found| found.message.clone()).unwrap_or_default();
        found.is_some()
    })
    .await;
    said
}

#[tokio::test]
async fn a_pool_that_overlaps_gives_nothing_until_the_other_one_is_gone() {
    let world = World::new(&["192.0.2.0/31"]).await;
    let _running = world.start(Profile::Full);
    until_pool(&world, "main", "Accepted").await;
    world.pool("more", json!({"addresses": ["192.0.2.1-192.0.2.5"], "priority": 9})).await;
    let why = until_pool(&world, "more", "Overlapping").await;
    assert_eq!(why, "192.0.2.1-192.0.2.5 overlaps with 192.0.2.0-192.0.2.1 of the pool main");
    world.service("web", json!({})).await;
    assert_eq!(addresses(&world.until("web", NORMAL).await), ["192.0.2.0"]);
    world.pools().delete("main", &DeleteParams::default()).await.unwrap();
    until_pool(&world, "more", "Accepted").await;
    world.service("next", json!({})).await;
    assert_eq!(addresses(&world.until("next", NORMAL).await), ["192.0.2.1"]);
}

#[tokio::test]
async fn what_is_no_range_is_refused_or_said() {
    let world = World::new(&[]).await;
    let _running = world.start(Profile::Full);
    for addresses in
        [json!(["nonsense"]), json!([]), json!(["192.0.2.1-2001:db8::1"]), json!(["192.0.2.0/40"])]
    {
        let pool: AddressPool = serde_json::from_value(json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "AddressPool",
            "metadata": {"name": "bad"}, "spec": {"addresses": addresses},
        }))
        .unwrap();
        let refused = world.pools().create(&PostParams::default(), &pool).await;
        assert!(refused.is_err(), "{:?}", pool.spec.addresses);
    }
    world.pool("backwards", json!({"addresses": ["192.0.2.9-192.0.2.1"]})).await;
    let why = until_pool(&world, "backwards", "InvalidAddresses").await;
    assert_eq!(why, "\"192.0.2.9-192.0.2.1\" ends before it starts");
}

#[tokio::test]
async fn a_pool_that_shrinks_under_a_live_service_leaves_it_in_peace_and_both_say_so() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Full);
    world.service("web", json!({})).await;
    let before = world.until("web", NORMAL).await;
    wait(async || assigned(&world, "main").await == 1).await;
    let patch: Value = json!({"spec": {"addresses": ["192.0.2.2/31"]}});
    world.pools().patch("main", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    wait(async || message(&world.get("web").await).contains("192.0.2.0 is in no AddressPool")).await;
    let after = world.get("web").await;
    assert_eq!(addresses(&after), ["192.0.2.0"]);
    for kind in ["LoadBalancerServing", "LoadBalancerProvisioning"] {
        let time = |service| condition(service, kind).unwrap().last_transition_time.clone();
        assert_eq!(time(&after), time(&before));
    }
    wait(async || assigned(&world, "main").await == 0).await;
}

async fn assigned(world: &World, pool: &str) -> i64 {
    world.pools().get(pool).await.unwrap().status.map_or(-1, |status| status.assigned)
}

#[tokio::test]
async fn an_address_asked_for_twice_goes_to_one_and_the_other_is_told() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Full);
    world.service("first", json!({"loadBalancerIP": "192.0.2.3"})).await;
    world.until("first", NORMAL).await;
    world.service("second", json!({"loadBalancerIP": "192.0.2.3"})).await;
    let second = world.until("second", &format!("{NORMAL} D=True/LoadBalancerIPNotSupported")).await;
    let why = &condition(&second, "LoadBalancerDegraded").unwrap().message;
    assert_eq!(why, "LoadBalancerIP: 192.0.2.3 is used by default/first");
    world.delete("first").await;
    assert_eq!(addresses(&world.until("second", NORMAL).await), ["192.0.2.3"]);
}

#[tokio::test]
async fn services_with_one_key_share_an_address_and_pools_count_it_once() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _running = world.start(Profile::Full);
    let key = json!({"tombolo.dev/address-sharing-key": "web"});
    world.annotated("http", key.clone(), json!({})).await;
    world.until("http", NORMAL).await;
    world.annotated("https", key, json!({"ports": [{"port": 443}]})).await;
    assert_eq!(addresses(&world.until("https", NORMAL).await), ["192.0.2.0"]);
    wait(async || assigned(&world, "main").await == 1).await;
}
