//! A server that runs: changes, start, end, and what it tells about itself.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tombolo_api::mcs::ServiceImport;
use tombolo_apiserver::Options;
use tombolo_dns::{Config, Dns, Network, Sockets};
use tombolo_testkit::Cluster;

use crate::script::Outcome;
use crate::wire;
use crate::world::{PATIENCE, World, config, create};

/// Asks over UDP; `None` if there is no reply in time.
pub(crate) fn ask(address: SocketAddr, name: &str, kind: &str) -> Option<Outcome> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&wire::query(name, kind), address).unwrap();
    let mut reply = [0; 2000];
    let (length, from) = socket.recv_from(&mut reply).ok()?;
    assert_eq!(from, address);
    Some(wire::outcome(&reply[..length]))
}

/// Waits until the status of a name is this.
pub(crate) async fn wait_for(
    address: SocketAddr,
    name: &'static str,
    kind: &'static str,
    expected: &str,
) -> Outcome {
    let asking = async {
        loop {
            let outcome = tokio::task::spawn_blocking(move || ask(address, name, kind)).await.unwrap();
            if let Some(outcome) = outcome.filter(|outcome| outcome.status == expected) {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{name} never became {expected}"))
}

fn imports(client: &Client) -> Api<ServiceImport> {
    Api::namespaced(client.clone(), "shop")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_comes_changes_and_goes_does_so_in_answers() {
    let world = World::new().await;
    let (client, address) = (world.cluster.client(), world.address);
    let name = "late.shop.svc.clusterset.local";
    wait_for(address, name, "A", "NXDOMAIN").await;
    let spec = json!({"type": "ClusterSetIP", "ips": ["10.96.7.7"], "ports": []});
    create(
        &client,
        json!({"kind": "ServiceImport", "metadata": {"namespace": "shop", "name": "late"}, "spec": spec}),
    )
    .await;
    let outcome = wait_for(address, name, "A", "NOERROR").await;
    assert_eq!(outcome.answer, [format!("{name}. 5 A 10.96.7.7")].into());
    let change = json!({"spec": {"ips": ["fd00::7"]}});
    imports(&client).patch("late", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    wait_for(address, name, "A", "NODATA").await;
    wait_for(address, name, "AAAA", "NOERROR").await;
    imports(&client).delete("late", &DeleteParams::default()).await.unwrap();
    wait_for(address, name, "A", "NXDOMAIN").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_namespace_all_its_names_go() {
    let world = World::new().await;
    let (client, address) = (world.cluster.client(), world.address);
    let quiet: Namespace = serde_json::from_value(json!({"metadata": {"name": "quiet"}})).unwrap();
    wait_for(address, "quiet.svc.clusterset.local", "A", "NODATA").await;
    Api::<Namespace>::all(client.clone()).delete("quiet", &DeleteParams::default()).await.unwrap();
    // The stand-in that empties namespaces does not run here: finish its work.
    let finalize = serde_json::to_vec(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": quiet.metadata, "spec": {"finalizers": []}}),
    );
    let request = http::Request::put("/api/v1/namespaces/quiet/finalize")
        .header("content-type", "application/json")
        .body(finalize.unwrap())
        .unwrap();
    let _ = client.request_text(request).await;
    wait_for(address, "quiet.svc.clusterset.local", "A", "NXDOMAIN").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_never_been_listed_is_not_denied() {
    // No CRDs: imports cannot be listed.
    let cluster = Cluster::pristine(Options::named("bare"));
    let dns = Dns::bind(config(), cluster.client()).unwrap();
    let address = dns.addresses()[0];
    let running = tokio::spawn(dns.run(std::future::pending()));
    wait_for(address, "web.shop.svc.clusterset.local", "A", "SERVFAIL").await;
    wait_for(address, "clusterset.local", "A", "NODATA").await;
    // The cluster's own zone needs no CRDs.
    wait_for(address, "web.shop.svc.cluster.local", "A", "NXDOMAIN").await;
    cluster.define(&tombolo_api::crd::crds()).await;
    wait_for(address, "web.shop.svc.clusterset.local", "A", "NXDOMAIN").await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_ends_and_leaves_its_port() {
    let cluster = Cluster::new(Options::named("x"));
    let dns = Dns::bind(config(), cluster.client()).unwrap();
    let address = dns.addresses()[0];
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(dns.run(async { drop(stopped.await) }));
    wait_for(address, "clusterset.local", "A", "NODATA").await;
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, running).await.expect("it ends").unwrap().unwrap();
    let again = Config { listen: vec![address], ..config() };
    Dns::bind(again, cluster.client()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_the_names_that_dashboards_know() {
    let world = World::new().await;
    wait_for(world.address, "web.shop.svc.clusterset.local", "A", "NOERROR").await;
    wait_for(world.address, "nothing.shop.svc.clusterset.local", "A", "NXDOMAIN").await;
    let mut registry = Registry::default();
    world.metrics.register(&mut registry);
    let lines = [
        "coredns_dns_requests_total{server=\"dns://\",zone=\"clusterset.local.\",proto=\"udp\",family=\"1\",type=\"A\"} 2",
        "coredns_dns_responses_total{server=\"dns://\",zone=\"clusterset.local.\",rcode=\"NOERROR\"} 1",
        "coredns_dns_responses_total{server=\"dns://\",zone=\"clusterset.local.\",rcode=\"NXDOMAIN\"} 1",
        "coredns_dns_request_duration_seconds_count{server=\"dns://\",zone=\"clusterset.local.\",proto=\"udp\"} 2",
        "coredns_dns_response_size_bytes_count{server=\"dns://\",zone=\"clusterset.local.\",proto=\"udp\"} 2",
        "tombolo_dns_services{realm=\"mcs\"} 5.0",
        "tombolo_dns_complete{realm=\"kep\"} 1.0",
        "tombolo_dns_update_seconds_count",
        "tombolo_dns_snapshot_age_seconds",
    ];
    // A query is counted after it is answered.
    let begin = Instant::now();
    loop {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let Some(missing) = lines.iter().find(|line| !text.contains(**line)) else { return };
        assert!(begin.elapsed() < PATIENCE, "{missing} is not in\n{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A process that does nothing in a network namespace of its own.
struct Elsewhere(std::process::Child);

impl Elsewhere {
    fn new() -> Self {
        let script = "ip link set lo up || exit 1; echo up; exec sleep 600";
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare of util-linux is needed");
        let mut said = [0; 3];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .expect("the test needs root, to make a network namespace");
        Self(child)
    }

    fn network(&self) -> std::path::PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_process_live_in_different_network_namespaces_on_one_address() {
    let (cluster, elsewhere) = (Cluster::new(Options::named("x")), Elsewhere::new());
    let here = Dns::bind(config(), cluster.client()).unwrap();
    let address = here.addresses()[0];
    let there = Config { listen: vec![address], network: Some(elsewhere.network()), ..config() };
    let network = Network::at(&elsewhere.network()).unwrap();
    let there = Dns::bind(there, cluster.client()).unwrap();
    assert_eq!(there.addresses(), [address]);
    let running = tokio::spawn(there.run(std::future::pending()));
    // Nobody answers here until `here` runs; there somebody does.
    let socket = network.open(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let reply = tokio::task::spawn_blocking(move || {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&wire::query("clusterset.local", "A"), address).unwrap();
        let mut reply = [0; 2000];
        let length = socket.recv(&mut reply).unwrap();
        wire::outcome(&reply[..length])
    });
    assert_eq!(reply.await.unwrap().status, "NODATA");
    running.abort();
    // Ready-made sockets do as well.
    let sockets = Sockets::open(&network, &["0.0.0.0:0".parse().unwrap()], 1).unwrap();
    assert!(Dns::with_sockets(config(), cluster.client(), sockets).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_all_addresses_replies_come_from_the_one_that_was_asked() {
    let any = Config { listen: vec!["0.0.0.0:0".parse().unwrap(), "[::]:0".parse().unwrap()], ..config() };
    let cluster = Cluster::new(Options::named("x"));
    let dns = Dns::bind(any, cluster.client()).unwrap();
    let ports: Vec<u16> = dns.addresses().iter().map(SocketAddr::port).collect();
    let running = tokio::spawn(dns.run(std::future::pending()));
    let last: IpAddr = "127.9.9.9".parse().unwrap();
    for address in [SocketAddr::from((last, ports[0])), SocketAddr::from(([127, 0, 0, 1], ports[0]))] {
        wait_for(address, "clusterset.local", "A", "NODATA").await;
    }
    let asking = tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, ports[1]));
        socket.send_to(&wire::query("clusterset.local", "A"), address).unwrap();
        let (_, from) = socket.recv_from(&mut [0; 2000]).unwrap();
        assert_eq!(from, address);
    });
    asking.await.unwrap();
    running.abort();
}

/// A stream that waits as long as anything may take.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn send(stream: &mut TcpStream, message: &[u8]) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], message].concat()).unwrap();
}

pub(crate) fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply).unwrap();
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_on_one_connection_may_follow_each_other_in_pieces() {
    let world = World::new().await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let mut stream = connect(address);
        let names =
            ["web.shop.svc.clusterset.local", "nothing.shop.svc.clusterset.local", "clusterset.local"];
        let mut all = Vec::new();
        for name in names {
            let message = wire::query(name, "A");
            all.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
            all.extend_from_slice(&message);
        }
        for piece in all.chunks(7) {
            stream.write_all(piece).unwrap();
        }
        let statuses: Vec<String> =
            names.iter().map(|_| wire::outcome(&receive(&mut stream)).status).collect();
        assert_eq!(statuses, ["NOERROR", "NXDOMAIN", "NODATA"]);
    });
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_does_not_wait_for_the_rest_of_the_next_query() {
    let world = World::new().await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let mut stream = connect(address);
        let message = wire::query("web.shop.svc.clusterset.local", "A");
        let framed = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        stream.write_all(&[&framed[..], &framed[..5]].concat()).unwrap();
        assert_eq!(wire::outcome(&receive(&mut stream)).status, "NOERROR");
        stream.write_all(&framed[5..]).unwrap();
        assert_eq!(wire::outcome(&receive(&mut stream)).status, "NOERROR");
    });
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: cargo test -p tombolo-dns --test scenarios -- --ignored --nocapture how_soon"]
#[allow(clippy::print_stdout, reason = "the figures are for the person who asked")]
async fn how_soon_a_change_is_answered() {
    let world = World::new().await;
    let api = imports(&world.cluster.client());
    let (message, mut delays) = (wire::query("web.shop.svc.clusterset.local", "A"), Vec::new());
    let (mut scratch, mut out) = (tombolo_dns::Scratch::new(1), vec![0; 1232]);
    for turn in 0..500_u16 {
        let ip = format!("10.96.{}.{}", turn / 250 + 100, turn % 250);
        let expected = format!("web.shop.svc.clusterset.local. 5 A {ip}");
        let change = json!({"spec": {"ips": [ip]}});
        api.patch("web", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        let begin = std::time::Instant::now();
        loop {
            let from = IpAddr::from([127, 0, 0, 1]);
            let verdict =
                world.answerer.answer(&mut scratch, &message, from, tombolo_dns::Transport::Udp, &mut out);
            let tombolo_dns::Verdict::Reply(facts) = verdict else { panic!("{verdict:?}") };
            if wire::outcome(&out[..facts.size]).answer.contains(&expected) {
                break;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        delays.push(begin.elapsed());
    }
    delays.sort_unstable();
    println!(
        "from the API server's answer to a write until DNS answers by it: p50 {:?}, p99 {:?}",
        delays[250], delays[495]
    );
}
