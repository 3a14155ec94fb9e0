//! The examples and user stories of Karmada's two proposals and all strategies, with real kubectl and real packets.

use std::collections::BTreeSet;

use serde_json::Value;
use tombolo_testkit::eventually;

use crate::world::Playground;

const FIRST_EXAMPLE: &str = include_str!("../examples/multi-cluster-service-first.yaml");
const SECOND_EXAMPLE: &str = include_str!("../examples/multi-cluster-service-second.yaml");
const IMPORT_EXAMPLE: &str = include_str!("../examples/native-import.yaml");

/// Enough calls to meet every cluster, most of the time.
const CALLS: usize = 8;

fn deploy(playground: &Playground, cluster: &str, name: &str) {
    let create = format!("create deployment {name} --image=tombolo/echo --replicas=2");
    playground.at(cluster).run(&create).succeeds();
    playground.at(cluster).run(&format!("rollout status deployment/{name} --timeout=50s")).succeeds();
}

/// The clusters that answer some calls of `name` from a cluster; `-` stands for a call that fails.
fn who_answers(playground: &Playground, cluster: &str, name: &str) -> BTreeSet<String> {
    let call = format!("exec client -- curl -sf -m 2 http://{name}.demo.svc.cluster.local/");
    let answer = |_| {
        let outcome = playground.at(cluster).run(&call);
        let said: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
        said.map_or("-".to_owned(), |said| said["cluster"].as_str().unwrap().to_owned())
    };
    (0..CALLS).map(answer).collect()
}

#[track_caller]
fn answered_by(playground: &Playground, cluster: &str, name: &str, expected: &[&str]) {
    let what = format!("{name} in {cluster} is answered by {expected:?}");
    let expected: BTreeSet<String> = expected.iter().map(|name| name.to_string()).collect();
    eventually(&what, || who_answers(playground, cluster, name) == expected);
}

#[track_caller]
fn all_true(playground: &Playground, name: &str) {
    for condition in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
        let wait = format!("wait multiclusterservice/{name} --for=condition={condition} --timeout=50s");
        playground.at("hub").run(&wait).succeeds();
    }
}

#[test]
fn the_examples_of_multi_cluster_services_do_with_traffic_what_they_say() {
    let playground = Playground::start(3, 1);
    for member in ["member1", "member2"] {
        deploy(&playground, member, "foo");
    }
    for member in ["member2", "member3"] {
        playground.start_client(member);
    }
    playground.at("hub").feed("apply -f -", FIRST_EXAMPLE).succeeds();
    all_true(&playground, "foo");
    answered_by(&playground, "member3", "foo", &["member2"]);

    playground.at("hub").feed("apply -f -", SECOND_EXAMPLE).succeeds();
    answered_by(&playground, "member2", "foo", &["member1", "member2"]);
    answered_by(&playground, "member3", "foo", &["-"]);
    all_true(&playground, "foo");
}

#[test]
fn the_stories_of_native_names_and_every_strategy_of_an_import_hold_with_traffic() {
    let playground = Playground::start(2, 1);
    for member in ["member1", "member2"] {
        deploy(&playground, member, "serve");
    }
    playground.start_client("member2");
    playground.at("member1").run("expose deployment serve --port=80 --target-port=8080").succeeds();
    let export = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: serve}
";
    playground.at("member1").feed("apply -f -", export).succeeds();
    playground.at("member2").feed("apply -f -", IMPORT_EXAMPLE).succeeds();
    answered_by(&playground, "member2", "serve", &["member1"]);

    // Story 2: there is a Service of the name.
    playground.at("member2").run("delete serviceimport serve").succeeds();
    answered_by(&playground, "member2", "serve", &["-"]);
    // Its endpoints go first.
    playground.at("member2").run("wait service/serve --for=delete --timeout=2m").succeeds();
    playground.at("member2").run("expose deployment serve --port=80 --target-port=8080").succeeds();
    answered_by(&playground, "member2", "serve", &["member2"]);
    playground.at("member2").feed("apply -f -", IMPORT_EXAMPLE).succeeds();
    answered_by(&playground, "member2", "serve", &["member1", "member2"]);

    for (strategy, expected) in [
        ("LocalOnly", &["member2"][..]),
        ("RemoteOnly", &["member1"]),
        ("LocalAndRemote", &["member1", "member2"]),
    ] {
        let annotate =
            format!("annotate --overwrite serviceimport serve discovery.karmada.io/strategy={strategy}");
        playground.at("member2").run(&annotate).succeeds();
        answered_by(&playground, "member2", "serve", expected);
    }
}

#[test]
fn local_first_turns_to_other_clusters_when_the_own_pods_fail_and_comes_back() {
    let playground = Playground::start(2, 1);
    for member in ["member1", "member2"] {
        deploy(&playground, member, "foo");
    }
    playground.start_client("member2");
    playground.at("hub").feed("apply -f -", SECOND_EXAMPLE).succeeds();
    let annotate = "annotate multiclusterservice foo discovery.karmada.io/strategy=LocalFirst";
    playground.at("hub").run(annotate).succeeds();
    answered_by(&playground, "member2", "foo", &["member2"]);
    playground.at("member2").run("scale deployment foo --replicas=0").succeeds();
    answered_by(&playground, "member2", "foo", &["member1"]);
    playground.at("member2").run("scale deployment foo --replicas=1").succeeds();
    answered_by(&playground, "member2", "foo", &["member2"]);
    all_true(&playground, "foo");
}
