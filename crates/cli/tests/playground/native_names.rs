//! Services of other clusters under their own name: the stories of Karmada's proposal, with traffic.

use std::collections::BTreeSet;

use serde_json::Value;
use tombolo_testkit::eventually;

use crate::world::{Playground, shared_echo};

/// Asks `http://echo/` in a pod `client` and says which cluster answered; nothing if nobody did.
fn who_answers(playground: &Playground, cluster: &str) -> Option<String> {
    let outcome = playground.at(cluster).run("exec client -- curl -sf -m 2 http://echo/");
    let said: Value = serde_json::from_str(&outcome.stdout).ok()?;
    Some(said["cluster"].as_str().unwrap().to_owned())
}

#[track_caller]
fn all_true(playground: &Playground) {
    for condition in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
        let wait = format!("wait multiclusterservice/echo --for=condition={condition} --timeout=50s");
        playground.at("hub").run(&wait).succeeds();
    }
}

#[test]
fn a_multi_cluster_service_is_called_by_its_own_name_where_it_is_consumed_and_nowhere_else() {
    let playground = Playground::start(3, 1);
    playground.deploy_echo("member1");
    for member in ["member2", "member3"] {
        playground.start_client(member);
    }
    playground.at("hub").feed("apply -f -", &shared_echo("CrossCluster", "member2")).succeeds();
    all_true(&playground);
    eventually("member2 reaches member1", || who_answers(&playground, "member2").is_some());
    assert_eq!(who_answers(&playground, "member2").as_deref(), Some("member1"));
    assert_eq!(who_answers(&playground, "member3"), None, "member3 does not consume it");
    playground.at("member2").run("get service echo -o jsonpath={.spec.clusterIP}").shows(&["10.96."]);
    let ready = "get clusters -o jsonpath={.items[*].status.conditions[0].status}";
    playground.at("hub").run(ready).prints("True True True");

    playground.at("hub").run("delete multiclusterservice echo").succeeds();
    eventually("the name is gone", || who_answers(&playground, "member2").is_none());
    playground.at("member2").run("get service echo").fails(1, &["NotFound"]);
}

#[test]
fn a_service_that_a_consumer_has_itself_is_joined_by_the_endpoints_of_others() {
    let playground = Playground::start(2, 1);
    for member in ["member1", "member2"] {
        playground.deploy_echo(member);
    }
    playground.start_client("member2");
    playground.at("member2").run("expose deployment echo --port=80 --target-port=8080").succeeds();
    eventually("its own pods answer", || who_answers(&playground, "member2").is_some());
    assert_eq!(who_answers(&playground, "member2").as_deref(), Some("member2"));

    playground.at("hub").feed("apply -f -", &shared_echo("CrossCluster", "member2")).succeeds();
    all_true(&playground);
    let mut answered = BTreeSet::new();
    eventually("both answer", || {
        answered.extend(who_answers(&playground, "member2"));
        answered.len() == 2
    });

    playground.at("hub").run("delete multiclusterservice echo").succeeds();
    let slices = "get endpointslices -l kubernetes.io/service-name=echo -o name";
    eventually("what came from elsewhere is gone", || {
        playground.at("member2").run(slices).succeeds().lines().count() == 1
    });
    eventually("only its own pods answer", || {
        (0..8).all(|_| who_answers(&playground, "member2").as_deref() == Some("member2"))
    });
}
