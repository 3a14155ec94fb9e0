//! `tombolo proxy` as a process, in a lab of network namespaces: killed and started again under load, cleaned up, explained.

use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, from_value, json};
use tokio::runtime::Runtime;
use tombolo_apiserver::{Options, kubeconfig};
use tombolo_testkit::Cluster;
use tombolo_testkit::lab::{Echo, Lab, Protocol, isolated, try_ask};

/// Much longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const VIP: &str = "10.96.7.7";

/// A cluster behind TLS with one Service, and a node with its pods.
struct World {
    lab: Lab,
    kubeconfig: String,
    _echoes: Vec<Echo>,
    _cluster: Cluster,
    _runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let lab = Lab::new(&[3]);
        let echoes = lab.nodes[0].pods[..2].iter().map(|pod| Echo::start(pod, 8080)).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let cluster = Cluster::new(Options::named("lab"));
        let context = runtime.block_on(cluster.serve());
        runtime.block_on(fill(&cluster, &lab));
        let file = format!("/run/kubeconfig-{}", std::process::id());
        std::fs::write(&file, kubeconfig(&[context])).expect("a kubeconfig");
        Self { lab, kubeconfig: file, _echoes: echoes, _cluster: cluster, _runtime: runtime }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command
            .arg("proxy")
            .args(options)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.command(options).output().expect("tombolo starts")
    }

    fn place(&self) -> String {
        self.lab.nodes[0].place.path().display().to_string()
    }

    /// A running proxy that has written everything.
    fn start(&self) -> Child {
        let place = self.place();
        let mut child = self
            .command(&[
                "--kubeconfig",
                &self.kubeconfig,
                "--node-name",
                "node1",
                "--network-namespace",
                &place,
            ])
            .args(["--admin-address", "127.0.0.1:0", "--healthz-address", "127.0.0.1:0"])
            .spawn()
            .expect("tombolo starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut said = String::new();
        while !said.contains("resync") {
            let line = lines.next().unwrap_or_else(|| panic!("the proxy ended: {said}"));
            said += &format!("{line}\n");
        }
        thread::spawn(move || lines.for_each(drop));
        child
    }

    fn asks(&self) -> std::io::Result<String> {
        let to: IpAddr = VIP.parse().expect("an address");
        try_ask(&self.lab.nodes[0].pods[2], (to, 80).into(), Protocol::Tcp).map(|answer| answer.server)
    }
}

async fn fill(cluster: &Cluster, lab: &Lab) {
    let object = |value: Value| value;
    let node = object(
        json!({"metadata": {"name": "node1"}, "spec": {"podCIDRs": ["10.1.1.0/24"], "podCIDR": "10.1.1.0/24"}}),
    );
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.create(&PostParams::default(), &from_value(node).expect("a node")).await.expect("a node");
    let service = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": VIP, "ports": [{"name": "tcp", "port": 80, "targetPort": 8080}]},
    });
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    services
        .create(&PostParams::default(), &from_value(service).expect("a service"))
        .await
        .expect("a service");
    let endpoints: Vec<Value> = lab.nodes[0].pods[..2]
        .iter()
        .map(|pod| json!({"addresses": [pod.v4().to_string()], "conditions": {"ready": true}, "nodeName": "node1"}))
        .collect();
    let slice = json!({
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "tcp", "port": 8080}],
    });
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "default");
    slices.create(&PostParams::default(), &from_value(slice).expect("a slice")).await.expect("a slice");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_proxy_that_is_killed_and_started_again_under_load_fails_no_connection() {
    isolated(|| {
        let world = World::new();
        let mut proxy = world.start();
        let (done, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let load = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    world.asks().expect("every connection succeeds");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..3 {
                proxy.kill().and_then(|()| proxy.wait()).expect("to kill");
                more(&count, &load);
                proxy = world.start();
                more(&count, &load);
            }
            done.store(true, Ordering::Relaxed);
            load.join().expect("no connection failed");
        });
        proxy.kill().and_then(|()| proxy.wait()).expect("to kill");
        let cleaned = world.run(&["--cleanup", "--network-namespace", &world.place()]);
        assert_eq!(text(&cleaned.stdout), "the proxy's rules are removed\n", "{}", text(&cleaned.stderr));
        assert!(world.asks().is_err(), "nothing is routed any more");
        let again = world.run(&["--cleanup", "--network-namespace", &world.place()]);
        assert_eq!(text(&again.stdout), "there were no rules of the proxy\n");
    });
}

/// Waits until more connections were made, or one failed.
fn more(count: &AtomicUsize, load: &thread::ScopedJoinHandle<'_, ()>) {
    let (before, begin) = (count.load(Ordering::Relaxed), Instant::now());
    while count.load(Ordering::Relaxed) < before + 50 && !load.is_finished() {
        assert!(begin.elapsed() < PATIENCE, "no connections are made");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_service_is_explained_and_nonsense_is_answered_with_what_to_do() {
    isolated(|| {
        let world = World::new();
        let place = ["--kubeconfig", &world.kubeconfig, "--node-name", "node1"];
        let told = world.run(&[&["explain", "default/web"][..], &place].concat());
        let told = text(&told.stdout);
        assert!(told.starts_with("Service default/web on node node1:\n"), "{told}");
        assert!(told.contains("10.96.7.7") && told.contains("10.1.1.1"), "{told}");
        for (arguments, error, hint) in [
            (&["explain", "web"][..], "\"web\" names no Service", "write NAMESPACE/NAME"),
            (&["explain", "default/none"], "there is no Service default/none", "derived Service"),
            (&["--gather", "1s"], "--gather must not be more than 50ms", "written together"),
            (
                &["--network-namespace", "/run/netns/none"],
                "the kernel's nftables cannot be used",
                "CAP_NET_ADMIN",
            ),
        ] {
            let output = world.run(&[arguments, &place].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(said.contains(error) && said.contains(hint), "{arguments:?}: {said}");
        }
    });
}
