//! client-go's informers, which open with a watch that begins with what is there, and go on after the server was killed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tombolo_testkit::{Kubectl, not_run};

use crate::server::{Server, free_port};

/// Much longer than anything here takes: clients wait up to half a minute before they try again.
const PATIENCE: Duration = Duration::from_secs(120);

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";
const THING: &str = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: thing}}";

/// The small Go program beside this file, built once for all tests; nothing where there is no Go.
fn program() -> Option<&'static Path> {
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(build);
    PROGRAM.as_deref()
}

fn build() -> Option<PathBuf> {
    let found = Command::new("go").arg("version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept/informers");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("informers");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// A program that tells what it sees; dropped, it is killed.
struct Follower {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Follower {
    fn start(program: &Path, home: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(program)
            .arg(home.join("kubeconfig"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines: listen(lines), heard: Vec::new() }
    }

    /// Waits for all of these lines, in whatever order, and gives what was heard until then.
    fn hears(&mut self, expected: &[&str]) -> Vec<String> {
        let mut missing: BTreeSet<&str> = expected.iter().copied().collect();
        while !missing.is_empty() {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!("{missing:?} is not in\n{}", self.heard.join("\n"));
            });
            missing.remove(line.as_str());
            self.heard.push(line);
        }
        std::mem::take(&mut self.heard)
    }
}

fn listen(lines: BufReader<ChildStdout>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || lines.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn informers_sync_with_one_watch_and_go_on_after_the_server_was_killed() {
    let Some(program) = program() else {
        return not_run(
            "kept::informers::informers_sync_with_one_watch_and_go_on_after_the_server_was_killed",
            "Go is not installed",
        );
    };
    let kubectl = Kubectl::new();
    let (home, port) = (kubectl.home(), free_port());
    let server = Server::start(home, port, "");
    kubectl.feed("create -f -", DEFINITION).succeeds();
    kubectl.run("create cm one").succeeds();
    kubectl.feed("create -f -", THING).succeeds();

    let mut follower = Follower::start(program, home, &["follow", "default"]);
    let heard = follower.hears(&["synced", "configmaps add one", "things add thing"]);
    assert!(heard.iter().any(|line| line == "configmaps asked watch-list"), "{heard:?}");
    assert!(!heard.iter().any(|line| line.ends_with("asked list")), "nothing had to be listed: {heard:?}");
    kubectl.run("create cm two").succeeds();
    kubectl.run("label cm one seen=yes").succeeds();
    kubectl.run("delete cm one").succeeds();
    follower.hears(&["configmaps add two", "configmaps update one", "configmaps delete one"]);

    server.kill();
    let server = Server::start(home, port, "");
    kubectl.run("create cm three").succeeds();
    let heard = follower.hears(&["configmaps add three"]);
    assert!(!heard.iter().any(|line| line == "configmaps add two"), "it went on where it was: {heard:?}");

    // A cluster that lost all it had cannot know what its clients saw: they read everything again.
    server.kill();
    std::fs::remove_file(home.join("data/member1/log")).unwrap();
    let _server = Server::start(home, port, "");
    kubectl.run("create cm four").succeeds();
    let expected = ["configmaps delete two", "configmaps delete three", "configmaps add four"];
    follower.hears(&expected);
}

#[test]
fn a_watch_ends_with_a_bookmark_from_which_it_can_go_on() {
    let Some(program) = program() else {
        return not_run(
            "kept::informers::a_watch_ends_with_a_bookmark_from_which_it_can_go_on",
            "Go is not installed",
        );
    };
    let kubectl = Kubectl::new();
    let _server = Server::start(kubectl.home(), free_port(), "");
    kubectl.run("create cm one").succeeds();
    kubectl.run("create ns later").succeeds();
    let namespace = kubectl.run("get ns later -o jsonpath={.metadata.resourceVersion}");
    let namespace: u64 = namespace.succeeds().parse().unwrap();
    let follower = Follower::start(program, kubectl.home(), &["watch", "default", "4"]);
    let version = loop {
        let line = follower.lines.recv_timeout(PATIENCE).unwrap();
        if let Some(version) = line.strip_prefix("BOOKMARK  ") {
            break version.parse::<u64>().unwrap();
        }
    };
    assert!(version >= namespace, "a bookmark is as new as the cluster, not as the last change of its kind");
}
