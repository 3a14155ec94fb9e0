//! Export, import, change, withdraw.

use std::time::Duration;

use tombolo_testkit::{linger, until, within};

use crate::fleet::Fleet;

#[tokio::test(start_paused = true)]
async fn an_exported_service_appears_in_every_cluster_with_an_address_and_all_endpoints() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    b.serve(80, &["10.2.0.1", "10.2.0.2"]).await;
    a.export_kep().await;
    b.export_kep().await;
    for member in [a, b, c] {
        until("all endpoints are imported", || async {
            member.imported(None).await == ["10.1.0.1", "10.2.0.1", "10.2.0.2"]
        })
        .await;
        until("the import has the address of the derived Service", || async {
            let derived = member.derived().await;
            let vip = derived.first().and_then(|service| service.spec.clone()?.cluster_ip);
            vip.is_some() && member.kep_import().await.and_then(|import| import.spec.ip) == vip
        })
        .await;
        let import = member.kep_import().await.unwrap();
        let clusters: Vec<&str> = import.spec.clusters.iter().map(|part| part.cluster.as_str()).collect();
        assert_eq!(clusters, ["a", "b"], "in {}", member.name);
        assert_eq!(import.spec.ports[0].port, 80);
    }
}

#[tokio::test(start_paused = true)]
async fn imported_slices_tell_where_they_come_from_and_point_at_nothing_there() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("the endpoint arrives", || async { !b.imported(Some("a")).await.is_empty() }).await;
    let slice = b.slices().await.remove(0);
    let labels = slice.metadata.labels.unwrap();
    assert_eq!(labels["multicluster.kubernetes.io/service-name"], "echo");
    assert_eq!(labels["multicluster.kubernetes.io/source-cluster"], "a");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "agent.tombolo.dev");
    let derived = b.derived().await.remove(0);
    assert_eq!(Some(&labels["kubernetes.io/service-name"]), derived.metadata.name.as_ref());
    let owner = slice.metadata.owner_references.unwrap().remove(0);
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ServiceImport", "echo"));
    assert_eq!(slice.endpoints.unwrap()[0].node_name, None);
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_their_source() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("the first endpoint", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    a.endpoints(&["10.1.0.7", "10.1.0.8"]).await;
    until("the new endpoints", || async { b.imported(None).await == ["10.1.0.7", "10.1.0.8"] }).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_export_takes_the_service_with_it_everywhere() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    for (member, address) in [(a, "10.1.0.1"), (b, "10.2.0.1")] {
        member.serve(80, &[address]).await;
        member.export_kep().await;
    }
    until("imported", || async { c.imported(None).await.len() == 2 }).await;
    a.unexport_kep().await;
    until("a's endpoints are gone", || async { c.imported(None).await == ["10.2.0.1"] }).await;
    assert!(c.kep_import().await.is_some(), "b still exports it");
    b.unexport_kep().await;
    let begin = tokio::time::Instant::now();
    for member in [a, b, c] {
        let second = Duration::from_secs(1).saturating_sub(begin.elapsed());
        within(second, "nothing is left within the same second", || async {
            member.kep_import().await.is_none()
                && member.derived().await.is_empty()
                && member.imported(None).await.is_empty()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_outside_the_declared_ranges_are_not_believed() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1", "10.9.0.1"]).await;
    a.export_kep().await;
    until("the good one arrives", || async { !b.imported(None).await.is_empty() }).await;
    assert_eq!(b.imported(None).await, ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_changes_nothing_and_catches_up() {
    let mut fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("imported", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    let before = fleet.members[1].slices().await;
    fleet.kill(1);
    fleet.start(1);
    linger(Duration::from_secs(10)).await;
    assert_eq!(fleet.members[1].slices().await, before, "a restart rewrites nothing");
    fleet.kill(1);
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    fleet.start(1);
    let b = &fleet.members[1];
    until("what happened meanwhile", || async { b.imported(None).await == ["10.1.0.2"] }).await;
}

#[tokio::test(start_paused = true)]
async fn a_label_exports_a_service_and_its_absence_takes_the_export_back() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.label_service("tombolo.dev/auto-export", Some("kep")).await;
    until("exported by label", || async { b.imported(None).await == ["10.1.0.1"] }).await;
    a.label_service("tombolo.dev/auto-export", None).await;
    until("taken back", || async { b.kep_import().await.is_none() }).await;
    a.export_kep().await;
    until("exported by hand", || async { b.kep_import().await.is_some() }).await;
    linger(Duration::from_secs(60)).await;
    assert!(b.kep_import().await.is_some(), "what somebody wrote is theirs");
}
