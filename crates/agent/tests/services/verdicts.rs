//! What exports are told.

use std::time::Duration;

use serde_json::json;
use tombolo_testkit::{FaultPlan, Server, linger, relaxed, until};

use crate::fleet::{Fleet, make_namespace};

#[tokio::test(start_paused = true)]
async fn an_export_is_exported_only_when_every_member_has_it() {
    let mut fleet = Fleet::of(3).await;
    {
        let a = &fleet.members[0];
        a.serve(80, &["10.1.0.1"]).await;
        a.export_kep().await;
        until("exported", || async {
            a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
        })
        .await;
        assert_eq!(a.kep_condition("Initialized").await.unwrap().0, "True");
        assert_eq!(a.kep_condition("Conflict").await.unwrap().0, "False");
    }
    fleet.kill(2);
    let a = &fleet.members[0];
    a.serve(81, &["10.1.0.1"]).await;
    until("c is waited for by name", || async {
        a.kep_condition("Exported")
            .await
            .is_some_and(|(status, message)| status == "False" && message.contains("c"))
    })
    .await;
    until("a dead member is not waited for", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
    fleet.start(2);
    let a = &fleet.members[0];
    until("exported again", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_gets_no_answer_for_one_service_is_named_there_and_keeps_no_other_waiting() {
    let mut fleet = Fleet::of(2).await;
    for member in &fleet.members {
        make_namespace(&member.cluster.client(), "calm").await;
    }
    let b = &fleet.members[1];
    b.own_link.plan(FaultPlan { not_answered: Some("/namespaces/demo/"), ..FaultPlan::default() });
    let a = &mut fleet.members[0];
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("b is named", || async {
        a.mcs_condition("Ready").await.is_some_and(|(_, reason, message)| {
            reason == "Failed" && message.contains("cluster b could not apply it")
        })
    })
    .await;
    a.namespace = "calm";
    a.serve(80, &["10.1.0.2"]).await;
    a.export_mcs().await;
    until("the other is everywhere", || async { a.is_ready().await }).await;
    a.namespace = "demo";
    assert!(!a.is_ready().await);
    fleet.members[1].own_link.heal();
    let a = &fleet.members[0];
    until("this one, too", || async { a.is_ready().await }).await;
}

#[tokio::test(start_paused = true)]
async fn conflicting_ports_withdraw_the_service_in_the_first_edition_and_both_exports_say_why() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_kep().await;
    until("imported", || async { c.kep_import().await.is_some() }).await;
    b.serve(8080, &["10.2.0.1"]).await;
    b.export_kep().await;
    until("withdrawn", || async { c.kep_import().await.is_none() && c.imported(None).await.is_empty() })
        .await;
    for member in [a, b] {
        until("the conflict is said", || async {
            member.kep_condition("Conflict").await.is_some_and(|(status, _)| status == "True")
        })
        .await;
        assert_eq!(member.kep_condition("Exported").await.unwrap().0, "False", "in {}", member.name);
    }
    b.serve(80, &["10.2.0.1"]).await;
    until("back, with both", || async { c.imported(None).await == ["10.1.0.1", "10.2.0.1"] }).await;
    until("no conflict any more", || async {
        a.kep_condition("Conflict").await.is_some_and(|(status, _)| status == "False")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn conflicting_ports_keep_the_service_today_and_the_oldest_wins() {
    let fleet = Fleet::of(3).await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("imported", || async { c.mcs_import().await.is_some() }).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    b.serve(8080, &["10.2.0.1"]).await;
    b.export_mcs().await;
    for member in [a, b] {
        until("the conflict is said", || async {
            member.mcs_condition("Conflict").await.is_some_and(|(status, ..)| status == "True")
        })
        .await;
        assert_eq!(member.mcs_condition("Conflict").await.unwrap().1, "PortConflict", "in {}", member.name);
    }
    let import = c.mcs_import().await.unwrap();
    assert_eq!(import.spec.ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80]);
    assert_eq!(c.imported(None).await, ["10.1.0.1"], "b does not serve port 80");
}

#[tokio::test(start_paused = true)]
async fn a_missing_service_is_said_and_heals_when_it_appears() {
    let fleet = Fleet::of(2).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.export_mcs().await;
    until("no service", || async {
        a.mcs_condition("Valid")
            .await
            .is_some_and(|(status, reason, _)| status == "False" && reason == "NoService")
    })
    .await;
    a.serve(80, &["10.1.0.1"]).await;
    until("valid", || async { a.mcs_condition("Valid").await.is_some_and(|(status, ..)| status == "True") })
        .await;
    until("ready", || async { a.is_ready().await }).await;
    assert_eq!(b.imported(None).await, ["10.1.0.1"]);
    let import = b.mcs_import().await.unwrap();
    let ready = import.status.unwrap().conditions.remove(0);
    assert_eq!((ready.type_.as_str(), ready.status.as_str()), ("Ready", "True"), "{}", ready.message);
}

#[tokio::test(start_paused = true)]
async fn an_export_beyond_the_limit_of_its_cluster_says_so_until_there_is_room() {
    let mut fleet = Fleet::of(2).await;
    for place in 0..2 {
        fleet.restart(place, |config| config.limits.offers = 1);
    }
    let [a, b] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.export_mcs().await;
    until("everywhere", || async { a.is_ready().await }).await;
    // Of two that are made within a second the name decides.
    linger(Duration::from_secs(6)).await;
    a.export_kep().await;
    until("said", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, message)| {
            status == "False" && message.contains("the 1 oldest offers count")
        })
    })
    .await;
    linger(Duration::from_secs(5)).await;
    assert_eq!(a.kep_condition("Exported").await.unwrap().0, "False");
    assert!(b.kep_import().await.is_none() && a.is_ready().await);
    a.unexport_mcs().await;
    until("there is room", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
    until("imported", || async { b.kep_import().await.is_some() }).await;
}

#[tokio::test(start_paused = true)]
async fn an_export_says_what_of_its_service_others_could_not_use() {
    let fleet = Fleet::of(1).await;
    let [a] = &fleet.members[..] else { unreachable!() };
    a.serve(80, &["10.1.0.1"]).await;
    a.annotate_service("tombolo.dev/prefer", "zone,all").await;
    a.export_mcs_with(&json!({"exportedLabels": {"team": "no value"}})).await;
    until("said", || async {
        a.mcs_condition("Valid").await.is_some_and(|(status, _, message)| {
            let both = message.contains("tombolo.dev/prefer") && message.contains("spec.exportedLabels");
            status == "True" && both
        })
    })
    .await;
    a.annotate_service("tombolo.dev/prefer", "zone,any").await;
    a.export_mcs_with(&json!({"exportedLabels": {"team": "sea"}})).await;
    until("all is well", || async {
        a.mcs_condition("Valid").await.is_some_and(|(.., message)| message == "the Service can be exported")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_everywhere_does_not_blink_when_endpoints_change_or_a_member_restarts() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].serve(80, &["10.1.0.1"]).await;
    fleet.members[0].export_kep().await;
    let before = {
        let a = &fleet.members[0];
        until("exported", || async {
            a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
        })
        .await;
        a.kep_export().await
    };
    for address in ["10.1.0.2", "10.1.0.3", "10.1.0.4"] {
        fleet.members[0].endpoints(&[address]).await;
        let b = &fleet.members[1];
        until("imported", || async { b.imported(None).await == [address] }).await;
    }
    fleet.kill(1);
    fleet.start(1);
    fleet.members[0].endpoints(&["10.1.0.5"]).await;
    let [a, b] = &fleet.members[..] else { unreachable!() };
    until("imported after the restart", || async { b.imported(None).await == ["10.1.0.5"] }).await;
    linger(Duration::from_secs(10)).await;
    if Server::chosen().is_embedded() {
        assert_eq!(a.kep_export().await, before, "not even a time has moved");
    } else {
        relaxed("not whether times of conditions stand still");
    }
    // A real member on a busy machine may take longer than is waited for it without a word.
    until("exported still", || async {
        a.kep_condition("Exported").await.is_some_and(|(status, _)| status == "True")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_endpoints_never_rest_is_exported_all_the_same() {
    let fleet = Fleet::of(2).await;
    let a = &fleet.members[0];
    a.serve(80, &["10.1.0.1"]).await;
    let churn = async {
        for place in 0.. {
            a.endpoints(&[&format!("10.1.1.{}", place % 250)]).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let exported = async {
        a.export_mcs().await;
        until("ready", || async { a.is_ready().await }).await;
    };
    tokio::select! {
        () = churn => unreachable!(),
        () = exported => {}
    }
}
