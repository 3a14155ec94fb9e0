//! A provider that ends and another that begins: nothing may be noticed.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tombolo_api::loadbalancer::Profile;
use tombolo_balancer::Config;
use tombolo_testkit::linger;

use crate::world::{FAILED, NORMAL, REFUSED, World, addresses, finalizers, wait};

#[tokio::test]
async fn a_provider_that_starts_anew_changes_nothing() {
    let world = World::new(&["192.0.2.0/31"]).await;
    let running = world.start(Profile::V4Only);
    world.service("first", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    world.until("first", &format!("{NORMAL} D=True/IPFamiliesNotSupported")).await;
    world.service("second", json!({"loadBalancerIP": "192.0.2.0"})).await;
    world.until("second", &format!("{NORMAL} D=True/LoadBalancerIPNotSupported")).await;
    world.service("third", json!({})).await;
    world.until("third", FAILED).await;
    world.service("fourth", json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"})).await;
    world.until("fourth", REFUSED).await;
    let names = ["first", "second", "third", "fourth"];
    let mut before = Vec::new();
    for name in names {
        before.push(world.get(name).await);
    }
    drop(running);

    let writes = world.metrics.writes();
    let _running = world.start(Profile::V4Only);
    // One more Service shows that the others have been looked at: they came first.
    world.service("witness", json!({})).await;
    world.until("witness", FAILED).await;
    for (name, before) in names.iter().zip(before) {
        assert_eq!(world.get(name).await, before, "{name}");
    }
    assert_eq!(world.metrics.writes(), writes + 1);
}

#[tokio::test]
async fn changes_made_while_no_provider_ran_are_seen() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let running = world.start(Profile::Full);
    world.service("web", json!({})).await;
    let before = world.until("web", NORMAL).await;
    drop(running);
    world.patch("web", json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}})).await;
    let _running = world.start(Profile::Full);
    wait(async || world.get("web").await.conditions() != before.conditions()).await;
    let after = world.get("web").await;
    for (old, new) in before.conditions().iter().zip(after.conditions()) {
        assert!(new.last_transition_time.0 > old.last_transition_time.0, "{}", new.type_);
    }
    assert_eq!(addresses(&after), addresses(&before));
}

#[tokio::test]
async fn who_has_an_address_keeps_it_before_newcomers_get_any() {
    let world = World::new(&["192.0.2.0/31"]).await;
    let running = world.start(Profile::Full);
    world.service("holder", json!({"loadBalancerIP": "192.0.2.1"})).await;
    world.until("holder", NORMAL).await;
    drop(running);
    world.service("a-newcomer", json!({"loadBalancerIP": "192.0.2.1"})).await;
    let _running = world.start(Profile::Full);
    let newcomer = world.until("a-newcomer", &format!("{NORMAL} D=True/LoadBalancerIPNotSupported")).await;
    assert_eq!(addresses(&newcomer), ["192.0.2.0"]);
    assert_eq!(addresses(&world.get("holder").await), ["192.0.2.1"]);
}

/// The provider that comes with k3s, for one, writes addresses of nodes.
#[tokio::test]
async fn what_another_provider_left_in_the_status_is_not_announced() {
    let world = World::new(&["192.0.2.0/31"]).await;
    world.service("web", json!({})).await;
    let left = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}});
    let params = PatchParams::default();
    world.services().patch_status("web", &params, &Patch::Merge(left)).await.unwrap();
    let _running = world.start(Profile::Full);
    assert_eq!(addresses(&world.until("web", NORMAL).await), ["192.0.2.0"]);
}

/// Row G6 of the reference: whoever waits in vain concludes that there is nobody.
#[tokio::test(start_paused = true)]
async fn where_no_provider_runs_nothing_is_promised() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let _stranger =
        world.start_with(Config { class: Some("example.com/other".into()), ..world.config("node1") });
    world.service("web", json!({})).await;
    let before = world.get("web").await;
    linger(Duration::from_secs(30)).await;
    let after = world.get("web").await;
    assert_eq!(after, before, "nobody has touched it");
    assert!(after.conditions().is_empty() && addresses(&after).is_empty() && finalizers(&after).is_empty());
    let _running = world.start_with(world.config("node2"));
    world.until("web", NORMAL).await;
}

/// Row L19: a cluster goes back to a provider, or to none, that knows nothing of conditions.
#[tokio::test(start_paused = true)]
async fn what_was_said_before_a_downgrade_stays_and_is_corrected_after_it() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let running = world.start(Profile::Full);
    world.service("web", json!({})).await;
    let before = world.until("web", NORMAL).await;
    running.stop().await;
    world.patch("web", json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}})).await;
    linger(Duration::from_secs(60)).await;
    let stale = world.get("web").await;
    assert_eq!(stale.conditions(), before.conditions(), "stale, but still there");
    assert_eq!(addresses(&stale), addresses(&before));
    let _running = world.start(Profile::Full);
    wait(async || world.get("web").await.conditions() != before.conditions()).await;
    assert_eq!(addresses(&world.get("web").await), addresses(&before));
}

#[tokio::test]
async fn of_two_processes_one_provides_and_the_other_takes_over() {
    let world = World::new(&["192.0.2.0/30"]).await;
    let elected = |node: &str| Config { elect_leader: true, ..world.config(node) };
    let first = world.start_with(elected("node1"));
    world.service("one", json!({})).await;
    let before = world.until("one", NORMAL).await;
    let _second = world.start_with(elected("node2"));
    first.stop().await;
    world.service("two", json!({})).await;
    assert_eq!(addresses(&world.until("two", NORMAL).await), ["192.0.2.1"]);
    assert_eq!(world.get("one").await, before);
}
