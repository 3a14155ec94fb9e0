//! Streams into pods: client-go's SPDY executor and port-forward, kubectl's own, `attach`, and files through stdin.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tombolo_testkit::{eventually, relaxed};

use crate::world::Playground;

/// The small Go program beside this file, built once; nothing where there is no Go, and then the run says so.
fn client() -> Option<PathBuf> {
    let found = Command::new("go").arg("version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        relaxed("not client-go's SPDY executor: there is no Go");
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/playground/spdy");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("spdy");
    let built =
        Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

fn run(program: &PathBuf, playground: &Playground, words: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = playground.dir().join("kubeconfig");
    let mut command = Command::new(program);
    command.arg(kubeconfig).args(["member1", "demo", "talker"]).args(words);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A pod that sits at a terminal until somebody says something.
const SITTER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: sitter}
spec:
  restartPolicy: Never
  containers:
  - name: sitter
    image: host
    command: [sh, -c, 'read line; test -t 0 && echo heard $line at a terminal']
    stdin: true
    stdinOnce: true
    tty: true
";

pub(crate) fn start_talker(playground: &Playground) {
    let member = playground.at("member1");
    member.run("run talker --image=tombolo/echo").succeeds();
    member.run("wait pod/talker --for=condition=Ready --timeout=50s").succeeds();
}

#[test]
fn client_gos_spdy_executor_runs_commands_and_forwards_ports() {
    let playground = Playground::start(1, 1);
    start_talker(&playground);
    try_spdy(&playground);
}

/// Commands and ports of the pod `talker`, as client-go's SPDY executor asks for them.
pub(crate) fn try_spdy(playground: &Playground) {
    let Some(program) = client() else { return };
    let script = "echo out; echo err >&2; exit 3";
    let (code, out, err) = run(&program, playground, &["exec", "--", "sh", "-c", script]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(3), "out\n", "err\n"));
    // As the conformance suite asks: a terminal in the request, none in what the client opens.
    let (code, out, err) = run(&program, playground, &["exec", "-tty-asked", "--", "echo", "hello"]);
    assert_eq!((code, out.trim()), (Some(0), "hello"), "{err}");
    let (code, out, _) = run(&program, playground, &["exec", "-i", "--", "cat"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "its input has ended");
    let (_, out, _) = run(&program, playground, &["exec", "--", "seq", "20000"]);
    assert_eq!(out.lines().count(), 20_000);
    let (code, _, err) = run(&program, playground, &["exec", "--", "no-such-command"]);
    assert!(code != Some(0) && err.contains("cannot run the command"), "{code:?} {err}");

    let (code, out, err) = run(&program, playground, &["get", "8080"]);
    assert_eq!(code, Some(0), "{err}");
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer["pod"] == "talker"), "{out}");
    let (code, _, err) = run(&program, playground, &["get", "9"]);
    assert!(code != Some(0), "nobody listens there: {err}");
}

#[test]
fn kubectl_forwards_ports_attaches_and_copies_through_stdin() {
    let playground = Playground::start(1, 1);
    start_talker(&playground);
    try_kubectl(&playground);
}

/// All that kubectl does with the pod `talker` and with others beside it.
pub(crate) fn try_kubectl(playground: &Playground) {
    let member = playground.at("member1");
    let mut forwarding = member.start("port-forward pod/talker 0:8080 --address 127.0.0.1");
    let line = forwarding.next_line();
    let port: u16 = line.split(':').nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    for path in ["/a", "/b", "/c"] {
        let url = format!("http://127.0.0.1:{port}{path}");
        let asked = Command::new("curl").args(["-sf", "-m", "20", &url]).output().unwrap();
        let said: Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!((&said["pod"], &said["path"]), (&"talker".into(), &path.into()));
    }
    drop(forwarding);

    let chatter = "run chatter --image=host --command -- sh -c 'while :; do echo tick; sleep 0.2; done'";
    member.run(chatter).succeeds();
    member.run("wait pod/chatter --for=condition=Ready --timeout=50s").succeeds();
    let mut attached = member.start("attach chatter");
    eventually("it is heard", || attached.next_line() == "tick");
    drop(attached);

    let said = member.feed("run -i --restart=Never listener --image=host --command -- cat", "one\ntwo\n");
    assert!(said.succeeds().contains("one\ntwo"), "{said}");
    let phase = "wait pod/listener --for=jsonpath={.status.phase}=Succeeded --timeout=50s";
    member.run(phase).succeeds();
    member.feed("apply -f -", SITTER).succeeds();
    member.run("wait pod/sitter --for=condition=Ready --timeout=50s").succeeds();
    let said = member.feed("attach -i sitter", "hello\n");
    assert!(said.succeeds().contains("heard hello at a terminal"), "{said}");

    let text = "line\n".repeat(20_000);
    let count = member.feed("exec -i talker -- wc -c", &text);
    assert_eq!(count.succeeds().trim(), text.len().to_string());
}
