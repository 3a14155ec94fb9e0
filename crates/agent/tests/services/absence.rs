//! While somebody is away: the hub, or the agent itself.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tombolo_api::mcs;
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER, OFFER_LABEL};
use tombolo_testkit::{FaultPlan, Outage, embedded_only, linger, until, within};

use crate::fleet::{Fleet, Member};

/// Three members, of which the first two export `echo`.
async fn shared_service() -> Fleet {
    let fleet = Fleet::of(3).await;
    for (member, address) in fleet.members[..2].iter().zip(["10.1.0.1", "10.2.0.1"]) {
        member.serve(80, &[address]).await;
        member.export_mcs().await;
    }
    let c = &fleet.members[2];
    until("imported", || async { c.imported(None).await.len() == 2 }).await;
    until("leases", || async { c.has_lease_of("a").await && c.has_lease_of("b").await }).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_stays_away_longer_than_the_hold_ends_the_belief_in_others() {
    embedded_only!("nobody waits for so long");
    let fleet = shared_service().await;
    let c = &fleet.members[2];
    c.hub_link.outage(Outage::Refused);
    linger(Duration::from_secs(15 * 60)).await;
    assert_eq!(c.imported(None).await, ["10.1.0.1", "10.2.0.1"], "held");
    within(Duration::from_secs(60), "the hold is over", || async { c.imported(None).await.is_empty() }).await;
    c.hub_link.heal();
    until("back with the hub", || async { c.imported(None).await == ["10.1.0.1", "10.2.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_while_the_hub_is_away_holds_what_there_is_and_not_for_ever() {
    embedded_only!("nobody waits for so long");
    for (hold, held, gone) in [(300, 310, 50), (0, 20, 40)] {
        let mut fleet = shared_service().await;
        fleet.members[2].hub_link.outage(Outage::Refused);
        fleet.restart(2, |config| config.hold = Duration::from_secs(hold));
        linger(Duration::from_secs(held)).await;
        let c = &fleet.members[2];
        assert_eq!(c.imported(None).await, ["10.1.0.1", "10.2.0.1"], "held for {hold} s");
        within(Duration::from_secs(gone), "let go", || async { c.imported(None).await.is_empty() }).await;
        c.hub_link.heal();
        until("back with the hub", || async { c.imported(None).await == ["10.1.0.1", "10.2.0.1"] }).await;
    }
}

/// The same, after `a` has died and the agent of the third was started again without the hub.
async fn restarted_without_the_hub() -> Fleet {
    let mut fleet = shared_service().await;
    fleet.kill(0);
    let c = &fleet.members[2];
    until("a is dead", || async { c.imported(None).await == ["10.2.0.1"] }).await;
    c.hub_link.outage(Outage::Refused);
    fleet.restart(2, |_| ());
    linger(Duration::from_secs(5)).await;
    fleet
}

/// For so many seconds.
async fn stays_dead(c: &Member, seconds: usize) {
    for _ in 0..seconds {
        linger(Duration::from_secs(1)).await;
        let found = c.imported(Some("a")).await;
        assert!(found.is_empty(), "its last heartbeat is no sign of life: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_dead_before_a_restart_without_the_hub_stays_dead_with_it() {
    let fleet = restarted_without_the_hub().await;
    let c = &fleet.members[2];
    c.hub_link.heal();
    stays_dead(c, 8).await;
    until("b is there", || async { c.imported(None).await == ["10.2.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_dead_before_a_restart_stays_dead_when_heartbeats_are_listed_before_all_else() {
    let fleet = restarted_without_the_hub().await;
    let c = &fleet.members[2];
    c.hub_link.plan(FaultPlan { not_shown: Some("/serviceoffers"), ..FaultPlan::default() });
    c.hub_link.outage(Outage::None);
    stays_dead(c, 8).await;
    c.hub_link.heal();
    stays_dead(c, 8).await;
    until("b is there", || async { c.imported(None).await == ["10.2.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_export_has_no_more_goes_from_imports_also_if_nobody_was_there_to_see_it() {
    let mut fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs_with(&json!({"exportedLabels": {"team": "sea"}, "exportedAnnotations": {"note": "old"}}))
        .await;
    let team = || async {
        let import = b.mcs_import().await?;
        import.metadata.labels?.get("team").cloned()
    };
    until("the label arrives", || async { team().await.as_deref() == Some("sea") }).await;
    fleet.kill(1);
    let export = fleet.members[0].api::<mcs::ServiceExport>();
    let none = json!({"spec": {"exportedLabels": null, "exportedAnnotations": null}});
    export.patch("echo", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    linger(Duration::from_secs(2)).await;
    fleet.start(1);
    let b = &fleet.members[1];
    until("both are gone", || async {
        let metadata = b.mcs_import().await.unwrap().metadata;
        !metadata.labels.unwrap_or_default().contains_key("team")
            && !metadata.annotations.unwrap_or_default().contains_key("note")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_export_that_cannot_reach_the_hub_says_so_and_one_that_is_there_only_when_it_changes() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    let ready = || async { a.mcs_condition("Ready").await.map(|(status, reason, _)| (status, reason)) };
    let is = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    until("everywhere", || async { ready().await == is("True", "Exported") }).await;
    a.hub_link.outage(Outage::Refused);
    a.export_kep().await;
    until("said of the new one", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "Unknown")
    })
    .await;
    assert_eq!(ready().await, is("True", "Exported"), "nothing is wrong with what the hub has");
    a.serve(81, &["10.1.0.1"]).await;
    until("said of the changed one", || async { ready().await == is("Unknown", "Pending") }).await;
    a.hub_link.heal();
    until("all is well", || async {
        ready().await == is("True", "Exported")
            && a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
    until("the new port", || async {
        b.mcs_import().await.is_some_and(|import| import.spec.ports[0].port == 81)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_at_the_hub_whose_offer_went_before_it_was_seen_goes_too() {
    let fleet = Fleet::of(1).await;
    let a = &fleet.members[0];
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    let slices: Api<EndpointSlice> = Api::namespaced(fleet.hub.client(), "tombolo-a");
    let names = || async {
        let all = slices.list(&ListParams::default()).await.unwrap().items;
        all.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    until("offered", || async { names().await.len() == 1 }).await;
    for (name, manager) in [("stray", MANAGER), ("foreign", "somebody")] {
        let slice = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {OFFER_LABEL: "gone", MANAGED_BY_LABEL: manager}},
            "addressType": "IPv4", "endpoints": [],
        }));
        slices.create(&PostParams::default(), &slice.unwrap()).await.unwrap();
    }
    until("the stray goes", || async { !names().await.contains(&"stray".to_owned()) }).await;
    linger(Duration::from_secs(20)).await;
    let names = names().await;
    assert!(names.len() == 2 && names.contains(&"foreign".to_owned()), "{names:?}");
}

/// What the exports of a member say of whether they are everywhere: today's and the first edition.
async fn said_everywhere(member: &Member) -> [String; 2] {
    let ready = member.mcs_condition("Ready").await.map(|(status, ..)| status);
    let exported = member.kep_condition("Exported").await.map(|(status, _)| status);
    [ready.unwrap_or_default(), exported.unwrap_or_default()]
}

async fn exported_twice() -> Fleet {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    a.export_kep().await;
    until("everywhere", || async { said_everywhere(a).await == ["True", "True"] }).await;
    until("imported", || async { !b.imported(Some("a")).await.is_empty() }).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn exports_do_not_say_that_they_are_everywhere_when_others_have_let_their_cluster_go() {
    for outage in [Outage::Refused, Outage::Silent] {
        let fleet = exported_twice().await;
        let [a, b] = &fleet.members[..] else { unreachable!() };
        a.hub_link.outage(outage);
        linger(Duration::from_secs(15)).await;
        assert_eq!(said_everywhere(a).await, ["True", "True"], "{outage:?}: others have it still");
        until("let go", || async { b.imported(Some("a")).await.is_empty() }).await;
        within(Duration::from_secs(10), "taken back", || async {
            said_everywhere(a).await == ["Unknown", "Unknown"]
        })
        .await;
        linger(Duration::from_secs(60)).await;
        assert_eq!(said_everywhere(a).await, ["Unknown", "Unknown"], "{outage:?}");
        a.hub_link.heal();
        until("true again", || async { said_everywhere(a).await.contains(&"True".to_owned()) }).await;
        assert!(!b.imported(Some("a")).await.is_empty(), "{outage:?}: not before it is imported again");
        until("both", || async { said_everywhere(a).await == ["True", "True"] }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_whose_service_goes_while_the_hub_is_away_says_so() {
    for outage in [Outage::Refused, Outage::Silent] {
        let fleet = exported_twice().await;
        let a = &fleet.members[0];
        a.hub_link.outage(outage);
        a.remove_service().await;
        within(Duration::from_secs(20), "said of both", || async {
            let [valid, ready] = ["Valid", "Ready"].map(|type_| a.mcs_condition(type_));
            let status = |condition: Option<(String, _, _)>| condition.map(|(status, ..)| status);
            (status(valid.await).as_deref(), status(ready.await).as_deref()) == (Some("False"), Some("False"))
        })
        .await;
        a.hub_link.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_while_the_hub_is_away_takes_back_what_exports_said() {
    let mut fleet = exported_twice().await;
    fleet.members[0].hub_link.outage(Outage::Refused);
    fleet.restart(0, |_| ());
    let a = &fleet.members[0];
    within(Duration::from_secs(60), "taken back", || async {
        said_everywhere(a).await == ["Unknown", "Unknown"]
    })
    .await;
    a.hub_link.heal();
    until("true again", || async { said_everywhere(a).await == ["True", "True"] }).await;
}

#[tokio::test(start_paused = true)]
async fn an_export_that_changes_says_so_also_when_the_hub_only_keeps_silent() {
    let fleet = exported_twice().await;
    let a = &fleet.members[0];
    a.hub_link.outage(Outage::Silent);
    a.serve(81, &["10.1.0.1"]).await;
    within(Duration::from_secs(20), "said before others let go", || async {
        said_everywhere(a).await == ["Unknown", "Unknown"]
    })
    .await;
    a.hub_link.heal();
    until("all is well", || async { said_everywhere(a).await == ["True", "True"] }).await;
}
