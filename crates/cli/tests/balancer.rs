//! `tombolo balancer` as a process: what it says at the start, that it provides, and that it ends in order.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tombolo_api::crd;
use tombolo_api::loadbalancer::Service;
use tombolo_api::tombolo::AddressPool;
use tombolo_apiserver::{Options, kubeconfig};
use tombolo_testkit::lab::{isolated, run};
use tombolo_testkit::{Cluster, patience};

/// A cluster behind TLS, in a network of its own.
struct World {
    cluster: Cluster,
    kubeconfig: String,
    runtime: Runtime,
}

impl World {
    fn new(name: &str) -> World {
        run("ip", &["link", "set", "lo", "up"]);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = Cluster::pristine(Options::named("lab"));
        let context = runtime.block_on(cluster.serve());
        // Processes of two tests may have the same number and their servers the same port, each in its own namespaces.
        let port = context.server.rsplit(':').next().unwrap_or_default();
        let file =
            std::env::temp_dir().join(format!("tombolo-balancer-{}-{port}-{name}", std::process::id()));
        let file = file.display().to_string();
        std::fs::write(&file, kubeconfig(&[context])).unwrap();
        World { cluster, kubeconfig: file, runtime }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.args(["balancer", "--kubeconfig", &self.kubeconfig, "--node-name", "node1"]).args(options);
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn create<K>(&self, api: &Api<K>, object: Value)
    where
        K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let object = serde_json::from_value(object).unwrap();
        self.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap();
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>,
    {
        let _inside = self.runtime.enter();
        Api::all(self.cluster.client())
    }

    fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let _inside = self.runtime.enter();
        Api::namespaced(self.cluster.client(), namespace)
    }

    fn wait(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + patience(Duration::from_secs(60));
        while !self.runtime.block_on(condition()) {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_work_is_said_at_the_start() {
    isolated(|| {
        let world = World::new("start");
        let hasty = world.command(&["--heartbeat", "2s", "--dead-after", "3s"]).output().unwrap();
        assert!(!hasty.status.success() && said(&hasty).contains("two heartbeats"), "{}", said(&hasty));
        let odd = world.command(&["--capabilities", "NONE"]).output().unwrap();
        assert!(
            !odd.status.success() && said(&odd).contains("expected one of FULL, V4-ONLY"),
            "{}",
            said(&odd)
        );
        let bare = world.command(&[]).output().unwrap();
        let hint = "install deploy/crds and grant deploy/member/balancer-rbac.yaml";
        assert!(!bare.status.success() && said(&bare).contains(hint), "{}", said(&bare));
    });
}

#[test]
fn it_gives_a_service_an_address_and_says_good_bye() {
    isolated(|| {
        // A link to answer on: without, nothing would be left to this node.
        run("ip", &["link", "add", "wire0", "type", "veth", "peer", "name", "wire1"]);
        run("ip", &["address", "add", "192.0.2.1/24", "dev", "wire0"]);
        run("ip", &["link", "set", "wire0", "up"]);
        let world = World::new("address");
        world.runtime.block_on(world.cluster.define(&crd::crds()));
        world.create::<Namespace>(&world.api(), json!({"metadata": {"name": "tombolo-system"}}));
        world.create::<Node>(&world.api(), json!({"metadata": {"name": "node1"}}));
        let pool = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "main"},
            "spec": {"addresses": ["192.0.2.7"]},
        });
        world.create::<AddressPool>(&world.api(), pool);
        let mut child = Ended(world.command(&["--admin-address", "127.0.0.1:0"]).spawn().unwrap());
        let services: Api<Service> = world.within("default");
        let service = json!({
            "metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        world.create(&services, service);
        world.wait("the Service has an address", async || {
            services
                .get("web")
                .await
                .unwrap()
                .ingress()
                .iter()
                .any(|entry| entry.ip.as_deref() == Some("192.0.2.7"))
        });
        run("kill", &["-TERM", &child.0.id().to_string()]);
        assert!(child.0.wait().unwrap().success());
        let leases: Api<Lease> = world.within("tombolo-system");
        let lease = world.runtime.block_on(leases.get("tombolo-announcer.node1")).unwrap();
        assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(""));
    });
}

/// Ends with this value, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
