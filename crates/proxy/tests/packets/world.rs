//! Two nodes with their plans and kernels, and a way to ask both what becomes of a connection.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tombolo_model::routing::{self, Input, Protocol};
use tombolo_nft::Forgotten;
use tombolo_proxy::Settings;
use tombolo_proxy::kernel::{Kernel, Written};
use tombolo_proxy::plan::{Outcome, Plan, Update};
use tombolo_proxy::simulate::{Fate, Origin, Packet, Simulator};
use tombolo_runtime::Key;
use tombolo_testkit::lab::{Answer, Echo, Lab, Namespace, Protocol as Transport, ask, try_ask};

pub(crate) const PORT: u16 = 80;
pub(crate) const TARGET: u16 = 8080;
pub(crate) const NODE_PORT: u16 = 30080;

/// One node's proxy, without the watching.
pub(crate) struct Proxy {
    pub(crate) plan: Plan,
    pub(crate) kernel: Kernel,
    pub(crate) simulator: Simulator,
}

pub(crate) struct World {
    pub(crate) lab: Lab,
    pub(crate) proxies: Vec<Proxy>,
    _echoes: Vec<Echo>,
}

/// An endpoint: which pod of which node, and how it is.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) node: usize,
    pub(crate) pod: usize,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
}

pub(crate) fn ready(node: usize, pod: usize) -> Endpoint {
    Endpoint { node, pod, ready: true, terminating: false }
}

pub(crate) fn terminating(node: usize, pod: usize) -> Endpoint {
    Endpoint { node, pod, ready: false, terminating: true }
}

/// In the network of a node itself.
pub(crate) fn in_host(node: usize) -> Endpoint {
    ready(node, usize::MAX)
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Pod(usize, usize),
    Host(usize),
}

pub(crate) fn settings(node: usize) -> Settings {
    let number = node + 1;
    let pods = [format!("10.1.{number}.0/24"), format!("fd10::{number}:0/112")];
    Settings {
        pods: pods.iter().map(|range| range.parse().unwrap()).collect(),
        services: services(),
        ..Settings::default()
    }
}

/// Where cluster IPs are.
fn services() -> Vec<ipnet::IpNet> {
    ["10.96.0.0/16", "fd96::/64"].map(|range| range.parse().unwrap()).to_vec()
}

impl World {
    /// Two nodes with so many pods each; every pod answers on [`TARGET`].
    pub(crate) fn new(pods: &[usize]) -> Self {
        let lab = Lab::new(pods);
        let echoes =
            lab.nodes.iter().flat_map(|node| &node.pods).map(|pod| Echo::start(pod, TARGET)).collect();
        let proxies = (0..pods.len()).map(|node| Proxy::start(&lab, node)).collect();
        for prefix in ["10.96.0.0/16", "192.0.2.0/24", "fd96::/64", "fd97::/64"] {
            lab.route(prefix, 0);
        }
        Self { lab, proxies, _echoes: echoes }
    }

    /// Brings a Service with its endpoints to all nodes.
    pub(crate) fn set(&mut self, service: &Value, endpoints: &[Endpoint]) {
        for node in 0..self.proxies.len() {
            let update = self.update(service, endpoints, node);
            self.proxies[node].bring(update);
        }
    }

    /// A proxy that starts where another ended, and missed what happened meanwhile. Returns how many connections it forgot.
    pub(crate) fn restart(&mut self, node: usize, service: &Value, endpoints: &[Endpoint]) -> Forgotten {
        let update = self.update(service, endpoints, node);
        let place = self.lab.nodes[node].place.clone();
        let mut kernel = Kernel::open(Some(&place.path()), &settings(node)).unwrap();
        let mut plan = Plan::new();
        let changes = plan.update([update]).changes;
        let mut simulator = Simulator::new(true).with_services(&services());
        simulator.apply(&changes).unwrap();
        assert!(!kernel.adopt(&plan).unwrap().anew);
        let here = [settings(node).pods, vec![place.v4().into(), place.v6().into()]].concat();
        kernel.sweep_affinity(&plan, &here).unwrap();
        let forgotten = kernel.sweep_flows(&plan, &services()).unwrap();
        self.proxies[node] = Proxy { plan, kernel, simulator };
        forgotten
    }

    fn place_of(&self, endpoint: &Endpoint) -> &Namespace {
        let node = &self.lab.nodes[endpoint.node];
        node.pods.get(endpoint.pod).unwrap_or(&node.place)
    }

    pub(crate) fn update(&self, service: &Value, endpoints: &[Endpoint], node: usize) -> Update {
        let service: Service = serde_json::from_value(service.clone()).unwrap();
        let slices = [self.slice("IPv4", endpoints), self.slice("IPv6", endpoints)];
        let node = self.node(node);
        let input = Input { service: &service, slices: slices.iter().collect(), node: &node, imported: None };
        let (routes, complaints) = routing::route(&input);
        assert!(complaints.is_empty(), "{complaints:?}");
        let serving = endpoints.iter().flat_map(|endpoint| {
            let pod = self.place_of(endpoint);
            [pod.v4(), pod.v6()].map(|address| SocketAddr::new(address, TARGET))
        });
        Update { service: Key::of(&service), routes, serving: serving.collect() }
    }

    pub(crate) fn node(&self, node: usize) -> routing::Node {
        let place = &self.lab.nodes[node].place;
        let name = format!("node{}", node + 1);
        routing::Node { name, addresses: vec![place.v4(), place.v6()], ..routing::Node::default() }
    }

    fn slice(&self, family: &str, endpoints: &[Endpoint]) -> EndpointSlice {
        let endpoints: Vec<Value> = endpoints
            .iter()
            .map(|endpoint| {
                let pod = self.place_of(endpoint);
                let address = if family == "IPv4" { pod.v4() } else { pod.v6() };
                let conditions = json!({
                    "ready": endpoint.ready, "serving": true, "terminating": endpoint.terminating,
                });
                let node = format!("node{}", endpoint.node + 1);
                json!({"addresses": [address.to_string()], "conditions": conditions, "nodeName": node})
            })
            .collect();
        let ports = [("tcp", "TCP"), ("udp", "UDP"), ("sctp", "SCTP")]
            .map(|(name, protocol)| json!({"name": name, "protocol": protocol, "port": TARGET}));
        serde_json::from_value(json!({
            "metadata": {"name": family.to_lowercase(), "namespace": "default"},
            "addressType": family, "endpoints": endpoints, "ports": ports,
        }))
        .unwrap()
    }

    pub(crate) fn namespace(&self, from: From) -> &Namespace {
        match from {
            From::Client => &self.lab.client,
            From::Pod(node, pod) => &self.lab.nodes[node].pods[pod],
            From::Host(node) => &self.lab.nodes[node].place,
        }
    }

    /// Asks, and tells who answered.
    pub(crate) fn servers(&self, from: From, to: IpAddr, port: u16, times: usize) -> Vec<String> {
        let answers = ask(self.namespace(from), (to, port).into(), Transport::Tcp, times);
        answers.into_iter().map(|answer| answer.server).collect()
    }

    /// What a connection may come to by the simulator; the kernel must agree.
    pub(crate) fn check(&self, from: From, to: IpAddr, port: u16, protocol: Transport) -> BTreeSet<String> {
        let place = self.namespace(from);
        let source = place.like(to);
        let at = match from {
            From::Client => 0,
            From::Pod(node, _) | From::Host(node) => node,
        };
        let origin = match from {
            From::Client => Origin::Elsewhere,
            From::Pod(..) => Origin::Pod,
            From::Host(_) => Origin::Host,
        };
        let to_node = self.lab.nodes[at].place.like(to) == to;
        let transport = if protocol == Transport::Tcp { Protocol::Tcp } else { Protocol::Udp };
        let packet = Packet { source, origin, destination: to, to_node, protocol: transport, port };
        let fates = self.proxies[at].simulator.fates(&packet);
        let asked = try_ask(place, (to, port).into(), protocol);
        let told = self.tell(&asked, source);
        // What a host sends comes from its own address anyway.
        let shown = |fate: &Fate| match (from, self.expect(fate)) {
            (From::Host(_), told) => told.replace("changed", "kept"),
            (_, told) => told,
        };
        let expected: BTreeSet<String> = fates.iter().map(shown).collect();
        assert!(expected.contains(&told), "{from:?} to {to}:{port}: {told}, not in {expected:?}");
        expected
    }

    fn tell(&self, asked: &io::Result<Answer>, source: IpAddr) -> String {
        match asked {
            Ok(answer) => {
                let kept = if answer.peer == source { "kept" } else { "changed" };
                format!("{} {kept}", answer.server)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => "refused".to_owned(),
                io::ErrorKind::TimedOut => "dropped".to_owned(),
                other => format!("{other:?}"),
            },
        }
    }

    fn expect(&self, fate: &Fate) -> String {
        match fate {
            Fate::Delivered { to, masqueraded } => {
                let pods = self.lab.nodes.iter().flat_map(|node| &node.pods);
                let pod = pods.into_iter().find(|pod| pod.like(to.ip()) == to.ip()).unwrap();
                let kept = if *masqueraded { "changed" } else { "kept" };
                format!("{} {kept}", pod.name())
            }
            Fate::Rejected => "refused".to_owned(),
            Fate::Dropped => "dropped".to_owned(),
            Fate::Untouched => "untouched".to_owned(),
        }
    }
}

impl Proxy {
    pub(crate) fn start(lab: &Lab, node: usize) -> Self {
        let path = lab.nodes[node].place.path();
        let mut kernel = Kernel::open(Some(&path), &settings(node)).unwrap();
        let plan = Plan::new();
        kernel.adopt(&plan).unwrap();
        Self { plan, kernel, simulator: Simulator::new(true).with_services(&services()) }
    }

    pub(crate) fn bring(&mut self, update: Update) -> Written {
        let Outcome { changes, gone } = self.plan.update([update]);
        self.simulator.apply(&changes).unwrap();
        let written = self.kernel.apply(&changes).unwrap();
        self.kernel.unstick(&changes.unstuck()).unwrap();
        self.kernel.forget(&gone).unwrap();
        written
    }
}

pub(crate) const VIP: [&str; 2] = ["10.96.0.10", "fd96::10"];
pub(crate) const LB: [&str; 2] = ["192.0.2.10", "fd97::10"];

/// A dual-stack Service of type LoadBalancer with both protocols; `more` goes into its spec.
pub(crate) fn service(more: Value) -> Value {
    let port = |name: &str, protocol: &str, node_port: u16| json!({"name": name, "protocol": protocol, "port": PORT, "targetPort": TARGET, "nodePort": node_port});
    let mut spec = json!({
        "type": "LoadBalancer",
        "clusterIP": VIP[0], "clusterIPs": VIP, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
        "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
        "ports": [port("tcp", "TCP", NODE_PORT), port("udp", "UDP", NODE_PORT)],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let ingress: Vec<Value> = LB.iter().map(|address| json!({"ip": address, "ipMode": "VIP"})).collect();
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
        "status": {"loadBalancer": {"ingress": ingress}},
    })
}

/// The addresses of a kind in both families.
pub(crate) fn both(addresses: [&str; 2]) -> [IpAddr; 2] {
    addresses.map(|address| address.parse().unwrap())
}
