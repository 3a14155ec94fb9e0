//! What clients of a service may rely on while things around it change.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tombolo_api::kep;
use tombolo_testkit::{FaultPlan, Outage, linger, until};

use crate::fleet::{Fleet, Member};

/// The addresses of the service in both editions, each as import and derived Service have it.
async fn addresses(member: &Member) -> Value {
    let kep = member.kep_import().await.and_then(|import| import.spec.ip);
    let mcs = member.mcs_import().await.map(|import| import.spec.ips);
    let derived = member.derived().await.into_iter();
    let derived: Vec<_> =
        derived.map(|service| (service.name_any(), service.spec.unwrap().cluster_ip)).collect();
    json!([kep, mcs, derived])
}

async fn has_addresses(member: &Member) -> bool {
    let kep = member.kep_import().await.and_then(|import| import.spec.ip);
    kep.is_some() && member.mcs_import().await.is_some_and(|import| !import.spec.ips.is_empty())
}

#[tokio::test(start_paused = true)]
async fn the_address_of_an_import_stays_for_its_life() {
    let mut fleet = Fleet::of(3).await;
    for (member, address) in fleet.members[..2].iter().zip(["10.1.0.1", "10.2.0.1"]) {
        member.serve(80, &[address]).await;
        member.export_kep().await;
        member.export_mcs().await;
    }
    let c = &fleet.members[2];
    until("imported", || async { has_addresses(c).await && c.imported(None).await.len() == 4 }).await;
    let before = addresses(c).await;
    for member in &fleet.members[..2] {
        let two =
            json!([{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9090}]);
        member.service(&json!({"ports": two})).await;
    }
    until("another port", || async {
        c.mcs_import().await.unwrap().spec.ports.len() == 2
            && c.kep_import().await.unwrap().spec.ports.len() == 2
    })
    .await;
    assert_eq!(addresses(c).await, before, "with other ports");
    fleet.kill(2);
    fleet.start(2);
    fleet.members[0].unexport_kep().await;
    fleet.members[0].unexport_mcs().await;
    let c = &fleet.members[2];
    until("without a", || async { c.imported(None).await == ["10.2.0.1", "10.2.0.1"] }).await;
    assert_eq!(addresses(c).await, before, "with another agent and other exporters");
}

#[tokio::test(start_paused = true)]
async fn a_service_moves_from_cluster_to_cluster_behind_one_address() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("in a", || async { c.imported(None).await == ["10.1.0.1"] }).await;
    let before = addresses(c).await;
    b.serve(80, &["10.2.0.1"]).await;
    b.export_kep().await;
    until("in both", || async { c.imported(None).await == ["10.1.0.1", "10.2.0.1"] }).await;
    a.unexport_kep().await;
    until("in b", || async { c.imported(None).await == ["10.2.0.1"] }).await;
    assert_eq!(addresses(c).await, before);
}

#[tokio::test(start_paused = true)]
async fn today_an_import_stays_while_one_export_is_left_and_goes_everywhere_with_the_last() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    for (member, address) in [(a, "10.1.0.1"), (b, "10.2.0.1")] {
        member.serve(80, &[address]).await;
        member.export_mcs().await;
    }
    until("imported", || async { c.imported(None).await.len() == 2 }).await;
    a.unexport_mcs().await;
    until("without a", || async { c.imported(None).await == ["10.2.0.1"] }).await;
    for member in [a, b, c] {
        until("its clusters", || async {
            let status = member.mcs_import().await.unwrap().status.unwrap();
            status.clusters.iter().map(|part| part.cluster.as_str()).collect::<Vec<_>>() == ["b"]
        })
        .await;
    }
    b.unexport_mcs().await;
    for member in [a, b, c] {
        until("nothing is left", || async {
            member.mcs_import().await.is_none()
                && member.derived().await.is_empty()
                && member.slices().await.is_empty()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_restarts_changes_nothing_in_any_cluster_and_what_happened_meanwhile_arrives() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    a.export_mcs().await;
    until("exported", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
            && a.is_ready().await
            && b.imported(None).await.len() == 2
    })
    .await;
    let picture = async || (b.slices().await, b.derived().await, b.kep_import().await, b.mcs_import().await);
    let before = picture().await;
    for member in [a, b] {
        member.hub_link.outage(Outage::Refused);
    }
    linger(Duration::from_secs(120)).await;
    assert_eq!(picture().await, before, "while it is away");
    for member in [a, b] {
        member.hub_link.heal();
    }
    linger(Duration::from_secs(60)).await;
    assert_eq!(picture().await, before, "when it is back");
    for member in [a, b] {
        member.hub_link.outage(Outage::Refused);
    }
    a.endpoints(&["10.1.0.2"]).await;
    linger(Duration::from_secs(60)).await;
    for member in [a, b] {
        member.hub_link.heal();
    }
    until("what happened meanwhile", || async { b.imported(None).await == ["10.1.0.2", "10.1.0.2"] }).await;
}

#[tokio::test(start_paused = true)]
async fn an_initialized_export_has_a_finalizer_and_stays_until_its_offer_is_taken_back() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("initialized", || async {
        a.kep_condition("Initialized").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
    assert_eq!(a.kep_export().await.finalizers(), ["tombolo.dev/export"]);
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    a.hub_link.outage(Outage::Refused);
    a.unexport_kep().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(a.kep_export().await.metadata.deletion_timestamp.is_some(), "others still have it");
    a.hub_link.heal();
    until("gone", || async {
        a.api::<kep::ServiceExport>().get_opt("echo").await.unwrap().is_none()
            && b.kep_import().await.is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_endpoint_goes_while_a_server_is_too_busy_for_those_that_take_its_place() {
    for code in [429, 503] {
        let fleet = Fleet::of(2).await;
        let [a, b] = &fleet.members[..] else { unreachable!() };
        a.serve(80, &["10.1.0.1"]).await;
        a.export_mcs().await;
        until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
        b.own_link.plan(FaultPlan { not_stored: Some(("/endpointslices", code)), ..FaultPlan::default() });
        a.slice("echo-2", "http", &json!([{"addresses": ["10.1.0.2"]}])).await;
        a.api::<EndpointSlice>().delete("echo-1", &DeleteParams::default()).await.unwrap();
        linger(Duration::from_secs(10)).await;
        assert_eq!(b.imported(None).await, ["10.1.0.1"], "{code}");
        b.own_link.heal();
        until("replaced", || async { b.imported(None).await == ["10.1.0.2"] }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_no_more_go_where_the_hub_refuses_the_new_ones_and_the_export_says_why() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] && a.is_ready().await }).await;
    a.hub_link.plan(FaultPlan { not_stored: Some(("/endpointslices", 403)), ..FaultPlan::default() });
    a.slice("echo-2", "http", &json!([{"addresses": ["10.1.0.2"]}])).await;
    a.api::<EndpointSlice>().delete("echo-1", &DeleteParams::default()).await.unwrap();
    until("gone", || async { b.imported(None).await.is_empty() }).await;
    until("said", || async {
        a.mcs_condition("Ready")
            .await
            .is_some_and(|(_, reason, message)| reason == "Failed" && message.contains("exceeded quota"))
    })
    .await;
    a.hub_link.heal();
    until("replaced", || async { b.imported(None).await == ["10.1.0.2"] && a.is_ready().await }).await;
}
