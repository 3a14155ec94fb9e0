//! IPv4, IPv6, both, and clusters that do not have what a service needs.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tombolo_api::service::IpFamily::{self, V4, V6};
use tombolo_testkit::until;

use crate::fleet::{Fleet, Member, readiness};

const DUAL: &[IpFamily] = &[V4, V6];

/// A Service `echo` of these families with an endpoint of each.
async fn serve(member: &Member, families: &[&str], addresses: &[&str]) {
    let policy = if families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let spec: Value = json!({"ipFamilyPolicy": policy, "ipFamilies": families, "ports": ports});
    member.service(&spec).await;
    for address in addresses {
        let endpoints = json!([{"addresses": [address], "conditions": {"ready": true}}]);
        let name = if address.contains(':') { "echo-6" } else { "echo-4" };
        member.slice(name, "http", &endpoints).await;
    }
}

/// The families of the addresses of today's import.
async fn families(member: &Member) -> Vec<String> {
    let Some(import) = member.mcs_import().await else { return Vec::new() };
    assert!(import.spec.ips.is_empty() || import.spec.ips.len() == import.spec.ip_families.len());
    let family = |ip: &String| if ip.contains(':') { "IPv6" } else { "IPv4" }.to_owned();
    let real: Vec<String> = import.spec.ips.iter().map(family).collect();
    assert!(real.is_empty() || real == import.spec.ip_families, "addresses and families match one to one");
    real
}

#[tokio::test(start_paused = true)]
async fn a_dual_stack_service_is_imported_with_an_address_and_slices_of_each_family() {
    let fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6", "IPv4"], &["10.1.0.1", "fd00:1::1"]).await;
    a.export_mcs().await;
    for member in [a, b] {
        until("both endpoints", || async { member.imported(None).await == ["10.1.0.1", "fd00:1::1"] }).await;
        until("both addresses, in the order of the service", || async {
            families(member).await == ["IPv6", "IPv4"]
        })
        .await;
        let mut types: Vec<_> = member.slices().await.into_iter().map(|slice| slice.address_type).collect();
        types.sort();
        assert_eq!(types, ["IPv4", "IPv6"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_comes_back_in_another_family_under_its_name_is_replaced() {
    let mut fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv4", "IPv6"], &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    // Seen together, after the fact: nobody sees that the slice was away.
    fleet.kill(0);
    let a = &fleet.members[0];
    a.api::<EndpointSlice>().delete("echo-4", &DeleteParams::default()).await.unwrap();
    let endpoints = json!([{"addresses": ["fd00:1::1"], "conditions": {"ready": true}}]);
    a.slice("echo-4", "http", &endpoints).await;
    fleet.start(0);
    let b = &fleet.members[1];
    until("the other family", || async { b.imported(None).await == ["fd00:1::1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn an_ipv6_service_is_imported_in_both_editions() {
    let fleet = Fleet::of_families(&[&[V6], DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6"], &["fd00:1::1"]).await;
    a.export_mcs().await;
    a.export_kep().await;
    for member in [a, b] {
        until("imported", || async { member.imported(None).await == ["fd00:1::1", "fd00:1::1"] }).await;
        until("its address", || async { families(member).await == ["IPv6"] }).await;
        let spec = member.kep_import().await.unwrap().spec;
        assert_eq!(spec.ip_family, V6);
        assert!(spec.ip.unwrap().contains(':'));
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_edition_gives_a_dual_stack_service_one_family() {
    let fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6", "IPv4"], &["10.1.0.1", "fd00:1::1"]).await;
    a.export_kep().await;
    until("the endpoint of that family", || async { b.imported(None).await == ["fd00:1::1"] }).await;
    let spec = b.kep_import().await.unwrap().spec;
    assert_eq!((spec.ip_family, spec.ip.unwrap().contains(':')), (V6, true));
}

#[tokio::test(start_paused = true)]
async fn a_family_that_a_cluster_does_not_have_is_said_on_the_import_there() {
    let fleet = Fleet::of_families(&[DUAL, &[V4]]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6"], &["fd00:1::1"]).await;
    a.export_mcs().await;
    until("not here", || async {
        let import = b.mcs_import().await;
        import.is_some_and(|import| readiness(&import) == Some(("False", "IPFamilyNotSupported")))
    })
    .await;
    assert!(b.mcs_import().await.unwrap().spec.ips.is_empty() && b.derived().await.is_empty());
    until("but there", || async {
        a.mcs_import().await.is_some_and(|import| readiness(&import) == Some(("True", "Ready")))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_family_that_a_cluster_does_not_have_is_said_on_the_export_in_the_first_edition() {
    let fleet = Fleet::of_families(&[DUAL, &[V4]]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6"], &["fd00:1::1"]).await;
    a.export_kep().await;
    until("not there", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, message)| {
            status == "False" && message.contains("cluster b could not apply it: IPFamilyNotSupported")
        })
    })
    .await;
    assert!(b.derived().await.is_empty());
    assert_eq!(b.kep_import().await.unwrap().spec.ip_family, V6, "known all the same");
    a.remove_service().await;
    serve(a, &["IPv4"], &["10.1.0.1"]).await;
    until("everywhere", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn exports_without_a_common_family_are_withdrawn_in_the_first_edition_and_told_apart_today() {
    let fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv4"], &["10.1.0.1"]).await;
    a.export_kep().await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await.len() == 2 }).await;
    serve(b, &["IPv6"], &["fd00:2::1"]).await;
    b.export_kep().await;
    b.export_mcs().await;
    for member in [a, b] {
        until("withdrawn", || async { member.kep_import().await.is_none() }).await;
        until("said", || async {
            let said = member.kep_condition("Conflict").await;
            said.is_some_and(|(status, message)| {
                status == "True" && message.contains("IPv4 in a but IPv6 in b")
            })
        })
        .await;
        until("all endpoints today", || async { member.imported(None).await == ["10.1.0.1", "fd00:2::1"] })
            .await;
        until("said today", || async {
            member.mcs_condition("Conflict").await.is_some_and(|(_, reason, _)| reason == "IPFamilyConflict")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_made_anew_in_another_family_gets_an_address_of_that_family() {
    let fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6"], &["fd00:1::1"]).await;
    a.export_mcs().await;
    until("IPv6", || async { families(b).await == ["IPv6"] }).await;
    a.remove_service().await;
    serve(a, &["IPv4"], &["10.1.0.1"]).await;
    until("IPv4", || async { families(b).await == ["IPv4"] }).await;
    until("ready", || async { a.is_ready().await }).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_is_made_anew_when_no_export_is_left_that_has_its_family() {
    let fleet = Fleet::of_families(&[DUAL, DUAL]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    serve(a, &["IPv6"], &["fd00:1::1"]).await;
    a.export_mcs().await;
    until("IPv6", || async { families(b).await == ["IPv6"] }).await;
    serve(b, &["IPv4"], &["10.2.0.1"]).await;
    b.export_mcs().await;
    until("both", || async { families(b).await == ["IPv6", "IPv4"] }).await;
    a.unexport_mcs().await;
    for member in [a, b] {
        until("IPv4", || async { families(member).await == ["IPv4"] }).await;
        assert_eq!(member.derived().await.len(), 1);
    }
}
