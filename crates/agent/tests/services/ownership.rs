//! What belongs to users is left alone, and said where it is in the way.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_apiserver::controllers::Settings;
use tombolo_model::names;
use tombolo_testkit::{linger, until};

use crate::fleet::{Fleet, forge};

#[tokio::test(start_paused = true)]
async fn an_import_of_a_user_is_left_alone_and_the_export_names_the_cluster_it_is_in() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    let theirs = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "echo"},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 1, "protocol": "TCP"}]},
    });
    b.apply::<mcs::ServiceImport>("echo", &theirs).await;
    let theirs = json!({
        "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ImportedService", "metadata": {"name": "echo"},
        "spec": {"ipFamily": "IPv4", "ports": [{"port": 1, "protocol": "TCP"}], "clusters": []},
    });
    b.apply::<kep::ImportedService>("echo", &theirs).await;
    let before = (b.mcs_import().await, b.kep_import().await);
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    a.export_kep().await;
    until("today a user may write imports", || async { a.is_ready().await }).await;
    until("said in the first edition", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, message)| {
            status == "False" && message.contains("cluster b could not apply it: NameTaken")
        })
    })
    .await;
    assert_eq!(b.kep_import().await, before.1);
    let (before, now) = (before.0.unwrap(), b.mcs_import().await.unwrap());
    assert_eq!((now.spec, now.metadata.labels), (before.spec, before.metadata.labels));
    b.api::<mcs::ServiceImport>().delete("echo", &DeleteParams::default()).await.unwrap();
    b.api::<kep::ImportedService>().delete("echo", &DeleteParams::default()).await.unwrap();
    until("out of the way", || async {
        a.is_ready().await && a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_import_that_somebody_takes_over_loses_what_we_made_for_it() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("imported", || async { b.derived().await.len() == 1 && b.imported(None).await.len() == 1 }).await;
    let taken = json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}});
    let api = b.api::<kep::ImportedService>();
    api.patch("echo", &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    until("nothing of ours is left", || async {
        b.derived().await.is_empty() && b.imported(None).await.is_empty()
    })
    .await;
    assert!(b.kep_import().await.is_some(), "it is theirs");
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_speaks_for_another_cluster_under_the_name_of_its_offer_changes_nothing() {
    let fleet = Fleet::of(3).await;
    let [_, b, c] = &fleet.members[..] else { unreachable!() };
    b.serve(80, &["10.2.0.1"]).await;
    b.export_mcs().await;
    until("imported", || async { c.imported(None).await == ["10.2.0.1"] }).await;
    let service = ServiceRef { namespace: "demo".to_owned(), name: "echo".to_owned() };
    forge(&fleet, "b", &service, 81).await;
    linger(Duration::from_secs(5)).await;
    let import = c.mcs_import().await.unwrap();
    assert_eq!(import.spec.ports[0].port, 80, "the forged offer is older, but not b's");
    assert_eq!(c.imported(None).await, ["10.2.0.1"]);
    let (status, ..) = b.mcs_condition("Conflict").await.unwrap();
    assert_eq!(status, "False", "nobody who counts disagrees");
}

#[tokio::test(start_paused = true)]
async fn a_service_of_a_user_under_the_derived_name_is_left_alone_and_no_address_counts_as_reserved() {
    let fleet = Fleet::of(1).await;
    let [a] = &fleet.members[..] else { unreachable!() };
    let service = ServiceRef { namespace: "demo".into(), name: "echo".into() };
    let name = names::derived_service(Dialect::Kep, &service);
    let theirs = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 1}]},
    });
    a.apply::<Service>(&name, &theirs).await;
    let before = a.api::<Service>().get(&name).await.unwrap();
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("said", || async {
        a.kep_condition("Initialized").await.is_some_and(|(status, message)| {
            status == "False" && message.contains("of someone else is in the way")
        })
    })
    .await;
    assert_eq!(a.api::<Service>().get(&name).await.unwrap(), before);
    a.api::<Service>().delete(&name, &DeleteParams::default()).await.unwrap();
    until("reserved", || async {
        a.kep_condition("Initialized").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_derived_service_that_a_user_takes_over_has_no_endpoints_of_ours_behind_it() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    let service = ServiceRef { namespace: "demo".into(), name: "echo".into() };
    let (name, services) = (names::derived_service(Dialect::Kep, &service), b.api::<Service>());
    let taken = json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}});
    services.patch(&name, &PatchParams::default(), &Patch::Merge(&taken)).await.unwrap();
    until("nothing of ours stands behind it", || async { b.imported(None).await.is_empty() }).await;
    assert!(services.get_opt(&name).await.unwrap().is_some(), "it is theirs");
    services.delete(&name, &DeleteParams::default()).await.unwrap();
    until("imported again", || async { b.imported(None).await == ["10.1.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn exporting_a_service_changes_nothing_about_it_in_its_own_cluster() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    for (member, address) in [(a, "10.1.0.1"), (b, "10.2.0.1")] {
        member.serve(80, &[address]).await;
    }
    let own = async || {
        let service = a.api::<Service>().get("echo").await.unwrap();
        (service, a.api::<EndpointSlice>().get("echo-1").await.unwrap())
    };
    let before = own().await;
    for member in [a, b] {
        member.export_kep().await;
        member.export_mcs().await;
    }
    until("imported", || async { a.imported(None).await.len() == 4 }).await;
    assert_eq!(own().await, before, "the local name keeps its address and its local endpoints");
    a.unexport_kep().await;
    a.unexport_mcs().await;
    until("taken back", || async { a.imported(None).await == ["10.2.0.1", "10.2.0.1"] }).await;
    assert_eq!(own().await, before);
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_slice_controller_leaves_imported_slices_alone() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    let stock = b.cluster.start_controllers(Settings::default());
    b.service(&json!({"selector": {"app": "echo"}, "ports": [{"name": "http", "port": 80}]})).await;
    until("it works", || async {
        let slices = b.api::<EndpointSlice>().list(&Default::default()).await.unwrap();
        slices
            .items
            .iter()
            .any(|slice| slice.labels().get("kubernetes.io/service-name").is_some_and(|of| of == "echo"))
    })
    .await;
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    let before = b.slices().await;
    linger(Duration::from_secs(600)).await;
    assert_eq!(b.slices().await, before);
    stock.abort();
}
