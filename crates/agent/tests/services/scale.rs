//! Services of many endpoints in many slices.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tombolo_testkit::{FaultPlan, embedded_only, until, within};

use crate::fleet::{Fleet, Member};

fn endpoints(slice: usize, size: usize) -> Value {
    let address = |place: usize| format!("10.1.{}.{}", place / 250, place % 250 + 1);
    (slice * size..(slice + 1) * size).map(|place| json!({"addresses": [address(place)]})).collect()
}

async fn versions(member: &Member) -> BTreeMap<String, Option<String>> {
    let slices = member.slices().await.into_iter();
    slices.map(|slice| (slice.name_any(), slice.resource_version())).collect()
}

async fn a_thousand_endpoints_are_imported_whole(slices: usize, size: usize) {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &[]).await;
    for place in 0..slices {
        a.slice(&format!("echo-{place}"), "http", &endpoints(place, size)).await;
    }
    a.export_mcs().await;
    until("all of them", || async { b.imported(Some("a")).await.len() == slices * size }).await;
    until("ready", || async { a.is_ready().await }).await;
    let before = versions(b).await;
    assert!(before.len() >= slices);
    a.slice("echo-3", "http", &json!([{"addresses": ["10.1.200.1"]}])).await;
    let expected = (slices - 1) * size + 1;
    until("the change", || async { b.imported(Some("a")).await.len() == expected }).await;
    let after = versions(b).await;
    let changed = after.iter().filter(|(name, version)| before.get(*name) != Some(*version)).count();
    assert_eq!((changed, after.len()), (1, before.len()), "one slice changed, one was written");
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_thousand_endpoints_is_imported_whole_from_ten_slices() {
    a_thousand_endpoints_are_imported_whole(10, 100).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_thousand_endpoints_is_imported_whole_from_250_slices() {
    a_thousand_endpoints_are_imported_whole(250, 4).await;
}

/// Each request takes a tenth of a second.
fn slow() -> FaultPlan {
    FaultPlan { latency: Duration::from_millis(100)..Duration::from_millis(101), ..FaultPlan::default() }
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_large_service_do_not_wait_for_one_another_on_slow_servers() {
    embedded_only!("only there nothing else takes time");
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &[]).await;
    for place in 0..100 {
        a.slice(&format!("echo-{place}"), "http", &endpoints(place, 4)).await;
    }
    a.hub_link.plan(slow());
    b.own_link.plan(slow());
    a.export_mcs().await;
    within(Duration::from_secs(8), "all of them", || async { b.imported(Some("a")).await.len() == 400 })
        .await;
    a.endpoints(&["10.1.100.1"]).await;
    for place in (0..100).filter(|place| *place != 1) {
        a.api::<EndpointSlice>().delete(&format!("echo-{place}"), &Default::default()).await.unwrap();
    }
    until("the old ones go", || async { b.imported(Some("a")).await == ["10.1.100.1"] }).await;
}
