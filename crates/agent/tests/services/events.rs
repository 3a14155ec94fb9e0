//! What events say, and that they say it once.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tombolo_testkit::{linger, until};

use crate::fleet::{Fleet, Member, offer};

/// The events about objects of a kind, as type and reason, oldest first.
pub(crate) async fn events(member: &Member, kind: &str) -> Vec<(String, String)> {
    let api: Api<Event> = Api::all(member.cluster.client());
    let mut all = api.list(&ListParams::default()).await.unwrap().items;
    all.retain(|event| event.involved_object.kind.as_deref() == Some(kind));
    all.sort_by_key(|event| event.event_time.clone());
    all.into_iter().map(|event| (event.type_.unwrap(), event.reason.unwrap())).collect()
}

pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(type_, reason)| ((*type_).to_owned(), (*reason).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn an_export_tells_when_it_is_everywhere_when_others_disagree_and_when_they_agree_again() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    let mut expected = vec![("Normal", "Exported")];
    until("exported", || async { events(a, "ServiceExport").await == pairs(&expected) }).await;
    a.endpoints(&["10.1.0.2"]).await;
    until("imported", || async { b.imported(None).await == ["10.1.0.2"] }).await;
    b.serve(81, &["10.2.0.1"]).await;
    b.export_mcs().await;
    expected.push(("Warning", "PortConflict"));
    until("conflict", || async { events(a, "ServiceExport").await == pairs(&expected) }).await;
    b.serve(80, &["10.2.0.1"]).await;
    expected.push(("Normal", "ConflictResolved"));
    until("resolved", || async { events(a, "ServiceExport").await == pairs(&expected) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_service_is_a_warning_once() {
    let fleet = Fleet::of(1).await;
    let [a] = &fleet.members[..] else { unreachable!() };
    a.export_kep().await;
    let expected = pairs(&[("Warning", "NoService")]);
    until("said", || async { events(a, "ServiceExport").await == expected }).await;
    linger(std::time::Duration::from_secs(60)).await;
    assert_eq!(events(a, "ServiceExport").await, expected);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_left_out_are_said_on_the_export() {
    let fleet = Fleet::of(1).await;
    let [a] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1", "10.9.0.1"]).await;
    a.export_kep().await;
    let left_out = ("Warning".to_owned(), "EndpointsLeftOut".to_owned());
    until("said", || async { events(a, "ServiceExport").await.contains(&left_out) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_offer_is_said_on_the_lease_of_its_source() {
    let fleet = Fleet::of(2).await;
    let [_, b] = &fleet.members[..] else { unreachable!() };
    until("a is known", || async { b.has_lease_of("a").await }).await;
    offer(&fleet, "b", "forged").await;
    until("said", || async { events(b, "Lease").await == pairs(&[("Warning", "ForgedCluster")]) }).await;
}
