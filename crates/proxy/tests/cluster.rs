//! The whole proxy on a cluster and a lab of namespaces: objects in, packets through.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace as Namespace1, Node, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, ServiceRef};
use tombolo_api::{crd, kep, mcs};
use tombolo_apiserver::{Options, User};
use tombolo_model::names;
use tombolo_proxy::{Config, Metrics, Proxy, explain};
use tombolo_runtime::{Key, Readiness};
use tombolo_testkit::lab::{Echo, Lab, Namespace, Protocol, isolated, try_ask};
use tombolo_testkit::witness::{Witness, granted};
use tombolo_testkit::{Cluster, Server, patience};

const VIP: &str = "10.96.7.7";
const RULES: &str = include_str!("../../../deploy/member/proxy-rbac.yaml");

/// Rights that are for kinds not every cluster has.
const OPTIONAL: [&str; 3] = [
    "watch multicluster.k8s.io/importedservices",
    "watch multicluster.x-k8s.io/serviceimports",
    "watch networking.k8s.io/servicecidrs",
];

struct Running {
    client: Client,
    lab: Lab,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    _cluster: Cluster,
    _echoes: Vec<Echo>,
}

/// Runs `test` with two nodes, each with a proxy in this one process.
fn with_proxies(definitions: Vec<CustomResourceDefinition>, test: impl AsyncFnOnce(&Running)) {
    isolated_runtime(async {
        let lab = Lab::new(&[2, 1]);
        // As some distributions have it: what listens at IPv6 addresses does not hear IPv4.
        lab.nodes.iter().for_each(|node| drop(node.place.run("sysctl -qw net.ipv6.bindv6only=1")));
        let echoes = lab.nodes.iter().flat_map(|node| &node.pods).map(|pod| Echo::start(pod, 8080)).collect();
        let cluster = Cluster::new(Options { rbac: true, ..Options::named("lab") });
        let client = cluster.client();
        grant(&client).await;
        cluster.define(&definitions).await;
        let witness = Witness::default();
        let account = witness.client(&cluster, User::service_account("tombolo-system", "tombolo-proxy"));
        let (stop, metrics) = (watch::Sender::new(false), Metrics::default());
        let mut proxies = tokio::task::JoinSet::new();
        for (place, node) in lab.nodes.iter().enumerate() {
            let name = format!("node{}", place + 1);
            let range = format!("10.1.{}.0/24", place + 1);
            let object = json!({"metadata": {"name": name}, "spec": {"podCIDR": range, "podCIDRs": [range]}});
            create::<Node>(&Api::all(client.clone()), object).await;
            let config = Config {
                namespace: Some(node.place.path()),
                health_address: Some("0.0.0.0:10256".parse().unwrap()),
                verify: Duration::from_millis(100),
                ..Config::new(name)
            };
            let readiness = Readiness::default();
            let own = if place == 0 { metrics.clone() } else { Metrics::default() };
            let proxy = Proxy::new(config, account.clone()).with_metrics(&own).with_readiness(&readiness);
            let proxy = proxy.bind().await.unwrap();
            let mut stopped = stop.subscribe();
            proxies.spawn(proxy.run(async move { drop(stopped.wait_for(|stop| *stop).await) }));
            wait(async || readiness.pending().is_empty()).await;
        }
        let running = Running { client, lab, metrics, stop, _cluster: cluster, _echoes: echoes };
        test(&running).await;
        running.stop.send_replace(true);
        while proxies.join_next().await.is_some() {}
        let documents: Vec<Value> =
            RULES.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
        // Kinds that may be missing are watched once they are there.
        let is_idle = |right: &&&str| !witness.used().contains(**right);
        let idle: Vec<&str> = OPTIONAL.iter().filter(is_idle).copied().collect();
        witness.used_exactly(&granted(&documents), &idle);
    });
}

/// Applies the shipped rules, the only ones the proxies have.
async fn grant(client: &Client) {
    let namespace = json!({"metadata": {"name": "tombolo-system"}});
    create::<Namespace1>(&Api::all(client.clone()), namespace).await;
    for document in RULES.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).unwrap();
        match value["kind"].as_str().unwrap() {
            "ServiceAccount" => {
                create::<ServiceAccount>(&Api::namespaced(client.clone(), "tombolo-system"), value).await;
            }
            "ClusterRole" => create::<ClusterRole>(&Api::all(client.clone()), value).await,
            _ => create::<ClusterRoleBinding>(&Api::all(client.clone()), value).await,
        }
    }
}

fn isolated_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn wait(mut condition: impl AsyncFnMut() -> bool) {
    tokio::time::timeout(patience(Duration::from_secs(20)), async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("what was waited for should happen");
}

fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "type": "LoadBalancer", "clusterIP": VIP, "externalTrafficPolicy": "Local",
            "ports": [{"name": "tcp", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

fn slice(pods: &[&Namespace]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let node = format!("node{}", &pod.name()[3..4]);
            json!({"addresses": [pod.v4().to_string()], "conditions": {"ready": true}, "nodeName": node})
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "tcp", "port": 8080, "protocol": "TCP"}],
    })
}

impl Running {
    async fn set_slice(&self, pods: &[&Namespace]) {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        let apply = PatchParams::apply("test").force();
        api.patch("web-1", &apply, &Patch::Apply(slice(pods))).await.unwrap();
    }

    fn server(&self, node: usize) -> Option<String> {
        let to: IpAddr = VIP.parse().unwrap();
        let from = self.lab.nodes[node].pods.last().unwrap();
        try_ask(from, (to, 80).into(), Protocol::Tcp).ok().map(|answer| answer.server)
    }

    /// The answer of an HTTP server on a node.
    async fn get(&self, node: usize, port: u16, path: &str) -> String {
        let place = &self.lab.nodes[node].place;
        let connected = place.within(|| std::net::TcpStream::connect((place.v4(), port)));
        let Ok(stream) = connected else { return String::new() };
        stream.set_nonblocking(true).unwrap();
        let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn metrics(&self) -> String {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut out = String::new();
        prometheus_client::encoding::text::encode(&mut out, &registry).unwrap();
        out
    }
}

#[test]
fn services_of_the_cluster_are_routed_followed_and_told_about() {
    isolated(|| {
        // Without the kinds of imports, as on a cluster that has never heard of them.
        with_proxies(Vec::new(), async |running| {
            let pods: Vec<Namespace> = running.lab.nodes.iter().flat_map(|node| node.pods.clone()).collect();
            create::<Service>(&Api::namespaced(running.client.clone(), "default"), service()).await;
            running.set_slice(&[&pods[0]]).await;
            wait(async || running.server(0).as_deref() == Some("pod1-1")).await;
            wait(async || running.server(1).as_deref() == Some("pod1-1")).await;
            running.set_slice(&[&pods[2]]).await;
            wait(async || running.server(0).as_deref() == Some("pod2-1")).await;
            check_health(running).await;
            wait(async || running.metrics().contains(r#"traffic_policy="external",ip_family="IPv4"} 1"#))
                .await;
            let metrics = running.metrics();
            for line in [
                r#"tombolo_proxy_black_hole{namespace="default",service="web",reason="no_local_external""#,
                r#"tombolo_proxy_endpoints{source="",tier="all"} 1"#,
                r#"tombolo_proxy_resyncs_total{cause="start"} 1"#,
                "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                r#"kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}"#,
                r#"kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}"#,
                r#"kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv4"} 0"#,
            ] {
                assert!(metrics.contains(line), "{line}\n{metrics}");
            }
            let told = explain(&Config::new("node1"), &running.client, &Key::new("default", "web")).await;
            let told = told.unwrap().unwrap().join("\n");
            assert!(told.contains("10.1.2.1"), "{told}");
            mend(running).await;
            count_refusals(running).await;
            count_forgotten(running).await;
        });
    });
}

fn plain(name: &str, address: &str, protocol: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterIP": address,
            "ports": [{"name": "main", "port": 80, "targetPort": 8080, "protocol": protocol}],
        },
    })
}

/// Who is refused shows by Service, frontend and reason.
async fn count_refusals(running: &Running) {
    let api: Api<Service> = Api::namespaced(running.client.clone(), "default");
    create::<Service>(&api, plain("empty", "10.96.7.8", "TCP")).await;
    let (from, to) = (&running.lab.nodes[0].pods[1], "10.96.7.8:80".parse().unwrap());
    let line = r#"tombolo_proxy_refused_packets_total{namespace="default",service="empty",frontend="TCP 10.96.7.8 80",why="no_endpoints"} "#;
    wait(async || {
        let _ = try_ask(from, to, Protocol::Tcp);
        let metrics = running.metrics();
        let counted = metrics.lines().find_map(|told| told.strip_prefix(line));
        counted.is_some_and(|count| count != "0")
    })
    .await;
}

/// A live UDP flow whose server goes is forgotten, and counted.
async fn count_forgotten(running: &Running) {
    let api: Api<Service> = Api::namespaced(running.client.clone(), "default");
    create::<Service>(&api, plain("datagrams", "10.96.7.9", "UDP")).await;
    let slices: Api<EndpointSlice> = Api::namespaced(running.client.clone(), "default");
    let apply = PatchParams::apply("test").force();
    let (from, to) = (&running.lab.nodes[0].pods[1], "10.96.7.9:80".parse().unwrap());
    for server in [&running.lab.nodes[0].pods[0], &running.lab.nodes[1].pods[0]] {
        let mut slice = slice(&[server]);
        slice["metadata"] = json!({
            "name": "datagrams-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "datagrams"},
        });
        slice["ports"] = json!([{"name": "main", "port": 8080, "protocol": "UDP"}]);
        slices.patch("datagrams-1", &apply, &Patch::Apply(slice)).await.unwrap();
        wait(async || try_ask(from, to, Protocol::Udp).is_ok_and(|answer| answer.server == server.name()))
            .await;
    }
    let line = r#"kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} "#;
    wait(async || {
        let metrics = running.metrics();
        let counted = metrics.lines().find_map(|told| told.strip_prefix(line));
        counted.is_some_and(|count| count != "0")
    })
    .await;
    let took = r#"kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv6"}"#;
    assert!(running.metrics().contains(took));
}

/// ServiceCIDRs, as servers since 1.33 have them; the embedded one knows them only as a custom resource.
fn service_cidrs() -> Vec<CustomResourceDefinition> {
    if !Server::chosen().is_embedded() {
        return Vec::new();
    }
    let definition = json!({
        "metadata": {
            "name": "servicecidrs.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://example.com/for-a-test"},
        },
        "spec": {
            "group": "networking.k8s.io", "scope": "Cluster",
            "names": {"plural": "servicecidrs", "singular": "servicecidr", "kind": "ServiceCIDR"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    vec![serde_json::from_value(definition).unwrap()]
}

#[test]
fn unused_addresses_of_the_ranges_the_cluster_tells_of_are_dropped() {
    isolated(|| {
        with_proxies(service_cidrs(), async |running| {
            let range = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
                "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]},
            });
            // A real server has made it by itself.
            let ranges: Api<ServiceCIDR> = Api::all(running.client.clone());
            if ranges.get_opt("kubernetes").await.unwrap().is_none() {
                create(&ranges, range).await;
            }
            let (from, unused) = (&running.lab.nodes[0].pods[1], "10.96.7.99:80".parse().unwrap());
            let place = &running.lab.nodes[0].place;
            wait(async || {
                place.run("nft list chain ip tombolo-proxy unknown-ports").contains("10.96.0.0/16 drop")
            })
            .await;
            let error = try_ask(from, unused, Protocol::Tcp).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        });
    });
}

/// Balancers ask the health-check port which nodes have endpoints; `/healthz` says whether the proxy keeps up.
async fn check_health(running: &Running) {
    let api: Api<Service> = Api::namespaced(running.client.clone(), "default");
    let port = api.get("web").await.unwrap().spec.unwrap().health_check_node_port.unwrap() as u16;
    wait(async || running.get(1, port, "/").await.starts_with("HTTP/1.1 200")).await;
    wait(async || running.get(0, port, "/").await.starts_with("HTTP/1.1 503")).await;
    let answer = running.get(1, port, "/whatever").await;
    let body =
        r#"{"service":{"namespace":"default","name":"web"},"localEndpoints":1,"serviceProxyHealthy":true}"#;
    assert!(answer.ends_with(body), "{answer}");
    assert!(answer.contains("x-load-balancing-endpoint-weight: 1"), "{answer}");
    assert!(running.get(0, 10256, "/healthz").await.starts_with("HTTP/1.1 200"));
    let nodes: Api<Node> = Api::all(running.client.clone());
    let taint =
        json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}});
    nodes.patch("node1", &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    wait(async || running.get(0, 10256, "/healthz").await.starts_with("HTTP/1.1 503")).await;
    assert!(running.get(0, 10256, "/livez").await.starts_with("HTTP/1.1 200"));
}

/// Somebody flushes all rules; the proxy brings them back.
async fn mend(running: &Running) {
    running.lab.nodes[0].place.run("nft flush ruleset");
    wait(async || running.server(0).as_deref() == Some("pod2-1")).await;
    // Packets get through a moment before that is counted.
    wait(async || running.metrics().contains(r#"cause="foreign_change""#)).await;
}

/// The objects an agent would leave: the import and its derived Service.
async fn bring_import(running: &Running, sources: &[&str]) {
    let reference = ServiceRef { namespace: "default".to_owned(), name: "far".to_owned() };
    let derived = names::derived_service(Dialect::Kep, &reference);
    let ports = json!([{"name": "tcp", "port": 80, "protocol": "TCP"}]);
    let affinity = |cluster: &str| if cluster == "east" { "ClientIP" } else { "None" };
    let clusters: Vec<Value> = sources
        .iter()
        .map(|cluster| json!({"cluster": cluster, "sessionAffinity": affinity(cluster)}))
        .collect();
    let import = json!({
        "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ImportedService",
        "metadata": {"name": "far", "namespace": "default"},
        "spec": {"ports": ports, "ipFamily": "IPv4", "ip": VIP, "clusters": clusters},
    });
    create::<kep::ImportedService>(&Api::namespaced(running.client.clone(), "default"), import).await;
    let labels = json!({MANAGED_BY_LABEL: MANAGER, kep::IMPORTED_SERVICE_NAME_LABEL: "far"});
    let service = json!({
        "metadata": {"name": derived, "namespace": "default", "labels": labels},
        "spec": {"clusterIP": VIP, "ports": ports},
    });
    create::<Service>(&Api::namespaced(running.client.clone(), "default"), service).await;
}

/// A slice that came from a source cluster.
async fn bring_slice(running: &Running, cluster: &str, pod: &Namespace) {
    let reference = ServiceRef { namespace: "default".to_owned(), name: "far".to_owned() };
    let derived = names::derived_service(Dialect::Kep, &reference);
    let mut slice = slice(&[pod]);
    slice["metadata"] = json!({
        "name": format!("far-{cluster}"), "namespace": "default",
        "labels": {"kubernetes.io/service-name": derived, mcs::SOURCE_CLUSTER_LABEL: cluster},
    });
    create::<EndpointSlice>(&Api::namespaced(running.client.clone(), "default"), slice).await;
}

#[test]
fn of_an_import_only_clients_of_the_sticky_source_stick() {
    isolated(|| {
        with_proxies(crd::crds(), async |running| {
            let (east, west) = (&running.lab.nodes[0].pods[0], &running.lab.nodes[1].pods[0]);
            bring_import(running, &["east", "west"]).await;
            bring_slice(running, "west", west).await;
            wait(async || running.server(0).as_deref() == Some("pod2-1")).await;
            // Whoever landed in the west is free to land in the east next time, and stays there.
            bring_slice(running, "east", east).await;
            wait(async || running.server(0).as_deref() == Some("pod1-1")).await;
            for _ in 0..12 {
                assert_eq!(running.server(0).as_deref(), Some("pod1-1"));
            }
            wait(async || {
                running.metrics().contains(r#"tombolo_proxy_endpoints{source="east",tier="all"} 1"#)
            })
            .await;
        });
    });
}
