//! Nodes and providers that die under load.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tombolo_api::loadbalancer::Profile;
use tombolo_testkit::lab::{Protocol, isolated};
use tombolo_testkit::until;

use crate::traffic::Traffic;
use crate::world::{World, create, reached_at, ready, with_world};

/// A load balancer with endpoints everywhere, and the node that answers for it.
async fn running(world: &World, families: &str) -> (Vec<std::net::SocketAddr>, usize) {
    world.endpoints(&[ready(0, 0), ready(1, 0), ready(2, 0)]).await;
    let service = world.provision(json!({ "ipFamilyPolicy": families })).await.unwrap();
    let to = reached_at(&service, 80);
    for to in &to {
        world.until_reachable(*to, Protocol::Tcp).await;
    }
    let announcer = announcer(world, to[0].ip()).await;
    (to, announcer)
}

async fn announcer(world: &World, address: IpAddr) -> usize {
    let mut found = None;
    until("somebody answers for it", async || {
        found = world.announcer_of(address).await;
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Waits until so many more connections were answered.
async fn until_answered(traffic: &Traffic, count: u64) {
    let mut total = 0;
    until("traffic goes on", async || {
        total += traffic.take().0;
        total >= count
    })
    .await;
}

#[test]
fn a_node_that_dies_is_replaced_and_traffic_goes_on() {
    isolated(|| {
        with_world(Profile::Full, async |world| {
            let (to, dead) = running(world, "SingleStack").await;
            let to = to[0];
            let others: Vec<_> = (0..3).filter(|node| *node != dead).map(|node| ready(node, 0)).collect();
            world.endpoints(&others).await;
            let traffic = Traffic::with_patience(&world.lab.client, to, Duration::from_millis(200));
            until("traffic flows", async || traffic.take().0 > 0).await;
            world.kill_node(dead);
            let killed = Instant::now();
            traffic.take();
            until("traffic flows again", async || traffic.take().0 > 0).await;
            println!("traffic flowed again {:?} after node{} died", killed.elapsed(), dead + 1);
            let next = announcer(world, to.ip()).await;
            assert_ne!(next, dead);
            until_answered(&traffic, 20).await;

            // Whoever comes back does not take the address away.
            world.lab.nodes[dead].place.run("ip link set eth0 up");
            world.start_balancer(dead).await;
            until_answered(&traffic, 20).await;
            assert_eq!(announcer(world, to.ip()).await, next);
        });
    });
}

#[test]
fn ipv6_addresses_move_as_well() {
    isolated(|| {
        with_world(Profile::Full, async |world| {
            let (to, _) = running(world, "PreferDualStack").await;
            let to = *to.iter().find(|to| to.is_ipv6()).unwrap();
            let dead = announcer(world, to.ip()).await;
            let others: Vec<_> = (0..3).filter(|node| *node != dead).map(|node| ready(node, 0)).collect();
            world.endpoints(&others).await;
            world.kill_node(dead);
            until("another node answers", async || world.asked_by_client(to, Protocol::Tcp).is_some()).await;
            assert_ne!(announcer(world, to.ip()).await, dead);
        });
    });
}

#[test]
fn a_provider_that_is_killed_and_restarted_moves_nothing() {
    isolated(|| {
        with_world(Profile::Full, async |world| {
            let (to, _) = running(world, "SingleStack").await;
            let before = world.get().await;
            let traffic = Traffic::start(&world.lab.client, to[0]);
            for node in 0..3 {
                world.kill_balancer(node);
            }
            for node in 0..3 {
                world.start_balancer(node).await;
            }
            until_answered(&traffic, 100).await;
            // A Service that came later shows that everything has been looked at again.
            let later = json!({
                "metadata": {"name": "later"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            });
            create(&world.services(), later).await;
            until("a provider works again", async || {
                !world.services().get("later").await.unwrap().conditions().is_empty()
            })
            .await;
            assert_eq!(world.get().await, before, "not even a transition time has moved");
        });
    });
}
