//! Tombolo without its own proxy: the real kube-proxy, in nftables mode, makes a client reach what an agent imported.
//!
//! Two clusters of one node each, in a lab of network namespaces: `a` has a server, `b` a client and kube-proxy.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};
use tombolo_agent::{Agent, Config};
use tombolo_api::mcs;
use tombolo_apiserver::{Options, kubeconfig};
use tombolo_testkit::lab::{Echo, Lab, Namespace as Place, Protocol, Relay, isolated, try_ask};
use tombolo_testkit::{Cluster, real_only};

const PORT: u16 = 80;

struct World {
    lab: Lab,
    clusters: [Cluster; 3],
    _echo: Echo,
    _relay: Relay,
    proxy: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn make_namespace(cluster: &Cluster, name: &str) {
    create::<Namespace>(&Api::all(cluster.client()), json!({"metadata": {"name": name}})).await;
}

impl World {
    async fn new() -> Self {
        let lab = Lab::new(&[1, 1]);
        let echo = Echo::start(&lab.nodes[0].pods[0], 8080);
        let hub = Cluster::with_definitions(Options::named("hub")).await;
        let a = Cluster::with_definitions(Options::named("a")).await;
        let b = Cluster::with_definitions(Options::named("b")).await;
        for (name, member, range) in [("a", &a, "10.1.1.0/24"), ("b", &b, "10.1.2.0/24")] {
            make_namespace(&hub, &format!("tombolo-{name}")).await;
            make_namespace(member, "demo").await;
            let config = Config {
                pod_cidrs: vec![range.to_owned()],
                ..Config::new(name.parse().unwrap(), format!("identity-{name}"))
            };
            let agent = Agent::new(config, member.client(), hub.client());
            tokio::spawn(agent.run(std::future::pending()));
        }
        let node = &lab.nodes[1].place;
        let object = json!({
            "metadata": {"name": "node2"}, "spec": {"podCIDR": "10.1.2.0/24", "podCIDRs": ["10.1.2.0/24"]},
        });
        create::<Node>(&Api::all(b.client()), object).await;
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": node.v4()}]}});
        let nodes: Api<Node> = Api::all(b.client());
        nodes.patch_status("node2", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let context = b.serve().await;
        let server: SocketAddr = context.server.strip_prefix("https://").unwrap().parse().unwrap();
        let relay = Relay::start(node, server);
        let file = "/run/kube-proxy-kubeconfig";
        std::fs::write(file, kubeconfig(&[context])).unwrap();
        let proxy = start_proxy(node, file);
        Self { lab, clusters: [hub, a, b], _echo: echo, _relay: relay, proxy }
    }

    fn api<K>(&self, member: usize) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.clusters[member].client(), "demo")
    }

    /// `a` serves and exports `echo`.
    async fn export(&self) {
        let ports = json!([{"name": "http", "port": PORT, "targetPort": 8080}]);
        create::<Service>(&self.api(1), json!({"metadata": {"name": "echo"}, "spec": {"ports": ports}}))
            .await;
        let slice = json!({
            "metadata": {"name": "echo-1", "labels": {"kubernetes.io/service-name": "echo"}},
            "addressType": "IPv4", "endpoints": [{"addresses": [self.lab.nodes[0].pods[0].v4()]}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        create::<EndpointSlice>(&self.api(1), slice).await;
        create::<mcs::ServiceExport>(
            &self.api(1),
            json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": "echo"}}),
        )
        .await;
    }

    /// Who answers the client at an address.
    fn answer(&self, address: &str) -> Option<String> {
        let to: IpAddr = address.parse().unwrap();
        let asked = try_ask(&self.lab.nodes[1].pods[0], (to, PORT).into(), Protocol::Tcp);
        asked.ok().map(|answer| answer.server)
    }
}

fn start_proxy(node: &Place, kubeconfig: &str) -> Child {
    let log = std::fs::File::create("/run/kube-proxy.log").unwrap();
    Command::new("ip")
        .args(["netns", "exec", node.name(), "kube-proxy", "--proxy-mode=nftables"])
        .args([
            &format!("--kubeconfig={kubeconfig}"),
            "--hostname-override=node2",
            "--cluster-cidr=10.1.2.0/24",
        ])
        // The computer's settings are not ours.
        .args(["--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0"])
        .args(["--conntrack-tcp-timeout-close-wait=0", "--healthz-bind-address=127.0.0.1:10256"])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut holds: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(value) = holds().await {
            return value;
        }
        let log = || std::fs::read_to_string("/run/kube-proxy.log").unwrap_or_default();
        assert!(tokio::time::Instant::now() < deadline, "never: {what}; kube-proxy said:\n{}", log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn with_world(test: impl AsyncFnOnce(&World)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        test(&world).await;
    });
}

#[test]
fn a_client_reaches_another_cluster_through_the_derived_service_and_kube_proxy_alone() {
    real_only!("kube-proxy is built with the real servers");
    isolated(|| {
        with_world(async |world| {
            world.export().await;
            let imports: Api<mcs::ServiceImport> = world.api(2);
            let address = eventually("an address", || async {
                imports.get_opt("echo").await.unwrap().and_then(|import| import.spec.ips.first().cloned())
            })
            .await;
            let answer = || async { world.answer(&address) };
            assert_eq!(eventually("an answer", answer).await, "pod1-1");
            let exports: Api<mcs::ServiceExport> = world.api(1);
            exports.delete("echo", &DeleteParams::default()).await.unwrap();
            eventually("nobody answers", || async { world.answer(&address).is_none().then_some(()) }).await;
        });
    });
}

#[test]
fn a_client_reaches_another_cluster_under_the_native_name_and_kube_proxy_alone() {
    real_only!("kube-proxy is built with the real servers");
    isolated(|| {
        with_world(async |world| {
            world.export().await;
            let imports: Api<mcs::ServiceImport> = world.api(2);
            eventually("imported", || async { imports.get_opt("echo").await.unwrap() }).await;
            let strategy =
                json!({"metadata": {"annotations": {"discovery.karmada.io/strategy": "LocalAndRemote"}}});
            imports.patch("echo", &PatchParams::default(), &Patch::Merge(&strategy)).await.unwrap();
            let services: Api<Service> = world.api(2);
            let address = eventually("a Service of its name", || async {
                services.get_opt("echo").await.unwrap().and_then(|service| service.spec?.cluster_ip)
            })
            .await;
            let answer = || async { world.answer(&address) };
            assert_eq!(eventually("an answer", answer).await, "pod1-1");
        });
    });
}
