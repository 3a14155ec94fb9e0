//! A playground as a process of its own, and what tests do with it.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use tombolo_testkit::{Kubectl, Server};

/// The Service and the MultiClusterService of the first example of Karmada's proposal: `echo`, which member1 provides.
pub(crate) fn shared_echo(type_: &str, consumers: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: echo}}
spec: {{selector: {{app: echo}}, ports: [{{port: 80, targetPort: 8080}}]}}
---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {{name: echo}}
spec:
  types: [{type_}]
  serviceProvisionClusters: [member1]
  serviceConsumptionClusters: [{consumers}]
"
    )
}

/// A playground that runs; dropped, it is killed.
pub(crate) struct Playground {
    pub(crate) kubectl: Kubectl,
    pub(crate) child: Child,
}

pub(crate) fn tombolo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// `tombolo up` on the servers that this run of the tests is about.
pub(crate) fn up() -> Command {
    let server = if Server::chosen().is_embedded() { "embedded" } else { "kube" };
    tombolo(&["up", "--apiserver", server])
}

impl Playground {
    pub(crate) fn start(clusters: u8, nodes: u8) -> Self {
        Self::start_with(up(), clusters, nodes)
    }

    /// One that was started by `up`, which gets its usual arguments here.
    pub(crate) fn start_with(mut up: Command, clusters: u8, nodes: u8) -> Self {
        let kubectl = Kubectl::new();
        up.arg("--dir").arg(kubectl.home());
        up.args(["--clusters", &clusters.to_string(), "--nodes", &nodes.to_string()]);
        let mut child = up.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("are ready after")), "it says that it is ready");
        thread::spawn(move || lines.count());
        Self { kubectl, child }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.kubectl.home().to_owned()
    }

    pub(crate) fn at(&self, context: &str) -> Kubectl {
        self.kubectl.with(&format!("--context={context}")).with("--namespace=demo")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Output {
        let (name, rest) = words.split_first().unwrap();
        let dir = self.dir().display().to_string();
        tombolo(&[&[*name, "--dir", &dir], rest].concat()).output().unwrap()
    }

    /// Runs a `tombolo` subcommand on this playground to its good end.
    #[track_caller]
    pub(crate) fn does(&self, words: &[&str]) -> String {
        let output = self.command(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn endpoints(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir().join("endpoints.json")).unwrap()).unwrap()
    }

    /// Runs a command of this computer in a pod, again and again until it succeeds.
    #[track_caller]
    pub(crate) fn pod_succeeds(&self, cluster: &str, name: &str, command: &str) {
        let run = format!("run {name} --image=host --restart=OnFailure --command -- {command}");
        self.at(cluster).run(&run).succeeds();
        let wait = format!("wait pod/{name} --for=jsonpath={{.status.phase}}=Succeeded --timeout=50s");
        self.at(cluster).run(&wait).succeeds();
    }

    pub(crate) fn deploy_echo(&self, cluster: &str) {
        let create = "create deployment echo --image=tombolo/echo --replicas=2";
        self.at(cluster).run(create).succeeds();
        self.at(cluster).run("rollout status deployment/echo --timeout=50s").succeeds();
    }

    /// A pod `client` to run commands in.
    pub(crate) fn start_client(&self, cluster: &str) {
        self.at(cluster).run("run client --image=tombolo/client").succeeds();
        self.at(cluster).run("wait pod/client --for=condition=Ready --timeout=50s").succeeds();
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All processes that descend from one.
pub(crate) fn descendants(id: u32) -> BTreeSet<u32> {
    let children = |id: u32| -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    let mut found = BTreeSet::new();
    let mut open = vec![id];
    while let Some(next) = open.pop() {
        open.extend(children(next).into_iter().filter(|child| found.insert(*child)));
    }
    found
}

pub(crate) fn is_there(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

/// What a playground might leave on the computer.
pub(crate) fn traces() -> [Vec<u8>; 3] {
    let run = |words: &[&str]| Command::new("/usr/sbin/ip").args(words).output().unwrap().stdout;
    [run(&["netns"]), run(&["-oneline", "-brief", "link"]), run(&["route"])]
}
