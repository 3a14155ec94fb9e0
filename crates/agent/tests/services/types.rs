//! What becomes of each type of Service, and of those that nobody exports.

use serde_json::json;
use tombolo_api::mcs::ServiceImportType;
use tombolo_testkit::{linger, until};

use crate::fleet::Fleet;

#[tokio::test(start_paused = true)]
async fn node_port_and_load_balancer_services_are_imported_behind_a_cluster_ip() {
    for type_ in ["ClusterIP", "NodePort", "LoadBalancer"] {
        let fleet = Fleet::of(2).await;
        let [a, b] = &fleet.members[..] else { unreachable!() };
        a.service(&json!({"type": type_, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]})).await;
        a.endpoints(&["10.1.0.1"]).await;
        a.export_mcs().await;
        a.export_kep().await;
        for member in [a, b] {
            until("imported", || async { member.imported(None).await == ["10.1.0.1", "10.1.0.1"] }).await;
            let (import, former) = member.imports().await;
            assert_eq!(import.spec.type_, ServiceImportType::ClusterSetIp, "{type_}");
            assert!(former.spec.ip.is_some(), "{type_}");
            for derived in member.derived().await {
                let spec = derived.spec.unwrap();
                assert_eq!(spec.type_.as_deref(), Some("ClusterIP"), "{type_}");
                assert_eq!(spec.ports.unwrap()[0].node_port, None, "node ports stay in their cluster");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_external_name_is_refused_on_its_export_and_imported_nowhere() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.service(&json!({"type": "ExternalName", "externalName": "example.com"})).await;
    a.export_mcs().await;
    a.export_kep().await;
    until("refused", || async {
        let said = a.mcs_condition("Valid").await;
        said.is_some_and(|(status, reason, _)| (&*status, &*reason) == ("False", "InvalidServiceType"))
    })
    .await;
    until("refused in the first edition", || async {
        let said = a.kep_condition("Initialized").await;
        said.is_some_and(|(status, message)| status == "False" && message.contains("ExternalName"))
    })
    .await;
    assert_eq!(a.mcs_condition("Ready").await.unwrap().0, "False");
    for member in [a, b] {
        assert!(member.mcs_import().await.is_none() && member.kep_import().await.is_none());
    }
    a.remove_service().await;
    a.serve(80, &["10.1.0.1"]).await;
    until("a real one heals it", || async { b.mcs_import().await.is_some() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_headless_service_is_imported_without_an_address_and_with_its_hostnames() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    let spec =
        json!({"clusterIP": "None", "selector": {"app": "echo"}, "ports": [{"name": "http", "port": 80}]});
    a.service(&spec).await;
    a.slice("echo-1", "http", &json!([{"addresses": ["10.1.0.1"], "hostname": "echo-0"}])).await;
    a.export_mcs().await;
    a.export_kep().await;
    for member in [a, b] {
        until("imported", || async { member.imported(None).await == ["10.1.0.1", "10.1.0.1"] }).await;
        let (import, former) = member.imports().await;
        assert_eq!(import.spec.type_, ServiceImportType::Headless);
        assert!(import.spec.ips.is_empty());
        assert_eq!(
            (import.spec.ip_families.as_slice(), import.spec.ports.len()),
            (&["IPv4".to_owned()][..], 1)
        );
        assert_eq!(former.spec.ip, None);
        assert!(member.derived().await.is_empty(), "no Service stands for it");
        for slice in member.slices().await {
            assert!(!slice.metadata.labels.unwrap().contains_key("kubernetes.io/service-name"));
            // Where the stock controller is at work it adds an empty slice.
            let endpoints = slice.endpoints.unwrap_or_default();
            assert!(endpoints.iter().all(|endpoint| endpoint.hostname.as_deref() == Some("echo-0")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_headless_loses_its_address_and_gets_one_when_it_is_not() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("an address", || async { b.derived().await.len() == 1 }).await;
    a.remove_service().await;
    a.service(&json!({"clusterIP": "None", "ports": [{"name": "http", "port": 80}]})).await;
    until("no address", || async {
        let import = b.mcs_import().await;
        import.is_some_and(|import| import.spec.ips.is_empty()) && b.derived().await.is_empty()
    })
    .await;
    a.remove_service().await;
    a.serve(80, &["10.1.0.1"]).await;
    until("an address again", || async {
        b.mcs_import().await.is_some_and(|import| import.spec.ips.len() == 1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn services_are_not_visible_to_others_unless_they_are_exported() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    linger(std::time::Duration::from_secs(60)).await;
    assert!(b.kep_import().await.is_none() && b.mcs_import().await.is_none());
    assert!(b.imported(None).await.is_empty());
    b.serve(80, &["10.2.0.1"]).await;
    b.export_mcs().await;
    for member in [a, b] {
        until("b's", || async { member.imported(None).await == ["10.2.0.1"] }).await;
    }
    linger(std::time::Duration::from_secs(60)).await;
    assert_eq!(b.imported(None).await, ["10.2.0.1"], "a has one of the name, but does not export it");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_deleted_takes_its_part_away_and_its_export_says_so() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    a.remove_service().await;
    until("gone", || async { b.mcs_import().await.is_none() && b.imported(None).await.is_empty() }).await;
    until("said", || async {
        a.mcs_condition("Valid")
            .await
            .is_some_and(|(status, reason, _)| status == "False" && reason == "NoService")
    })
    .await;
}
