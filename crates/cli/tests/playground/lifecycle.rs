//! What comes and goes: whole playgrounds, nodes, API servers, pods; and nothing left afterwards.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::Value;
use tombolo_testkit::{Kubectl, eventually};

use crate::world::{Playground, descendants, is_there, tombolo, traces};

/// A Service of `echo`, exported in both editions.
pub(crate) const EXPORT: &str = "
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: demo}
spec: {selector: {app: echo}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: echo, namespace: demo}
---
apiVersion: multicluster.k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: echo, namespace: demo}
";

#[test]
fn a_service_of_one_cluster_is_called_by_name_from_another_and_down_leaves_nothing() {
    let before = traces();
    let mut playground = Playground::start(2, 1);
    let nodes = "get nodes -o jsonpath={.items[*].status.conditions[0].type}";
    playground.at("member1").run(nodes).prints("Ready");
    playground.deploy_echo("member1");
    let addresses = "get pods -l app=echo -o jsonpath={.items[*].status.podIP}";
    let addresses = playground.at("member1").run(addresses).succeeds().to_owned();
    let address = addresses.split_whitespace().next().unwrap();
    assert!(address.starts_with("10.1.1."), "{addresses}");

    playground.pod_succeeds("member2", "direct", &format!("curl -sf -m 2 http://{address}:8080/x"));
    let said =
        playground.does(&["outside", "--", "curl", "-sf", "-m", "5", &format!("http://{address}:8080/path")]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["cluster"], &said["node"], &said["client"]),
        (&"member1".into(), &"node1".into(), &"172.31.0.2".into())
    );
    assert_eq!((&said["path"], &said["address"]), (&"/path".into(), &address.into()));

    playground.at("member1").feed("apply -f -", EXPORT).succeeds();
    let ready = "wait serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=50s";
    playground.at("member1").run(ready).succeeds();
    for (name, zone) in [("today", "clusterset"), ("first", "supercluster")] {
        playground.pod_succeeds(
            "member2",
            name,
            &format!("curl -sf -m 2 http://echo.demo.svc.{zone}.local/"),
        );
    }
    playground.pod_succeeds("member1", "native", "curl -sf -m 2 http://echo/");
    // A daemon of this computer would be asked in vain.
    let switch = "sh -c 'test ! -e /etc/nsswitch.conf || grep -qx \"hosts: files dns\" /etc/nsswitch.conf'";
    playground.pod_succeeds("member1", "switch", switch);

    let processes = descendants(playground.child.id());
    assert!(processes.len() >= 2, "a process per container: {processes:?}");
    playground.does(&["down"]);
    assert!(playground.child.wait().unwrap().success());
    eventually("all processes are gone", || !processes.iter().any(|id| is_there(*id)));
    assert_eq!(traces(), before);
    assert!(!playground.dir().join("endpoints.json").exists());
}

#[test]
fn a_playground_that_is_killed_leaves_nothing_and_its_directory_can_be_used_again() {
    let before = traces();
    let mut playground = Playground::start(1, 1);
    playground.deploy_echo("member1");
    let sleeper = "run sleeper --image=host --command -- sh -c 'sleep 3600 & sleep 3600'";
    playground.at("member1").run(sleeper).succeeds();
    playground.at("member1").run("wait pod/sleeper --for=condition=Ready --timeout=50s").succeeds();
    let processes = descendants(playground.child.id());
    assert!(processes.len() >= 4, "echo twice, a shell and what it started: {processes:?}");
    playground.child.kill().unwrap();
    playground.child.wait().unwrap();
    eventually("all processes are gone", || !processes.iter().any(|id| is_there(*id)));
    assert_eq!(traces(), before);
    assert!(!playground.command(&["down"]).status.success(), "there is nothing to stop");

    let dir = playground.dir().display().to_string();
    let again =
        tombolo(&["up", "--detach", "--clusters", "1", "--nodes", "1", "--dir", &dir]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(said.contains("are ready after") && !said.ends_with("ready\n"), "{said}");
    std::fs::write(playground.dir().join("log"), "what it said\n").unwrap();
    for detach in [&[][..], &["--detach"]] {
        let up = [&["up", "--clusters", "1", "--nodes", "1", "--dir", &dir], detach].concat();
        let twice = tombolo(&up).output().unwrap();
        assert_eq!(twice.status.code(), Some(1), "{twice:?}");
        assert!(String::from_utf8_lossy(&twice.stderr).contains("runs"), "{twice:?}");
    }
    let log = std::fs::read_to_string(playground.dir().join("log")).unwrap();
    assert!(log.starts_with("what it said\n"), "{log}");
    playground.does(&["down"]);
}

#[test]
fn files_of_somebody_else_are_left_alone() {
    let home = Kubectl::new();
    let (dir, script) = (home.home().display().to_string(), home.home().join("run/start.sh"));
    std::fs::create_dir(home.home().join("run")).unwrap();
    std::fs::write(&script, "mine").unwrap();
    for detach in [&[][..], &["--detach"]] {
        let up = [&["up", "--pretend", "--clusters", "1", "--nodes", "1", "--dir", &dir], detach].concat();
        let refused = tombolo(&up).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("has run, but not from a playground"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(script).unwrap(), "mine");
}

#[test]
fn a_probe_that_takes_too_long_is_ended() {
    let playground = Playground::start(1, 1);
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: slow}
spec:
  containers:
  - name: slow
    image: host
    command: [sleep, '3600']
    readinessProbe: {exec: {command: [sleep, '4242']}, timeoutSeconds: 1, periodSeconds: 1}
";
    playground.at("member1").feed("apply -f -", pod).succeeds();
    let probes = || -> Vec<u32> {
        let words = |id: u32| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let all = descendants(playground.child.id()).into_iter();
        all.filter(|id| words(*id) == b"sleep\x004242\x00").collect()
    };
    let mut first = None;
    eventually("it is asked whether it is ready", || {
        first = probes().first().copied();
        first.is_some()
    });
    eventually("nobody waits for the answer any more", || !is_there(first.unwrap()));
}

/// The memory that a process really has, in bytes.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_times_up_and_down_leaves_nothing_and_needs_little_memory() {
    let before = traces();
    for round in 0..10 {
        let mut playground = Playground::start(3, 2);
        let id = playground.child.id();
        assert!(memory(id) < 300 << 20, "{} MB", memory(id) >> 20);
        if round == 4 {
            playground.child.kill().unwrap();
            playground.child.wait().unwrap();
        } else {
            playground.does(&["down"]);
            assert!(playground.child.wait().unwrap().success());
        }
        assert_eq!(traces(), before, "round {round}");
    }
}

#[test]
fn a_slow_link_is_slow_until_it_is_healed() {
    let playground = Playground::start(1, 1);
    playground.deploy_echo("member1");
    let address = "get pods -l app=echo -o jsonpath={.items[0].status.podIP}";
    let address = playground.at("member1").run(address).succeeds().to_owned();
    let url = format!("http://{address}:8080/");
    let connect = || -> f64 {
        let words =
            ["outside", "--", "curl", "-sf", "-m", "20", "-o", "/dev/null", "-w", "%{time_connect}", &url];
        playground.does(&words).parse().unwrap()
    };
    playground.does(&["fault", "slow", "member1", "300ms"]);
    assert!(connect() >= 0.3);
    // Larger than a packet: the kernel hands it over in pieces that it has not cut yet.
    let large = playground.dir().join("large");
    std::fs::write(&large, vec![b'x'; 1 << 20]).unwrap();
    let large = format!("@{}", large.display());
    let post = ["outside", "--", "curl", "-sf", "-m", "60", "-H", "Expect:", "--data-binary", &large, &url];
    playground.does(&post);
    playground.does(&["fault", "heal", "member1"]);
    eventually("it is fast again", || connect() < 0.3);
    playground.does(&["fault", "slow", "hub", "1ms"]);
    playground.does(&["down"]);
}

#[test]
fn what_is_broken_on_purpose_breaks_and_heals() {
    let playground = Playground::start(2, 1);
    playground.deploy_echo("member1");
    let address = "get pods -l app=echo -o jsonpath={.items[0].status.podIP}";
    let address = playground.at("member1").run(address).succeeds().to_owned();
    let url = format!("http://{address}:8080/");
    let reaches = || playground.command(&["outside", "--", "curl", "-sf", "-m", "1", &url]).status.success();
    assert!(reaches());
    playground.does(&["fault", "partition", "member1"]);
    assert!(!reaches());
    playground.does(&["fault", "heal", "member1"]);
    eventually("the link is whole", reaches);

    playground.does(&["fault", "kill-apiserver", "member1"]);
    assert!(!playground.command(&["fault", "kill-apiserver", "nobody"]).status.success());
    assert!(playground.at("member1").run("get pods --request-timeout=2s").code() != Some(0));
    playground.does(&["fault", "heal", "member1"]);
    playground.at("member1").run("get deployment echo").succeeds();

    playground.does(&["fault", "kill-node", "member1/node1"]);
    assert!(!reaches());
    let ready = "get node node1 -o jsonpath={.status.conditions[0].status}";
    eventually("the node is given up", || playground.at("member1").run(ready).succeeds() == "Unknown");
    let available = "get deployment echo -o jsonpath={.status.availableReplicas}";
    eventually("its pods are, too", || playground.at("member1").run(available).succeeds().is_empty());
    playground.does(&["fault", "heal", "member1/node1"]);
    eventually("the node's pods are back", reaches);
    playground.at("member1").run("rollout status deployment/echo --timeout=50s").succeeds();
    playground.at("member1").run(ready).prints("True");
    let parts = &playground.endpoints()["members"][0]["parts"];
    let names: BTreeSet<_> =
        parts.as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["agent", "dns"]));
}

#[test]
fn kubectl_looks_into_pods_and_runs_commands_there() {
    let playground = Playground::start(1, 1);
    let member = playground.at("member1");
    let script = "echo one; echo two >&2; exec sleep 3600";
    member.run(&format!("run talker --image=host --command -- sh -c '{script}'")).succeeds();
    member.run("wait pod/talker --for=condition=Ready --timeout=50s").succeeds();
    eventually("both lines are there", || member.run("logs talker").succeeds() == "one\ntwo");
    member.run("logs talker --tail=1").prints("two");
    member.run("logs talker -c nobody").fails(1, &["container nobody is not valid for pod talker"]);
    let mut following = member.start("logs -f talker");
    assert_eq!((following.next_line(), following.next_line()), ("one".to_owned(), "two".to_owned()));

    let outcome = member.run("exec talker -- sh -c 'hostname; echo $0 >&2; exit 3'");
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (Some(3), "talker\n"), "{outcome}");
    assert!(outcome.stderr.contains("sh\n"), "{outcome}");
    assert_eq!(member.feed("exec -i talker -- cat", "from outside").succeeds(), "from outside");
    // What runs in the container is all that it sees.
    member.run("exec talker -- sh -c 'test $(ls -d /proc/[0-9]* | wc -l) -lt 9'").succeeds();
    member.run("exec talker -- no-such-command").fails(1, &["cannot run the command"]);

    member.run("delete pod talker --grace-period=5").succeeds();
    following.finish();
    member.run("get pods").prints("");
}

#[test]
fn an_ordinary_user_gets_networks_too() {
    // As nobody in particular: no capability is left after the program is started.
    let mut up = Command::new("unshare");
    up.args(["--user", "--map-user=1000", "--map-group=1000", env!("CARGO_BIN_EXE_tombolo"), "up"]);
    up.env_remove("RUST_LOG").stdin(Stdio::null());
    let playground = Playground::start_with(up, 1, 1);
    playground.deploy_echo("member1");
    playground.at("member1").run("expose deployment echo --port=80 --target-port=8080").succeeds();
    playground.pod_succeeds("member1", "ask", "curl -sf -m 2 http://echo/");
    playground.does(&["down"]);
}

#[test]
fn without_networks_nodes_and_pods_are_pretended() {
    let playground = Playground::start_with(tombolo(&["up", "--pretend"]), 2, 2);
    playground.at("member2").run("get nodes -o name").prints("node/node1\nnode/node2");
    playground.deploy_echo("member1");
    playground.at("member1").run("logs deployment/echo").fails(1, &["nothing runs there"]);
    let outside = playground.command(&["outside", "--", "true"]);
    assert!(String::from_utf8_lossy(&outside.stderr).contains("no networks"), "{outside:?}");
    playground.does(&["down"]);
}
