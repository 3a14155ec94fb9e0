//! What the agents count, read as Prometheus reads it.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tombolo_runtime::stamp;
use tombolo_testkit::{Outage, linger, until};

use crate::fleet::{Fleet, Member, make_namespace, offer};

fn scrape(member: &Member) -> String {
    let mut registry = Registry::default();
    member.metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

/// Waits until a line of the metrics reads like this; the name goes without its prefix.
async fn shows(member: &Member, line: &str) {
    let line = format!("tombolo_agent_{line}");
    for _ in 0..2400 {
        if scrape(member).lines().any(|other| other == line) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never: {line} in\n{}", scrape(member));
}

#[tokio::test(start_paused = true)]
async fn offers_imports_conflicts_and_writes_are_counted() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    shows(b, "offers{source=\"a\",dialect=\"kep\"} 1.0").await;
    shows(b, "imports{dialect=\"kep\"} 1.0").await;
    shows(b, "imports{dialect=\"mcs\"} 0.0").await;
    shows(b, "watermark_lag{watch=\"offers\"} 0.0").await;
    shows(b, "writes_total{side=\"member\",resource=\"importedservices\",result=\"ok\"} 1").await;
    shows(a, "writes_total{side=\"hub\",resource=\"serviceoffers\",result=\"ok\"} 1").await;
    shows(a, "conflicts{dialect=\"kep\"} 0.0").await;
    b.serve(8080, &["10.2.0.1"]).await;
    b.export_kep().await;
    shows(a, "conflicts{dialect=\"kep\"} 1.0").await;
    shows(a, "imports{dialect=\"kep\"} 0.0").await;
}

#[tokio::test(start_paused = true)]
async fn services_that_wait_for_their_namespace_are_counted_while_they_do() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].namespace = "late";
    let [a, b] = &fleet.members[..] else { unreachable!() };
    make_namespace(&a.cluster.client(), "late").await;
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    shows(b, "imports_without_namespace{dialect=\"mcs\"} 1.0").await;
    make_namespace(&b.cluster.client(), "late").await;
    shows(b, "imports_without_namespace{dialect=\"mcs\"} 0.0").await;
}

#[tokio::test(start_paused = true)]
async fn attempts_that_fail_are_counted_by_who_failed() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("acknowledged", || async { a.is_ready().await }).await;
    linger(Duration::from_secs(10)).await;
    let failed = |member: &Member, controller: &str| {
        let line = format!("tombolo_agent_reconcile_errors_total{{controller=\"{controller}\"}} ");
        let text = scrape(member);
        text.lines().find_map(|found| found.strip_prefix(&line)?.parse::<u64>().ok()).unwrap_or_default()
    };
    let before = [failed(a, "exports"), failed(a, "imports"), failed(b, "exports")];
    a.hub_link.outage(Outage::Refused);
    a.endpoints(&["10.1.0.2"]).await;
    until("it cannot publish", || async { failed(a, "exports") > before[0] + 2 }).await;
    assert_eq!([failed(a, "imports"), failed(b, "exports")], before[1..], "nobody else fails");
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_left_out_are_counted_while_they_are() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1", "10.9.0.1", "192.0.2.1"]).await;
    a.export_mcs().await;
    shows(a, "dropped_endpoints{direction=\"published\",source=\"a\",reason=\"undeclared\"} 2.0").await;
    a.endpoints(&["10.1.0.1"]).await;
    until("none left out", || async { !scrape(a).contains("dropped_endpoints{") }).await;
    assert!(!scrape(b).contains("dropped_endpoints{"), "what was never published is not dropped again");
}

#[tokio::test(start_paused = true)]
async fn of_a_member_that_floods_the_hub_only_the_oldest_offers_count() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].serve(80, &["10.1.0.1"]).await;
    fleet.members[0].export_mcs().await;
    fleet.restart(1, |config| config.limits.offers = 2);
    let b = &fleet.members[1];
    until("imported", || async { b.mcs_import().await.is_some() }).await;
    fleet.kill(0);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for name in ["flood-1", "flood-2", "flood-3"] {
        offer(&fleet, "a", name).await;
    }
    let b = &fleet.members[1];
    shows(b, "refused_objects{kind=\"ServiceOffer\",reason=\"TooMany\"} 2.0").await;
    shows(b, "offers{source=\"a\",dialect=\"mcs\"} 2.0").await;
    assert!(b.mcs_import().await.is_some(), "what was there before the flood stays");
}

#[tokio::test(start_paused = true)]
async fn a_forged_offer_is_counted_by_why_it_is_refused() {
    let fleet = Fleet::of(2).await;
    let [_, b] = &fleet.members[..] else { unreachable!() };
    shows(b, "source_state{source=\"a\",state=\"alive\"} 1.0").await;
    offer(&fleet, "b", "forged").await;
    shows(b, "refused_objects{kind=\"ServiceOffer\",reason=\"ForgedCluster\"} 1.0").await;
}

#[tokio::test(start_paused = true)]
async fn the_state_of_sources_is_told() {
    let mut fleet = Fleet::of(2).await;
    shows(&fleet.members[1], "source_state{source=\"a\",state=\"alive\"} 1.0").await;
    fleet.kill(0);
    until("no state without an agent", || async { !scrape(&fleet.members[0]).contains("source_state{") })
        .await;
    let b = &fleet.members[1];
    let line = "tombolo_agent_source_lease_age_seconds{source=\"a\"} ";
    // It was renewed for the last time half of its life after the last heartbeat at most. A heartbeat that was long on its way may
    // still renew it after it was let go for the first time.
    until("it is expired, and has been told so for long", || async {
        let told = scrape(b);
        let age = told.lines().find_map(|other| other.strip_prefix(line)?.parse::<f64>().ok());
        let states = ["expired\"} 1.0", "alive\"} 0.0"];
        states.iter().all(|state| told.contains(&format!("source_state{{source=\"a\",state=\"{state}")))
            && age.is_some_and(|age| age > 14.0)
    })
    .await;
    b.hub_link.outage(Outage::Refused);
    shows(b, "source_state{source=\"b\",state=\"alive\"} 1.0").await;
    until("writes that did not arrive", || async {
        scrape(b).contains("side=\"hub\",resource=\"leases\",result=\"unreachable\"")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_change_is_measured_from_its_trigger_to_the_import() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    let api: Api<EndpointSlice> = Api::namespaced(a.cluster.client(), "demo");
    let clock = a.clock();
    let trigger = async |hours: i64| {
        let time = stamp(clock.now() + SignedDuration::from_hours(hours));
        let body =
            json!({"metadata": {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": time}}});
        api.patch("echo-1", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    };
    a.serve(80, &["10.1.0.1"]).await;
    trigger(-1).await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    assert!(!scrape(b).contains("propagation_seconds_count"), "a first import is no change");
    trigger(0).await;
    shows(b, "propagation_seconds_count{source=\"a\"} 1").await;
    trigger(10 * 365 * 24).await;
    a.endpoints(&["10.1.0.2"]).await;
    until("imported", || async { b.imported(None).await == ["10.1.0.2"] }).await;
    shows(b, "propagation_seconds_count{source=\"a\"} 1").await;
}
