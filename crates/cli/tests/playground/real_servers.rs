//! The same playground on kube-apiserver and etcd: nobody who uses it notices, but for what only real servers do.

use std::process::Command;

use serde_json::Value;
use tombolo_testkit::{eventually, real_only};

use crate::lifecycle::EXPORT;
use crate::streams::{start_talker, try_kubectl, try_spdy};
use crate::world::{Playground, descendants, is_there, tombolo, traces, up};

/// Why these are left out of a run that has only the embedded server.
macro_rules! needs_programs {
    () => {
        real_only!("kube-apiserver, etcd and kube-controller-manager are looked for on the PATH")
    };
}

/// Which cluster answers a name, asked in a pod `client`; nothing if none does.
fn who_answers(playground: &Playground, cluster: &str, url: &str) -> Option<String> {
    let outcome = playground.at(cluster).run(&format!("exec client -- curl -sf -m 2 {url}"));
    let said: Value = serde_json::from_str(&outcome.stdout).ok()?;
    said["cluster"].as_str().map(str::to_owned)
}

#[test]
fn a_service_is_called_by_both_names_and_outlives_its_api_server_and_down_leaves_nothing() {
    needs_programs!();
    let before = traces();
    let mut playground = Playground::start_with(up(), 2, 1);
    playground.at("hub").run("version -o json").shows(&["v1.37"]);
    playground.deploy_echo("member1");
    playground.start_client("member2");
    playground.at("member1").feed("apply -f -", EXPORT).succeeds();
    let names = ["clusterset", "supercluster"].map(|zone| format!("http://echo.demo.svc.{zone}.local/"));
    for name in &names {
        eventually(name, || who_answers(&playground, "member2", name).as_deref() == Some("member1"));
    }
    playground.at("member2").run("logs client --tail=1").succeeds();

    let identity = "get deployment echo -o jsonpath={.metadata.uid}";
    let known = playground.at("member1").run(identity).succeeds().to_owned();
    playground.does(&["fault", "kill-apiserver", "member1"]);
    assert!(playground.at("member1").run("get pods --request-timeout=2s").code() != Some(0));
    assert_eq!(who_answers(&playground, "member2", &names[0]).as_deref(), Some("member1"));
    playground.does(&["fault", "heal", "member1"]);
    playground.at("member1").run(identity).prints(&known);
    playground.at("member1").run("scale deployment echo --replicas=3").succeeds();
    playground.at("member1").run("rollout status deployment/echo --timeout=50s").succeeds();

    let processes = descendants(playground.child.id());
    playground.does(&["down"]);
    assert!(playground.child.wait().unwrap().success());
    eventually("all processes are gone", || !processes.iter().any(|id| is_there(*id)));
    assert_eq!(traces(), before);
    assert!(!playground.dir().join("run").exists(), "data goes with the servers");
}

#[test]
fn a_node_that_falls_silent_is_given_up_and_comes_back() {
    needs_programs!();
    let playground = Playground::start_with(up(), 1, 2);
    let status = "get node node2 -o jsonpath={.status.conditions[0].status}";
    playground.at("member1").run(status).prints("True");
    playground.does(&["fault", "kill-node", "member1/node2"]);
    eventually("the node is given up", || playground.at("member1").run(status).succeeds() == "Unknown");
    playground.does(&["fault", "heal", "member1/node2"]);
    eventually("the node is back", || playground.at("member1").run(status).succeeds() == "True");
}

#[test]
fn one_that_is_killed_leaves_no_process_and_the_next_one_begins_anew_even_without_networks() {
    needs_programs!();
    let mut playground = Playground::start_with(up(), 1, 1);
    playground.at("member1").run("create configmap kept").succeeds();
    let processes = descendants(playground.child.id());
    assert!(processes.len() >= 6, "etcd and two servers, twice: {processes:?}");
    playground.child.kill().unwrap();
    playground.child.wait().unwrap();
    eventually("all processes are gone", || !processes.iter().any(|id| is_there(*id)));

    let dir = playground.dir().display().to_string();
    let again = ["up", "--apiserver", "kube", "--pretend", "--detach", "--clusters=1", "--nodes=1"];
    let again = tombolo(&again).args(["--dir", &dir]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    playground.at("member1").run("get configmap kept").fails(1, &["NotFound"]);
    playground.deploy_echo("member1");
    playground.does(&["down"]);
    assert!(!playground.dir().join("run").exists());
}

#[test]
fn streams_into_pods_go_through_the_nodes_own_endpoint() {
    needs_programs!();
    let playground = Playground::start_with(up(), 1, 1);
    start_talker(&playground);
    try_kubectl(&playground);
    try_spdy(&playground);
    let member = playground.at("member1");
    member.run("logs talker -c nobody").fails(1, &["container nobody is not valid for pod talker"]);
    member.run("exec talker -- sh -c 'exit 3'").fails(3, &["exit code 3"]);
    member.run("get --raw /api/v1/nodes/node1/proxy/healthz").prints("ok");
    // Nobody else may ask a node: it knows its API server by a certificate.
    let ask = ["outside", "--", "curl", "-sk", "-m", "5", "https://172.20.1.11:10250/healthz"];
    assert!(!playground.command(&ask).status.success());
}

#[test]
fn the_tour_holds_on_real_servers() {
    needs_programs!();
    let dir = tombolo_testkit::Kubectl::new();
    let demo = ["demo", "--fast", "--apiserver", "kube", "--dir"];
    let demo = tombolo(&demo).arg(dir.home().join("tour")).output().unwrap();
    let said = String::from_utf8(demo.stdout).unwrap();
    assert!(demo.status.success(), "{said}\n{}", String::from_utf8_lossy(&demo.stderr));
    assert!(said.contains("All of it held"), "{said}");
}

#[test]
fn an_ordinary_user_gets_real_servers_too() {
    needs_programs!();
    let mut up = Command::new("unshare");
    up.args(["--user", "--map-user=1000", "--map-group=1000", env!("CARGO_BIN_EXE_tombolo"), "up"]);
    up.args(["--apiserver", "kube"]).env_remove("RUST_LOG");
    let playground = Playground::start_with(up, 1, 1);
    playground.deploy_echo("member1");
    playground.at("member1").run("expose deployment echo --port=80 --target-port=8080").succeeds();
    playground.pod_succeeds("member1", "ask", "curl -sf -m 2 http://echo/");
    playground.does(&["down"]);
}

#[test]
fn programs_that_are_missing_are_named_with_what_to_do() {
    let nowhere = tombolo_testkit::Kubectl::new();
    for words in [&["up", "--apiserver", "kube", "--detach"][..], &["demo", "--apiserver", "kube"]] {
        let mut command = tombolo(words);
        command.arg("--kube-programs").arg(nowhere.home()).arg("--dir").arg(nowhere.home().join("play"));
        let output = command.env("PATH", "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!(
            "error: no real API servers can be started: there is no etcd in {} or on the PATH\nhint: `cargo xtask kube` builds \
             them and prints the folder for --kube-programs\n",
            nowhere.home().display()
        );
        assert_eq!((output.status.code(), said), (Some(1), expected), "{words:?}");
        assert!(!nowhere.home().join("play").exists(), "nothing was begun");
    }
}
