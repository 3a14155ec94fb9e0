//! Every fault happens when it is asked for, to the client it is asked for, and repeats with its seed.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Error};
use tombolo_apiserver::{Clock, Cluster, Entropy, Options, User};
use tombolo_testkit::{FaultPlan, Faults, Outage};

fn cluster() -> Cluster {
    let epoch = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
    Cluster::new(Options {
        clock: Clock::starting_at(epoch),
        entropy: Entropy::seeded(1),
        ..Options::named("test")
    })
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map
}

async fn create(client: &Client, name: &str) -> Result<ConfigMap, Error> {
    maps(client.clone()).create(&PostParams::default(), &map(name)).await
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// A client to whose requests exactly the faults of `plan` happen.
fn client_with(cluster: &Cluster, plan: FaultPlan) -> (Faults, Client) {
    let faults = Faults::seeded(7);
    faults.plan(plan);
    let client = faults.client(cluster, User::admin());
    (faults, client)
}

#[tokio::test(start_paused = true)]
async fn refused_writes_have_no_effect_and_reads_are_spared_conflicts() {
    let cases = [
        (FaultPlan { conflict: 1.0, ..FaultPlan::default() }, vec![409]),
        (FaultPlan { throttled: 1.0, ..FaultPlan::default() }, vec![429]),
        (FaultPlan { server_error: 1.0, ..FaultPlan::default() }, vec![500, 503]),
    ];
    for (plan, codes) in cases {
        let cluster = cluster();
        let (_, client) = client_with(&cluster, plan);
        let error = create(&client, "a").await.unwrap_err();
        assert!(codes.contains(&code(&error).unwrap()), "{error:?}");
        assert!(maps(cluster.client()).get_opt("a").await.unwrap().is_none());
    }
    let cluster = cluster();
    let (_, client) = client_with(&cluster, FaultPlan { conflict: 1.0, ..FaultPlan::default() });
    assert!(maps(client).list(&ListParams::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_done() {
    let cluster = cluster();
    let (_, client) = client_with(&cluster, FaultPlan { lost_answer: 1.0, ..FaultPlan::default() });
    let error = create(&client, "a").await.unwrap_err();
    assert_eq!(code(&error), None, "the client must not learn what became of it: {error:?}");
    assert!(maps(cluster.client()).get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn latency_is_within_its_range() {
    let cluster = cluster();
    let latency = Duration::from_millis(200)..Duration::from_millis(300);
    let (_, client) = client_with(&cluster, FaultPlan { latency, ..FaultPlan::default() });
    let begin = tokio::time::Instant::now();
    create(&client, "a").await.unwrap();
    let took = begin.elapsed();
    assert!((200..=301).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_says_so_in_an_event() {
    let cluster = cluster();
    let (_, client) = client_with(&cluster, FaultPlan { expired: 1.0, ..FaultPlan::default() });
    let mut watch = maps(client).watch(&WatchParams::default(), "5").await.unwrap().boxed();
    match watch.next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!(status.code, 410),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_ends_and_others_go_on() {
    let cluster = cluster();
    let (_, client) = client_with(&cluster, FaultPlan { cut_watch: 1.0, ..FaultPlan::default() });
    let cut = maps(client).watch(&WatchParams::default(), "0").await.unwrap();
    let whole = maps(cluster.client()).watch(&WatchParams::default(), "0").await.unwrap();
    create(&cluster.client(), "a").await.unwrap();
    create(&cluster.client(), "b").await.unwrap();
    assert!(cut.collect::<Vec<_>>().await.len() <= 1);
    let added = whole.filter(|event| std::future::ready(matches!(event, Ok(WatchEvent::Added(_)))));
    assert_eq!(added.take(2).collect::<Vec<_>>().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_partition_breaks_one_client_until_it_is_healed() {
    let cluster = cluster();
    let (faults, client) = client_with(&cluster, FaultPlan::default());
    let mut watch = maps(client.clone()).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    faults.outage(Outage::Refused);
    assert!(create(&client, "a").await.is_err());
    assert!(watch.next().await.unwrap().is_err(), "an open watch breaks");
    create(&cluster.client(), "a").await.expect("nobody else notices");
    faults.heal();
    create(&client, "b").await.expect("healed");
}

#[tokio::test(start_paused = true)]
async fn in_silence_requests_hang_and_watches_deliver_nothing_until_it_is_over() {
    let cluster = cluster();
    let (faults, client) = client_with(&cluster, FaultPlan::default());
    let mut watch = maps(client.clone()).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    faults.outage(Outage::Silent);
    create(&cluster.client(), "a").await.unwrap();
    let patience = Duration::from_secs(60);
    assert!(tokio::time::timeout(patience, create(&client, "b")).await.is_err(), "the request hangs");
    assert!(tokio::time::timeout(patience, watch.next()).await.is_err(), "the watch is silent");
    faults.outage(Outage::None);
    create(&client, "c").await.expect("over");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_brings_the_same_faults() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let cluster = cluster();
        let plan = FaultPlan { conflict: 0.3, server_error: 0.2, lost_answer: 0.2, ..FaultPlan::default() };
        let (_, client) = client_with(&cluster, plan);
        let mut outcomes = Vec::new();
        for place in 0..50 {
            let outcome = create(&client, &format!("map-{place}")).await;
            outcomes.push(outcome.map(|made| made.metadata.uid).map_err(|error| code(&error)));
        }
        runs.push(outcomes);
    }
    assert!(runs[0].iter().any(Result::is_ok) && runs[0].iter().any(Result::is_err));
    assert_eq!(runs[0], runs[1]);
}
