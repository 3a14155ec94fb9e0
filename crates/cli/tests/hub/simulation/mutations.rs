//! Whether the invariants can fail: each is broken on purpose, and exactly it must be reported.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tombolo_testkit::FaultPlan;

use super::guard::{Broken, Invariant, Log};
use super::schedule::Run;
use super::sight::source;
use super::with_time;

const LONG: Duration = Duration::from_secs(120);

/// `foo` of member1 is shared with all, and all of it has settled.
async fn settled() -> Run {
    let mut run = Run::begin(1, Log::default()).await;
    run.put_endpoints(0, 0, &[("10.1.0.1".to_owned(), true)]).await;
    run.put_template(0, 80).await;
    run.put_object(0, json!({}), &[], &[]).await;
    run.converge().await.expect("nothing is wrong yet");
    run.wait(LONG).await.expect("nothing is wrong yet");
    run
}

fn check(expected: Invariant, outcome: Result<(), Broken>) {
    let found = outcome.expect_err("nobody noticed").invariant;
    assert_eq!(found, expected);
}

fn imported(run: &Run, place: usize) -> EndpointSlice {
    let slices = run.sights[place].slices.all();
    (**slices.iter().find(|slice| source(slice).is_some()).unwrap()).clone()
}

async fn patch(run: &Run, place: usize, name: &str, value: serde_json::Value) {
    let slices = run.fleet.members[place].api::<EndpointSlice>();
    slices.patch(name, &PatchParams::default(), &Patch::Merge(&value)).await.unwrap();
}

#[test]
fn an_object_of_a_user_that_is_changed_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        let services = run.fleet.members[1].api::<Service>();
        run.guard.protect(1, services.get("foo").await.unwrap());
        run.wait(LONG).await.expect("nothing changed it yet");
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        services.patch("foo", &PatchParams::default(), &patch).await.unwrap();
        check(Invariant::Ownership, run.wait(LONG).await);
    });
}

#[test]
fn an_older_generation_over_a_newer_one_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        let slice = imported(&run, 1).name_any();
        let key = "endpointslice.karmada.io/endpointslice-generation";
        patch(&run, 1, &slice, json!({"metadata": {"annotations": {key: "0"}}})).await;
        check(Invariant::Generation, run.wait(LONG).await);
    });
}

#[test]
fn an_endpoint_from_nowhere_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        let slice = imported(&run, 1).name_any();
        patch(&run, 1, &slice, json!({"endpoints": [{"addresses": ["10.9.9.9"]}]})).await;
        check(Invariant::Provenance, run.wait(LONG).await);
    });
}

#[test]
fn slices_of_a_dead_cluster_that_stay_are_noticed() {
    with_time(async {
        let mut run = settled().await;
        run.fleet.kill_hub();
        run.fleet.dead_after = Duration::from_secs(3600);
        run.fleet.start_hub();
        run.kill(0);
        check(Invariant::Expiry, run.wait(LONG).await);
    });
}

#[test]
fn a_cluster_that_does_not_go_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        run.kill(2);
        run.guard.note_leave("member3");
        check(Invariant::Expiry, run.wait(LONG).await);
    });
}

/// An agent that says it has applied what it has not.
#[test]
fn a_condition_that_is_true_too_early_is_noticed() {
    with_time(async {
        let mut run = Run::begin(1, Log::default()).await;
        run.wait(LONG).await.expect("nothing is wrong yet");
        run.put_endpoints(0, 0, &[("10.1.0.1".to_owned(), true)]).await;
        run.fleet.members[1].own_link.plan(FaultPlan { forgotten: 1.0, ..FaultPlan::default() });
        run.put_template(0, 80).await;
        run.put_object(0, json!({}), &[], &[]).await;
        check(Invariant::Truth, run.wait(LONG).await);
    });
}

#[test]
fn a_cluster_that_never_gets_what_it_should_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        run.cut(1);
        run.put_endpoints(0, 0, &[("10.1.0.2".to_owned(), true)]).await;
        check(Invariant::Convergence, run.converge().await);
    });
}

#[test]
fn somebody_who_does_not_rest_is_noticed() {
    with_time(async {
        let mut run = settled().await;
        let services = run.fleet.members[2].api::<Service>();
        let restless = tokio::spawn(async move {
            for count in 0_u32.. {
                tokio::time::sleep(Duration::from_secs(7)).await;
                let patch = Patch::Merge(json!({"metadata": {"labels": {"count": count.to_string()}}}));
                services.patch("foo", &PatchParams::default(), &patch).await.unwrap();
            }
        });
        let outcome = run.conclude().await;
        restless.abort();
        check(Invariant::Quiet, outcome);
    });
}
