//! What is not ours is asked elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder};
use domain::rdata::A;
use tokio::net::UdpSocket;
use tombolo_dns::{Config, Dns, Error};

use crate::live::{ask, wait_for};
use crate::world::{PATIENCE, World, config};

/// An upstream that answers every question with 192.0.2.1 and counts.
async fn upstream() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (socket.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_octets(&buffer[..length]).unwrap();
            let question = query.sole_question().unwrap();
            if !question.qname().to_string().contains("tombolo-loop") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
            let mut answer = MessageBuilder::new_vec().start_answer(&query, Rcode::NOERROR).unwrap();
            answer.push((question.qname(), 60, A::from_octets(192, 0, 2, 1))).unwrap();
            socket.send_to(&answer.finish(), from).await.unwrap();
        }
    });
    (address, count)
}

async fn status(address: SocketAddr, name: &'static str) -> crate::script::Outcome {
    tokio::task::spawn_blocking(move || ask(address, name, "A")).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_others_come_from_an_upstream_and_then_from_the_cache() {
    let (upstream, count) = upstream().await;
    let world = World::with(Config { forward: vec![upstream], ..config() }).await;
    for _ in 0..5 {
        let outcome = status(world.address, "www.example.org").await;
        assert_eq!(outcome.status, "NOERROR");
        assert!(outcome.answer.iter().all(|record| record.ends_with("A 192.0.2.1")), "{outcome:?}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // Ours stay ours.
    assert_eq!(status(world.address, "nothing.shop.svc.clusterset.local").await.status, "NXDOMAIN");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alias_that_leads_outside_is_followed() {
    let (upstream, _) = upstream().await;
    let world = World::with(Config { forward: vec![upstream], ..config() }).await;
    let outcome = status(world.address, "outside.shop.svc.cluster.local").await;
    let expected =
        ["outside.shop.svc.cluster.local. 5 CNAME www.example.org.", "www.example.org. 60 A 192.0.2.1"];
    assert_eq!(outcome.answer, expected.map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_upstream_is_passed_over() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (working, _) = upstream().await;
    let forward = vec![silent.local_addr().unwrap(), working];
    let world = World::with(Config { forward, ..config() }).await;
    wait_for(world.address, "www.example.org", "A", "NOERROR").await;
    let alone = Config { forward: vec![silent.local_addr().unwrap()], ..config() };
    let world = World::with(alone).await;
    wait_for(world.address, "www.example.org", "A", "SERVFAIL").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_is_noticed() {
    // The server itself as an upstream is refused.
    let cluster = tombolo_testkit::Cluster::new(tombolo_apiserver::Options::named("x"));
    let own: SocketAddr = "127.0.0.1:5399".parse().unwrap();
    let looping = Config { listen: vec![own], forward: vec![own], ..config() };
    assert!(matches!(Dns::bind(looping, cluster.client()), Err(Error::Loop(_))));
    // Through somebody else it comes to light when the first query comes back.
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let world = World::with(Config { forward: vec![relay.local_addr().unwrap()], ..config() }).await;
    let server = world.address;
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = relay.recv_from(&mut buffer).await {
            let back = if from == server { continue } else { server };
            relay.send_to(&buffer[..length], back).await.unwrap();
        }
    });
    let noticed = async {
        loop {
            let (mut registry, mut text) = (prometheus_client::registry::Registry::default(), String::new());
            world.metrics.register(&mut registry);
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            if text.contains("tombolo_dns_forward_loops_total 1") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.expect("the loop is noticed");
    wait_for(server, "www.example.org", "A", "SERVFAIL").await;
}
