//! Three nodes with two pods each, every node with a proxy and a balancer; a cluster they all watch.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tombolo_api::loadbalancer::{Profile, REQUIRED_FEATURES_FIELD, Service};
use tombolo_api::tombolo::{
    ANNOUNCED_ANNOTATION, AddressPool, REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION as FEATURES,
};
use tombolo_apiserver::Options;
use tombolo_balancer::Balancer;
use tombolo_proxy::Proxy;
use tombolo_runtime::Readiness;
use tombolo_testkit::lab::{Echo, Lab, Namespace as Place, Protocol, try_ask};
use tombolo_testkit::{Cluster, until};

use crate::outcome::Skip;

pub(crate) const TARGET: u16 = 8080;

/// An endpoint: which pod of which node (from 0), and how it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) node: usize,
    pub(crate) pod: usize,
    pub(crate) ready: bool,
}

pub(crate) fn ready(node: usize, pod: usize) -> Endpoint {
    Endpoint { node, pod, ready: true }
}

pub(crate) fn terminating(node: usize, pod: usize) -> Endpoint {
    Endpoint { node, pod, ready: false }
}

/// A balancer on a thread in its node's namespace.
struct Running {
    kill: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

pub(crate) struct World {
    pub(crate) lab: Lab,
    pub(crate) client: Client,
    pub(crate) profile: Profile,
    balancers: Vec<Option<Running>>,
    _proxies: JoinSet<()>,
    _cluster: Cluster,
    _echoes: Vec<Echo>,
}

/// Runs `test` in such a world.
pub(crate) fn with_world(profile: Profile, test: impl AsyncFnOnce(&mut World)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(profile).await;
        test(&mut world).await;
        for node in 0..3 {
            world.kill_balancer(node);
        }
    });
}

impl World {
    async fn new(profile: Profile) -> World {
        let lab = Lab::new(&[2, 2, 2]);
        let echoes =
            lab.nodes.iter().flat_map(|node| &node.pods).map(|pod| Echo::start(pod, TARGET)).collect();
        let cidrs = ["10.96.0.0/16", "fd96::/112"].map(|cidr| cidr.parse().unwrap());
        let options = Options { service_cidrs: cidrs.into(), ..Options::named("lab") };
        let cluster = Cluster::with_definitions(options).await;
        let client = cluster.client_from_here();
        create::<Namespace>(&Api::all(client.clone()), json!({"metadata": {"name": "tombolo-system"}})).await;
        let pool = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "main"},
            "spec": {"addresses": ["172.18.0.200-172.18.0.220", "fd18::c8-fd18::dc"]},
        });
        create::<AddressPool>(&Api::all(client.clone()), pool).await;
        let proxies = start_proxies(&lab, &client).await;
        let mut world = World {
            lab,
            client,
            profile,
            balancers: vec![None, None, None],
            _proxies: proxies,
            _cluster: cluster,
            _echoes: echoes,
        };
        for node in 0..3 {
            world.start_balancer(node).await;
        }
        world
    }

    /// Starts the balancer of a node and waits until it is ready. The first one provides.
    pub(crate) async fn start_balancer(&mut self, node: usize) {
        let (place, client) = (self.lab.nodes[node].place.clone(), self.client.clone());
        let config = tombolo_balancer::Config {
            capabilities: self.profile.into(),
            slow_step: Duration::from_millis(300),
            ..tombolo_balancer::Config::new(node_name(node))
        };
        let (kill, killed) = oneshot::channel();
        let readiness = Readiness::default();
        let balancer = Balancer::new(config, client).with_readiness(&readiness);
        let thread = std::thread::spawn(move || {
            place.within(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    tokio::select! {
                        () = balancer.run(std::future::pending()) => {}
                        _ = killed => {}
                    }
                });
            });
        });
        self.balancers[node] = Some(Running { kill, thread });
        until("the balancer is ready", async || readiness.pending().is_empty()).await;
    }

    /// Ends the balancer of a node at once, without a word to the others.
    pub(crate) fn kill_balancer(&mut self, node: usize) {
        if let Some(Running { kill, thread }) = self.balancers[node].take() {
            let _ = kill.send(());
            thread.join().unwrap();
        }
    }

    /// Cuts a node off as if its power had failed.
    pub(crate) fn kill_node(&mut self, node: usize) {
        self.lab.nodes[node].place.run("ip link set eth0 down");
        self.kill_balancer(node);
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn pod(&self, node: usize, pod: usize) -> &Place {
        &self.lab.nodes[node].pods[pod]
    }

    /// Makes a Service `web` of which these fields of the spec differ from the usual.
    pub(crate) async fn make(&self, spec: Value) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "annotations": features(&spec)},
            "spec": {
                "type": "LoadBalancer",
                "ports": [{"name": "tcp", "port": 80, "targetPort": TARGET, "protocol": "TCP"}],
            },
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        create::<Service>(&self.services(), object).await;
    }

    /// The same, and waits for its load balancer: skipped where it is not supported.
    pub(crate) async fn provision(&self, spec: Value) -> Result<Service, Skip> {
        self.make(spec).await;
        self.settled().await
    }

    /// Waits until nothing is being provisioned, after the last change was seen.
    pub(crate) async fn settled(&self) -> Result<Service, Skip> {
        let mut found = None;
        until("the load balancer is settled", async || {
            let service = self.get().await;
            let done =
                says(&service, "LoadBalancerProvisioning").is_some_and(|(status, _)| status == "False");
            found = Some(service);
            done
        })
        .await;
        let service = found.unwrap();
        match says(&service, "LoadBalancerServing").unwrap() {
            (status, _) if status == "True" => Ok(service),
            (_, reason) if reason == "Unsupported" => Err(Skip("unsupported".to_owned())),
            (_, reason) => panic!("not provisioned: {reason}: {:?}", service.status),
        }
    }

    pub(crate) async fn get(&self) -> Service {
        self.services().get("web").await.unwrap()
    }

    /// Changes the Service and waits until that was seen: the time of the condition moves.
    pub(crate) async fn change(&self, spec: Value) -> Result<Service, Skip> {
        let before = acknowledged(&self.get().await);
        let metadata = json!({"annotations": features(&spec)});
        self.patch(json!({"metadata": metadata, "spec": spec})).await;
        until("the change is seen", async || acknowledged(&self.get().await) > before).await;
        self.settled().await
    }

    pub(crate) async fn patch(&self, patch: Value) {
        self.services().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Takes Service and endpoints away, as every case begins without.
    pub(crate) async fn clear(&self) {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        if self.services().get_opt("web").await.unwrap().is_some() {
            self.services().delete("web", &DeleteParams::default()).await.unwrap();
        }
        for family in ["web-v4", "web-v6"] {
            let _ = slices.delete(family, &DeleteParams::default()).await;
        }
        until("the Service is gone", async || self.services().get_opt("web").await.unwrap().is_none()).await;
    }

    /// Makes these the endpoints of the Service, in both families.
    pub(crate) async fn endpoints(&self, endpoints: &[Endpoint]) {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), "default");
        for (name, kind) in [("web-v4", "IPv4"), ("web-v6", "IPv6")] {
            let slice = self.slice(name, kind, endpoints);
            api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(slice)).await.unwrap();
        }
    }

    fn slice(&self, name: &str, kind: &str, endpoints: &[Endpoint]) -> Value {
        let one = |endpoint: &Endpoint| {
            let pod = self.pod(endpoint.node, endpoint.pod);
            let address = if kind == "IPv4" { pod.v4() } else { pod.v6() };
            json!({
                "addresses": [address.to_string()], "nodeName": node_name(endpoint.node),
                "conditions": {"ready": endpoint.ready, "serving": true, "terminating": !endpoint.ready},
            })
        };
        let port = |name: &str, protocol: &str| json!({"name": name, "port": TARGET, "protocol": protocol});
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": kind, "endpoints": endpoints.iter().map(one).collect::<Vec<_>>(),
            "ports": [port("tcp", "TCP"), port("udp", "UDP")],
        })
    }

    /// Who answers the client outside; `None` if nobody does.
    pub(crate) fn asked_by_client(&self, to: SocketAddr, protocol: Protocol) -> Option<String> {
        try_ask(&self.lab.client, to, protocol).ok().map(|answer| answer.server)
    }

    /// Waits until the client outside gets an answer.
    pub(crate) async fn until_reachable(&self, to: SocketAddr, protocol: Protocol) {
        until("the load balancer is reachable", async || self.asked_by_client(to, protocol).is_some()).await;
    }

    pub(crate) async fn until_unreachable(&self, to: SocketAddr, protocol: Protocol) {
        until("the load balancer is unreachable", async || self.asked_by_client(to, protocol).is_none())
            .await;
    }

    /// The node that says it answers for an address.
    pub(crate) async fn announcer_of(&self, address: IpAddr) -> Option<usize> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "tombolo-system");
        for node in 0..3 {
            let lease = api.get_opt(&format!("tombolo-announcer.{}", node_name(node))).await.unwrap();
            let claims = lease.and_then(|lease| lease.annotations().get(ANNOUNCED_ANNOTATION).cloned());
            let claims = claims.unwrap_or_default();
            let running = self.balancers[node].is_some();
            if running && claims.split(',').any(|claim| claim == address.to_string()) {
                return Some(node);
            }
        }
        None
    }

    /// What a node answers at its health-check port: the status code, or 0 where nobody listens.
    pub(crate) fn health(&self, node: usize, port: u16) -> u16 {
        use std::io::{Read as _, Write as _};
        let place = &self.lab.nodes[node].place;
        let asked = place.within(|| {
            let to = SocketAddr::from((place.v4(), port));
            let mut stream = std::net::TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        });
        let code = asked.ok().and_then(|answer| answer.get(9..12).and_then(|code| code.parse().ok()));
        code.unwrap_or(0)
    }
}

async fn start_proxies(lab: &Lab, client: &Client) -> JoinSet<()> {
    let mut proxies = JoinSet::new();
    for (node, made) in lab.nodes.iter().enumerate() {
        let range = format!("10.1.{}.0/24", node + 1);
        let addresses = [made.place.v4(), made.place.v6()];
        let addresses: Vec<Value> =
            addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip.to_string()})).collect();
        let object =
            json!({"metadata": {"name": node_name(node)}, "spec": {"podCIDR": range, "podCIDRs": [range]}});
        let nodes: Api<Node> = Api::all(client.clone());
        create::<Node>(&nodes, object).await;
        let status = Patch::Merge(json!({"status": {"addresses": addresses}}));
        nodes.patch_status(&node_name(node), &PatchParams::default(), &status).await.unwrap();
        let config = tombolo_proxy::Config {
            namespace: Some(made.place.path()),
            pod_cidrs: vec![range.parse().unwrap(), format!("fd10::{}:0/112", node + 1).parse().unwrap()],
            ..tombolo_proxy::Config::new(node_name(node))
        };
        let readiness = Readiness::default();
        let proxy = Proxy::new(config, client.clone()).with_readiness(&readiness);
        proxies.spawn(proxy.run(std::future::pending()));
        until("the proxy is ready", async || readiness.pending().is_empty()).await;
    }
    proxies
}

pub(crate) fn node_name(node: usize) -> String {
    format!("node{}", node + 1)
}

/// The features that a spec requires, said once more in an annotation for servers that do not know the field.
fn features(spec: &Value) -> Value {
    let Some(features) = spec.get(REQUIRED_FEATURES_FIELD).and_then(Value::as_array) else {
        return json!({});
    };
    let words: Vec<&str> = features.iter().filter_map(Value::as_str).collect();
    json!({FEATURES: words.join(",")})
}

/// The addresses of the load balancer with a port, IPv4 first.
pub(crate) fn reached_at(service: &Service, port: u16) -> Vec<SocketAddr> {
    let mut addresses: Vec<IpAddr> =
        service.ingress().iter().filter_map(|entry| entry.ip.as_ref()?.parse().ok()).collect();
    addresses.sort();
    addresses.into_iter().map(|address| (address, port).into()).collect()
}

pub(crate) fn says(service: &Service, kind: &str) -> Option<(String, String)> {
    let found = service.conditions().iter().find(|condition| condition.type_ == kind);
    found.map(|condition| (condition.status.clone(), condition.reason.clone()))
}

fn acknowledged(service: &Service) -> Option<i64> {
    let mut found = service.conditions().iter().filter(|found| found.type_ == "LoadBalancerProvisioning");
    found.next().map(|condition| condition.last_transition_time.0.as_second())
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}
