//! Clusters that fall silent and return, and a hub that does.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tombolo_api::karmada::cluster::Cluster;
use tombolo_testkit::{FaultPlan, Outage, embedded_only, linger, until, within};

use crate::clusters::{clusters, ready};
use crate::fleet::{Fleet, NAMESPACE, apply, is_imported, template};
use crate::watchman::{Seen, Watchman};

async fn shared() -> Fleet {
    let fleet = Fleet::of(3).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.members[1].endpoints(&["10.2.0.1"]).await;
    fleet.share(json!({})).await;
    let member3 = &fleet.members[2];
    until("reached", || async { member3.reached().await == ["10.1.0.1", "10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn the_slices_of_a_silent_cluster_are_withdrawn_after_its_lease_and_return_at_once() {
    let mut fleet = shared().await;
    fleet.kill(0);
    linger(Duration::from_secs(20)).await;
    assert_eq!(fleet.members[2].reached().await.len(), 2, "not before the lease is over");
    let member3 = &fleet.members[2];
    let gone = || async { member3.reached().await == ["10.2.0.1"] };
    within(Duration::from_secs(15), "member1 is withdrawn", gone).await;
    until("the condition names the cluster", || async {
        let (status, reason, message) = fleet.condition("EndpointSliceCollected").await;
        status == "False"
            && reason == "EndpointSliceCollectedFailed"
            && message.starts_with("Failed to list&watch EndpointSlice in member1")
    })
    .await;
    assert_eq!(fleet.members[0].reached().await.len(), 2, "it keeps what it has");
    fleet.start(0);
    let member3 = &fleet.members[2];
    let back = || async { member3.reached().await.len() == 2 };
    within(Duration::from_secs(5), "member1 is back", back).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_does_not_keep_the_hub_from_judging_clusters() {
    let mut fleet = shared().await;
    fleet.kill(0);
    fleet.link.plan(FaultPlan { hang: 1.0, ..FaultPlan::default() });
    linger(Duration::from_secs(60)).await;
    fleet.link.heal();
    let hub = fleet.hub.client();
    let judged = async |word: &str| clusters(&hub).await.contains(&("member1".to_owned(), word.to_owned()));
    until("nobody knows how member1 is", async || judged("Unknown").await).await;
    fleet.start(0);
    until("member1 is ready", async || judged("True").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_in_a_member_is_told_and_keeps_no_other_waiting() {
    let fleet = shared().await;
    let [member1, _, member3] = &fleet.members[..] else { unreachable!() };
    let not_answered = Some("/services/");
    member3.own_link.plan(FaultPlan { not_answered, ..FaultPlan::default() });
    let mut changed = template();
    changed["metadata"]["labels"] = json!({"team": "a"});
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &changed).await;
    let said = || async { fleet.condition("ServiceApplied").await.2 };
    until("member3 is waited for", || async { said().await.contains("Service default/foo in member3") })
        .await;
    member1.endpoints(&["10.1.0.9"]).await;
    let followed = || async { member3.reached().await == ["10.1.0.9", "10.2.0.1"] };
    within(Duration::from_secs(5), "endpoints do not wait for the Service", followed).await;
    until("it is told", || async {
        let failed = "Failed to apply Service default/foo in member3";
        let said = said().await;
        said.contains(failed) && said.contains("there was no answer in time")
    })
    .await;
    let not_answered = Some("/endpointslices/");
    member3.own_link.plan(FaultPlan { not_answered, ..FaultPlan::default() });
    member1.endpoints(&["10.1.0.8"]).await;
    until("a slice that was there before is told, too", || async {
        let (status, _, message) = fleet.condition("EndpointSliceApplied").await;
        status == "False" && message.contains("member3") && message.contains("there was no answer in time")
    })
    .await;
    member3.own_link.heal();
    until("caught up", || async { member3.reached().await == ["10.1.0.8", "10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

/// Nobody was taken for anything but ready, not even for a moment.
fn all_were_ready(seen: &[Seen<Cluster>]) {
    let doubted = seen.iter().filter(|seen| ready(seen.object()) != "True");
    let doubted: Vec<_> = doubted.map(|seen| (&seen.object().metadata.name, ready(seen.object()))).collect();
    assert!(doubted.is_empty(), "{doubted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_whose_watches_have_stalled_declares_nobody_dead_and_hears_again_soon() {
    let mut fleet = shared().await;
    linger(Duration::from_secs(20)).await;
    let watchman = Watchman::<Cluster>::post(Api::all(fleet.hub.client())).await;
    fleet.link.silence_watches();
    fleet.members[0].endpoints(&["10.1.0.9"]).await;
    let member3 = &fleet.members[2];
    let followed = || async { member3.reached().await == ["10.1.0.9", "10.2.0.1"] };
    within(Duration::from_secs(60), "what happened meanwhile is heard", followed).await;
    linger(Duration::from_secs(300)).await;
    all_were_ready(&watchman.dismiss());
    fleet.link.silence_watches();
    fleet.kill(0);
    let member3 = &fleet.members[2];
    let gone = || async { member3.reached().await == ["10.2.0.1"] };
    within(Duration::from_secs(120), "who is dead is found out all the same", gone).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_hold_time_makes_nobody_dead() {
    let mut fleet = shared().await;
    fleet.kill_hub();
    fleet.hold = Duration::from_secs(60);
    fleet.start_hub();
    linger(Duration::from_secs(20)).await;
    let watchman = Watchman::<Cluster>::post(Api::all(fleet.hub.client())).await;
    let links = || fleet.members.iter().map(|member| &member.link).chain([&fleet.link]);
    for outage in [Outage::Refused, Outage::Silent] {
        links().for_each(|link| link.outage(outage));
        linger(Duration::from_secs(600)).await;
        links().for_each(|link| link.heal());
        linger(Duration::from_secs(60)).await;
    }
    all_were_ready(&watchman.dismiss());
    fleet.kill(0);
    let hub = fleet.hub.client();
    let judged = async || clusters(&hub).await.contains(&("member1".to_owned(), "Unknown".to_owned()));
    within(Duration::from_secs(45), "who falls silent then is found out", judged).await;
}

#[tokio::test(start_paused = true)]
async fn members_that_lose_their_way_to_the_hub_together_do_not_lose_each_other() {
    let mut fleet = shared().await;
    let watchman = Watchman::<EndpointSlice>::post(fleet.members[2].api()).await;
    fleet.members.iter().for_each(|member| member.link.outage(Outage::Refused));
    let hub = fleet.hub.client();
    let judged = async |word: &str| clusters(&hub).await.iter().all(|(_, ready)| ready == word);
    until("nobody knows how they are", async || judged("Unknown").await).await;
    linger(Duration::from_secs(20)).await;
    // One after the other is back.
    for member in fleet.members.iter().rev() {
        member.link.heal();
        linger(Duration::from_secs(3)).await;
    }
    until("all are ready", async || judged("True").await).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    linger(Duration::from_secs(60)).await;
    let seen = watchman.dismiss();
    let gone = seen.iter().filter(|seen| matches!(seen, Seen::Gone(slice) if is_imported(slice)));
    assert_eq!(gone.count(), 0, "{seen:?}");
    fleet.members.iter().for_each(|member| member.link.outage(Outage::Refused));
    until("nobody knows how they are", async || judged("Unknown").await).await;
    fleet.kill(0);
    fleet.members.iter().for_each(|member| member.link.heal());
    let member3 = &fleet.members[2];
    let gone = || async { member3.reached().await == ["10.2.0.1"] };
    within(Duration::from_secs(60), "who does not return is withdrawn", gone).await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_was_away_catches_up_within_seconds() {
    let fleet = shared().await;
    let [member1, _, member3] = &fleet.members[..] else { unreachable!() };
    member3.link.outage(Outage::Refused);
    linger(Duration::from_secs(3600)).await;
    member1.endpoints(&["10.1.0.9"]).await;
    linger(Duration::from_secs(600)).await;
    assert!(member3.reached().await.contains(&"10.1.0.1".to_owned()), "it keeps what it has");
    until("nobody knows what member3 has", || async {
        fleet.condition("EndpointSliceApplied").await.0 == "False"
    })
    .await;
    member3.link.heal();
    let caught_up = || async { member3.reached().await == ["10.1.0.9", "10.2.0.1"] };
    within(Duration::from_secs(10), "caught up", caught_up).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_goes_while_nobody_looks_is_missed_by_nobody() {
    let mut fleet = shared().await;
    fleet.members[0].named_endpoints("foo-other", &["10.1.0.5"]).await;
    let member3 = &fleet.members[2];
    until("the second slice", || async { member3.reached().await.len() == 3 }).await;
    fleet.kill(0);
    let slices = fleet.members[0].api::<EndpointSlice>();
    slices.delete("foo-other", &DeleteParams::default()).await.unwrap();
    fleet.start(0);
    let member3 = &fleet.members[2];
    until("it is gone", || async { member3.reached().await == ["10.1.0.1", "10.2.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_hub_changes_nothing_and_catches_up() {
    let mut fleet = shared().await;
    linger(Duration::from_secs(10)).await;
    let before = (fleet.works().await, fleet.object().await);
    fleet.kill_hub();
    fleet.start_hub();
    linger(Duration::from_secs(60)).await;
    assert_eq!((fleet.works().await, fleet.object().await), before, "a restart rewrites nothing");
    fleet.kill_hub();
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    fleet.apply_object(json!({"serviceConsumptionClusters": ["member3"]})).await;
    linger(Duration::from_secs(60)).await;
    fleet.start_hub();
    let [_, member2, member3] = &fleet.members[..] else { unreachable!() };
    until("what happened meanwhile", || async {
        member3.reached().await == ["10.1.0.2", "10.2.0.1"] && member2.reached().await == ["10.2.0.1"]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_without_a_hub_is_cleaned_up_by_the_next_one() {
    let mut fleet = shared().await;
    fleet.kill_hub();
    fleet.delete_object().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    fleet.start_hub();
    let member3 = &fleet.members[2];
    until("all is gone", || async {
        fleet.object().await.is_none() && fleet.works().await.is_empty() && member3.slices().await.is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn when_nothing_changes_nothing_is_written_and_heartbeats_are_no_reason_to_look() {
    let fleet = shared().await;
    linger(Duration::from_secs(60)).await;
    let before = (fleet.works().await, fleet.object().await, fleet.metrics.service_reconciles());
    linger(Duration::from_secs(600)).await;
    let after = (fleet.works().await, fleet.object().await, fleet.metrics.service_reconciles());
    assert_eq!(before, after);
}

#[tokio::test(start_paused = true)]
async fn a_hub_restored_from_an_old_backup_brings_nothing_old_back() {
    embedded_only!("the servers of a test cannot be restored from a backup");
    let mut fleet = shared().await;
    let backup = fleet.backup();
    linger(Duration::from_secs(20)).await;
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    let member3 = &fleet.members[2];
    until("changed", || async { member3.reached().await == ["10.1.0.2", "10.2.0.1"] }).await;
    linger(Duration::from_secs(10)).await;
    fleet.restore(&backup);
    let [member1, _, member3] = &fleet.members[..] else { unreachable!() };
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!member3.reached().await.contains(&"10.1.0.1".to_owned()), "that was long ago");
    }
    assert_eq!(member3.reached().await, ["10.1.0.2", "10.2.0.1"]);
    until("the conditions are true", || async { fleet.all_true().await }).await;
    member1.endpoints(&["10.1.0.3"]).await;
    let followed = || async { member3.reached().await == ["10.1.0.3", "10.2.0.1"] };
    within(Duration::from_secs(5), "everybody goes on from there", followed).await;
}
