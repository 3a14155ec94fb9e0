//! Which node answers for an address, and what happens when it dies. Time is paused: what is measured is what was waited.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::Instant;
use tombolo_balancer::Config;
use tombolo_testkit::timely;

use crate::world::{FAILED, NORMAL, Running, World, addresses, create, message, wait};

const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The balancers of all three nodes, by name.
async fn start(world: &World, preemptive: bool) -> BTreeMap<String, Running> {
    create::<Node>(&Api::all(world.client.clone()), json!({"metadata": {"name": "node3"}})).await;
    let mut running = BTreeMap::new();
    for node in ["node1", "node2", "node3"] {
        running.insert(node.to_owned(), start_one(world, node, preemptive).await);
    }
    running
}

async fn start_one(world: &World, node: &str, preemptive: bool) -> Running {
    let running = world.start_with(Config { elect_leader: true, preemptive, ..world.config(node) });
    wait(async || claims(world).await.contains_key(node)).await;
    running
}

/// What each node says it answers for.
async fn claims(world: &World) -> BTreeMap<String, String> {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), "tombolo-system");
    let leases = api.list(&ListParams::default().labels("tombolo.dev/announcer")).await.unwrap();
    let claim = |lease: Lease| {
        let node = lease.name_any().trim_start_matches("tombolo-announcer.").to_owned();
        (node, lease.annotations().get("tombolo.dev/announced").cloned().unwrap_or_default())
    };
    leases.into_iter().map(claim).collect()
}

/// The node among these that answers for an address, once there is one.
async fn announcer(world: &World, running: &BTreeMap<String, Running>, address: &str) -> String {
    let mut found = None;
    wait(async || {
        let claims = claims(world).await;
        let mut holders = running.keys().filter(|node| claims.get(*node).is_some_and(|all| all == address));
        found = holders.next().cloned();
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// The node that gives addresses.
async fn provider(world: &World) -> String {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), "tombolo-system");
    let leases = api.list(&ListParams::default().labels("!tombolo.dev/announcer")).await.unwrap();
    let holder = leases.into_iter().find_map(|lease| lease.spec?.holder_identity).unwrap();
    ["node1", "node2", "node3"].into_iter().find(|node| holder.contains(node)).unwrap().to_owned()
}

async fn exclude(world: &World, node: &str, value: Option<&str>) {
    let api: Api<Node> = Api::all(world.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL: value}}}));
    api.patch(node, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_node_that_dies_is_taken_over_within_three_seconds() {
    let world = World::new(&["192.0.2.7"]).await;
    let mut running = start(&world, false).await;
    world.service("web", json!({})).await;
    let address = addresses(&world.until("web", NORMAL).await).remove(0);
    let first = announcer(&world, &running, &address).await;
    let died = Instant::now();
    drop(running.remove(&first));
    let second = announcer(&world, &running, &address).await;
    assert!(timely(died.elapsed(), Duration::from_secs(3)), "{:?}", died.elapsed());
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_is_told_within_five_seconds_of_the_death_of_the_provider() {
    let world = World::new(&["192.0.2.7"]).await;
    let mut running = start(&world, false).await;
    world.service("first", json!({})).await;
    world.until("first", NORMAL).await;
    let died = Instant::now();
    drop(running.remove(&provider(&world).await));
    world.service("second", json!({})).await;
    world.until("second", FAILED).await;
    let waited = died.elapsed();
    assert!(waited >= Duration::from_secs(1) && timely(waited, Duration::from_secs(5)), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_waits_for_a_provider_that_was_killed_says_so_within_a_second() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let mut running = start(&world, false).await;
    world.service("changed", json!({})).await;
    world.service("deleted", json!({})).await;
    for name in ["changed", "deleted"] {
        world.until(name, NORMAL).await;
    }
    // Those who stand by see answers a moment later, and would have something to say about none of them.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.events("changed").await, ["EnsuredLoadBalancer"]);
    drop(running.remove(&provider(&world).await));
    let died = Instant::now();
    world.service("new", json!({})).await;
    world.patch("changed", json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}})).await;
    world.delete("deleted").await;
    for name in ["new", "changed", "deleted"] {
        wait(async || world.events(name).await.iter().any(|reason| reason == "WaitingForProvider")).await;
    }
    assert!(timely(died.elapsed(), Duration::from_secs(1)), "{:?}", died.elapsed());
    world.until("new", NORMAL).await;
    let waited = |events: &[String]| events.iter().filter(|reason| *reason == "WaitingForProvider").count();
    assert!(waited(&world.events("new").await) <= 2, "not everybody says the same");
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_for_an_address_that_another_has_just_taken() {
    let world = World::new(&["192.0.2.7"]).await;
    let running = start(&world, false).await;
    world.service("web", json!({})).await;
    let address = addresses(&world.until("web", NORMAL).await).remove(0);
    for _ in 0..20 {
        let holder = announcer(&world, &running, &address).await;
        exclude(&world, &holder, Some("")).await;
        wait(async || {
            claims(&world).await.iter().any(|(node, claimed)| *node != holder && *claimed == address)
        })
        .await;
        // The best by its hash may again, right after somebody else stepped in: long before the next look at the roster.
        exclude(&world, &holder, None).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        let holders = claims(&world).await.into_values().filter(|claimed| *claimed == address).count();
        assert_eq!(holders, 1, "two nodes answer for {address}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_good_bye_is_not_waited_for() {
    let world = World::new(&["192.0.2.7"]).await;
    let mut running = start(&world, false).await;
    world.service("web", json!({})).await;
    let address = addresses(&world.until("web", NORMAL).await).remove(0);
    let first = announcer(&world, &running, &address).await;
    running.remove(&first).unwrap().stop().await;
    let left = Instant::now();
    announcer(&world, &running, &address).await;
    assert!(timely(left.elapsed(), Duration::from_secs(1)), "{:?}", left.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_hands_over_and_gets_it_back_only_by_preemption() {
    for preemptive in [false, true] {
        let world = World::new(&["192.0.2.7"]).await;
        let running = start(&world, preemptive).await;
        world.service("web", json!({})).await;
        let address = addresses(&world.until("web", NORMAL).await).remove(0);
        let first = announcer(&world, &running, &address).await;
        exclude(&world, &first, Some("")).await;
        let mut second = first.clone();
        wait(async || {
            second = announcer(&world, &running, &address).await;
            second != first
        })
        .await;
        // Long enough for every heartbeat to have told everybody.
        tokio::time::sleep(Duration::from_secs(5)).await;
        exclude(&world, &first, None).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let expected = if preemptive { &first } else { &second };
        assert_eq!(announcer(&world, &running, &address).await, *expected, "preemptive: {preemptive}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_restarted_soon_keeps_its_addresses() {
    let world = World::new(&["192.0.2.7"]).await;
    let mut running = start(&world, false).await;
    world.service("web", json!({})).await;
    let address = addresses(&world.until("web", NORMAL).await).remove(0);
    let first = announcer(&world, &running, &address).await;
    drop(running.remove(&first));
    running.insert(first.clone(), start_one(&world, &first, false).await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(announcer(&world, &running, &address).await, first);
}

#[tokio::test(start_paused = true)]
async fn with_the_local_policy_only_nodes_with_ready_endpoints_answer() {
    let world = World::new(&["192.0.2.7"]).await;
    let running = start(&world, false).await;
    world.service("web", json!({"externalTrafficPolicy": "Local"})).await;
    let address = addresses(&world.until("web", NORMAL).await).remove(0);
    let api: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "default");
    for node in ["node2", "node3", "node1"] {
        let ready = |ready: bool, node: &str| {
            json!({
                "addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": ready},
            })
        };
        let others = running.keys().filter(|other| *other != node).map(|other| ready(false, other));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [],
            "endpoints": others.chain([ready(true, node)]).collect::<Vec<_>>(),
        });
        api.patch("web-1", &PatchParams::apply("test").force(), &Patch::Apply(slice)).await.unwrap();
        wait(async || announcer(&world, &running, &address).await == node).await;
    }
    assert_eq!(crate::world::said(&world.get("web").await), NORMAL, "endpoints do not matter for that");
}

#[tokio::test(start_paused = true)]
async fn where_no_node_may_answer_nothing_is_said_to_serve() {
    let world = World::new(&["192.0.2.7"]).await;
    exclude(&world, "node1", Some("")).await;
    let _running = world.start_with(world.config("node1"));
    world.service("web", json!({})).await;
    let why = message(&world.until("web", FAILED).await);
    assert_eq!(why, format!("no node announces addresses: node1 has the label {LABEL}"));
    exclude(&world, "node1", None).await;
    world.until("web", NORMAL).await;
    exclude(&world, "node1", Some("")).await;
    assert_eq!(addresses(&world.until("web", FAILED).await), ["192.0.2.7"], "it is kept for better times");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_link_leaves_all_addresses_to_others() {
    let world = World::new(&["192.0.2.7"]).await;
    let links = vec!["absent0".to_owned()];
    let mute = Config { speak: true, links, elect_leader: true, ..world.config("node1") };
    let mut running = BTreeMap::from([("node1".to_owned(), world.start_with(mute))]);
    world.service("web", json!({})).await;
    let why = message(&world.until("web", FAILED).await);
    assert_eq!(why, "no node announces addresses: node1 has no link to answer on");
    running.insert("node2".to_owned(), start_one(&world, "node2", false).await);
    world.until("web", NORMAL).await;
    assert_eq!(announcer(&world, &running, "192.0.2.7").await, "node2");
}
