//! Traffic between clusters: the user stories of KEP-1645 and KEP-2086, and endpoints that come and go under load.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tombolo_testkit::eventually;

use crate::world::{Playground, up};

/// Echo that is ready when it listens, and goes on for a while after it was told to end, as good servers do.
fn echo(replicas: u32, annotations: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: echo}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: echo}}}}
  template:
    metadata: {{labels: {{app: echo}}}}
    spec:
      containers:
      - name: echo
        image: tombolo/echo
        args: [--drain, '15']
        readinessProbe: {{httpGet: {{port: 8080}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: echo, annotations: {{{annotations}}}}}
spec: {{selector: {{app: echo}}, ports: [{{port: 80, targetPort: 8080}}]}}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {{name: echo}}
"
    )
}

/// A thousand requests a second keep two cores busy: those who send as many take turns.
static LOAD: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    LOAD.lock().unwrap_or_else(PoisonError::into_inner)
}

const URL: &str = "http://echo.demo.svc.clusterset.local/";

fn deploy(playground: &Playground, cluster: &str, manifest: &str) {
    playground.at(cluster).feed("apply -f -", manifest).succeeds();
    playground.at(cluster).run("rollout status deployment/echo --timeout=50s").succeeds();
    let ready = "wait serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=50s";
    playground.at(cluster).run(ready).succeeds();
}

/// Who answers so many calls of the pod `client`, by a word of the answer; `-` for a call that failed.
fn who(playground: &Playground, cluster: &str, url: &str, count: u32, word: &str) -> BTreeSet<String> {
    let script = format!("for i in $(seq {count}); do curl -sf -m 3 {url} || echo null; done");
    let outcome = playground.at(cluster).run(&format!("exec client -- sh -c '{script}'"));
    let answer = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap_or_default();
        told[word].as_str().unwrap_or("-").to_owned()
    };
    outcome.stdout.lines().map(answer).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A pod that asks a thousand times a second; what became of it is in its log.
fn start_load(playground: &Playground, cluster: &str, seconds: u32) {
    let host = "echo.demo.svc.clusterset.local";
    let load = format!("run load --image=tombolo/load -- --host {host} --rate 1000 --seconds {seconds}");
    playground.at(cluster).run(&load).succeeds();
    playground.at(cluster).run("wait pod/load --for=condition=Ready --timeout=50s").succeeds();
}

#[track_caller]
fn end_load(playground: &Playground, cluster: &str) -> Value {
    let mut said = String::new();
    eventually("the load is over", || {
        said = playground.at(cluster).run("logs load").stdout;
        said.contains("outcomes")
    });
    serde_json::from_str(said.trim()).unwrap()
}

#[track_caller]
fn assert_all_answered(told: &Value) {
    let outcomes = told["outcomes"].as_object().unwrap();
    assert!(outcomes.keys().all(|word| word.starts_with("member")), "{told}");
}

#[test]
fn a_service_of_another_team_is_found_by_name_and_moves_without_its_callers_noticing() {
    let _alone = alone();
    let playground = Playground::start(3, 1);
    playground.start_client("member1");
    deploy(&playground, "member2", &echo(2, ""));
    eventually("it is found", || who(&playground, "member1", URL, 1, "cluster") == set(&["member2"]));
    let dig = "exec client -- dig +short echo.demo.svc.clusterset.local";
    let address = playground.at("member1").run(dig).succeeds().to_owned();
    let vip = "get serviceimports.multicluster.x-k8s.io echo -o jsonpath={.spec.ips[0]}";
    playground.at("member1").run(vip).prints(&address);

    start_load(&playground, "member1", 20);
    deploy(&playground, "member3", &echo(2, ""));
    eventually("both have it", || {
        who(&playground, "member1", URL, 10, "cluster") == set(&["member2", "member3"])
    });
    playground.at("member2").run("delete serviceexports.multicluster.x-k8s.io echo").succeeds();
    let slices = "get endpointslices -o name -l multicluster.kubernetes.io/source-cluster=member2";
    eventually("nobody is sent there", || playground.at("member1").run(slices).succeeds().is_empty());
    // The proxy follows a moment after the object.
    eventually("calls follow", || who(&playground, "member1", URL, 10, "cluster") == set(&["member3"]));
    playground.at("member2").run("delete deployment,service echo").succeeds();
    assert_eq!(who(&playground, "member1", URL, 10, "cluster"), set(&["member3"]));
    playground.at("member1").run(dig).prints(&address);
    assert_all_answered(&end_load(&playground, "member1"));
}

#[test]
fn the_nearest_instances_are_preferred_and_others_take_over() {
    let playground = Playground::start(2, 2);
    for cluster in ["member1", "member2"] {
        deploy(&playground, cluster, &echo(2, "tombolo.dev/prefer: 'zone,cluster,any'"));
    }
    playground.start_client("member1");
    eventually("those of the own cluster answer", || {
        who(&playground, "member1", URL, 10, "cluster") == set(&["member1"])
    });
    assert_eq!(who(&playground, "member1", URL, 10, "node").len(), 1, "those of the own zone");
    playground.at("member1").run("scale deployment echo --replicas=0").succeeds();
    eventually("the others answer", || who(&playground, "member1", URL, 10, "cluster") == set(&["member2"]));
    playground.at("member1").run("scale deployment echo --replicas=2").succeeds();
    eventually("and the own ones again", || {
        who(&playground, "member1", URL, 10, "cluster") == set(&["member1"])
    });
}

#[test]
fn traffic_with_a_local_policy_never_leaves_its_node() {
    let playground = Playground::start(1, 2);
    let member = playground.at("member1");
    member.run("create deployment echo --image=tombolo/echo --replicas=2").succeeds();
    member.run("rollout status deployment/echo --timeout=50s").succeeds();
    let nodes =
        member.run("get pods -l app=echo -o jsonpath={.items[*].spec.nodeName}").succeeds().to_owned();
    assert_eq!(nodes.split(' ').collect::<BTreeSet<_>>().len(), 2, "one on each node, as a daemon: {nodes}");
    member.run("expose deployment echo --port=80 --target-port=8080").succeeds();
    member.run(r#"patch service echo -p '{"spec":{"internalTrafficPolicy":"Local"}}'"#).succeeds();
    member.run(r#"run client --image=tombolo/client --overrides='{"spec":{"nodeName":"node2"}}'"#).succeeds();
    member.run("wait pod/client --for=condition=Ready --timeout=50s").succeeds();
    eventually("the pod on the same node answers", || {
        who(&playground, "member1", "http://echo/", 5, "node") == set(&["node2"])
    });
    assert_eq!(who(&playground, "member1", "http://echo/", 30, "node"), set(&["node2"]));

    // Without an endpoint on the node there is no answer, although there is one elsewhere.
    member.run("cordon node2").succeeds();
    let pod =
        "get pods -l app=echo --field-selector=spec.nodeName=node2 -o jsonpath={.items[0].metadata.name}";
    let pod = member.run(pod).succeeds().to_owned();
    member.run(&format!("delete pod {pod}")).succeeds();
    member.run("rollout status deployment/echo --timeout=50s").succeeds();
    eventually("nothing on this node", || {
        who(&playground, "member1", "http://echo/", 1, "node") == set(&["-"])
    });
    member.run(r#"patch service echo -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'"#).succeeds();
    eventually("anybody may answer", || {
        who(&playground, "member1", "http://echo/", 5, "node") == set(&["node1"])
    });
}

#[test]
fn endpoints_come_go_and_flap_under_load_and_no_request_fails() {
    let _alone = alone();
    let playground = Playground::start(3, 1);
    for cluster in ["member1", "member2"] {
        deploy(&playground, cluster, &echo(2, ""));
    }
    playground.start_client("member3");
    eventually("both answer", || {
        who(&playground, "member3", URL, 10, "cluster") == set(&["member1", "member2"])
    });
    start_load(&playground, "member3", 25);
    for round in 0..3 {
        for (cluster, replicas) in [("member1", 4), ("member2", 1), ("member1", 1), ("member2", 3)] {
            playground.at(cluster).run(&format!("scale deployment echo --replicas={replicas}")).succeeds();
            playground.at(cluster).run("rollout status deployment/echo --timeout=50s").succeeds();
        }
        // A pod that leaves the Service and comes back.
        let label = |value: &str| format!("label service echo round={value} --overwrite");
        playground.at("member1").run(&label(&round.to_string())).succeeds();
        let away = r#"patch service echo -p '{"spec":{"selector":{"app":"nobody"}}}'"#;
        playground.at("member2").run(away).succeeds();
        playground.at("member2").run(&away.replace("nobody", "echo")).succeeds();
    }
    let told = end_load(&playground, "member3");
    assert_all_answered(&told);
    assert_eq!(told["sent"], 25_000, "{told}");
}

#[test]
fn no_request_fails_while_the_hub_is_away_for_many_leases() {
    let _alone = alone();
    let mut up = up();
    // Whoever is silent is dead after five seconds.
    up.arg("--fast");
    let playground = Playground::start_with(up, 3, 1);
    for cluster in ["member1", "member2"] {
        deploy(&playground, cluster, &echo(1, ""));
    }
    playground.start_client("member3");
    let both = set(&["member1", "member2"]);
    eventually("both answer", || who(&playground, "member3", URL, 10, "cluster") == both);
    playground.does(&["fault", "kill-apiserver", "hub"]);
    start_load(&playground, "member3", 25);
    let told = end_load(&playground, "member3");
    assert_all_answered(&told);
    assert_eq!(told["sent"], 25_000, "{told}");
    let answered: BTreeSet<String> = told["outcomes"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(answered, both, "{told}");
    assert!(playground.at("hub").run("get namespaces --request-timeout=2s").code() != Some(0), "still away");

    playground.does(&["fault", "heal", "hub"]);
    playground.at("member1").run("delete serviceexports.multicluster.x-k8s.io echo").succeeds();
    eventually("what happens afterwards arrives", || {
        who(&playground, "member3", URL, 10, "cluster") == set(&["member2"])
    });
}
