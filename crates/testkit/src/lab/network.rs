//! The wires: namespaces, addresses, routes.
//!
//! ```text
//!  client ──┐                     172.18.0.0/24, fd18::/64
//!  node 1 ──┼── the test's own namespace (a bridge)
//!  node 2 ──┘
//!    └─ pods, each at the end of its own wire: 10.1.NODE.POD, fd10::NODE:POD
//! ```

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::run;

/// A network namespace with a name.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
    v4: IpAddr,
    v6: IpAddr,
}

impl Namespace {
    /// The file by which others find it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn v4(&self) -> IpAddr {
        self.v4
    }

    pub fn v6(&self) -> IpAddr {
        self.v6
    }

    /// Its address of the same family as `other`.
    pub fn like(&self, other: IpAddr) -> IpAddr {
        if other.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// Runs a command line inside; words are separated by blanks.
    pub fn run(&self, command: &str) -> String {
        let words: Vec<&str> = ["netns", "exec", &self.name].into_iter().chain(command.split(' ')).collect();
        run("ip", &words)
    }

    /// Runs `work` inside, on a thread of its own: sockets it opens stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(self.path()).expect("a namespace that is there");
        let inside = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("to enter a namespace");
            work()
        };
        std::thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

/// A namespace that forwards for its pods.
#[derive(Clone, Debug)]
pub struct Node {
    pub place: Namespace,
    pub pods: Vec<Namespace>,
}

/// Nodes with pods, and a client that belongs to none of them.
#[derive(Debug)]
pub struct Lab {
    pub nodes: Vec<Node>,
    pub client: Namespace,
}

impl Lab {
    /// As many nodes as numbers, each with so many pods. Only inside [`super::isolated`].
    pub fn new(pods: &[usize]) -> Self {
        run("mount", &["-t", "tmpfs", "lab", "/run"]);
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["link", "add", "wire", "type", "bridge"]);
        run("ip", &["link", "set", "wire", "up"]);
        let nodes: Vec<Node> =
            pods.iter().enumerate().map(|(place, pods)| node(place as u8 + 1, *pods as u8)).collect();
        let client = attach("client", 100);
        for (place, node) in nodes.iter().enumerate() {
            let others = nodes.iter().map(|other| &other.place).filter(|other| other.name != node.place.name);
            for namespace in others.chain([&client]) {
                let number = place + 1;
                namespace.run(&format!("ip route add 10.1.{number}.0/24 via {}", node.place.v4));
                namespace.run(&format!("ip route add fd10::{number}:0/112 via {}", node.place.v6));
            }
        }
        Self { nodes, client }
    }

    /// Packets of the client to these addresses go to a node.
    pub fn route(&self, prefix: &str, node: usize) {
        let via = if prefix.contains(':') { self.nodes[node].place.v6 } else { self.nodes[node].place.v4 };
        self.client.run(&format!("ip route replace {prefix} via {via}"));
    }
}

fn node(number: u8, pods: u8) -> Node {
    let place = attach(&format!("node{number}"), number);
    for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        set(&place, setting, "1");
    }
    // Packets to services have to find some way before the rules see them.
    place.run("ip route add default dev eth0");
    place.run("ip -6 route add default dev eth0");
    let pods = (1..=pods).map(|pod| attach_pod(&place, number, pod)).collect();
    Node { place, pods }
}

/// Of every namespace, before it has any wire. Nobody else has these addresses: asking around for a second would lose the
/// first packets. Addresses of Services look misrouted to a node, but nobody should be redirected.
const SETTINGS: [(&str, &str); 8] = [
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.conf.all.send_redirects", "0"),
    ("net.ipv4.conf.default.send_redirects", "0"),
    ("net.ipv6.conf.default.accept_redirects", "0"),
    ("net.ipv6.conf.all.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.dad_transmits", "0"),
];

/// Writes a setting of a namespace's network.
fn set(namespace: &Namespace, setting: &str, value: &str) {
    let path = PathBuf::from("/proc/sys").join(setting.replace('.', "/"));
    namespace.within(|| std::fs::write(&path, value)).expect("a setting of the network");
}

fn make(name: &str, v4: IpAddr, v6: IpAddr) -> Namespace {
    run("ip", &["netns", "add", name]);
    let namespace = Namespace { name: name.to_owned(), v4, v6 };
    namespace.run("ip link set lo up");
    for (setting, value) in SETTINGS {
        set(&namespace, setting, value);
    }
    namespace
}

/// A namespace at the common wire.
fn attach(name: &str, number: u8) -> Namespace {
    let v6 = format!("fd18::{number}").parse().expect("an address");
    let namespace = make(name, [172, 18, 0, number].into(), v6);
    let wire = format!("w-{name}");
    run("ip", &["link", "add", &wire, "type", "veth", "peer", "name", "eth0", "netns", name]);
    run("ip", &["link", "set", &wire, "master", "wire", "up"]);
    namespace.run(&format!("ip addr add {}/24 dev eth0", namespace.v4));
    namespace.run(&format!("ip -6 addr add {}/64 dev eth0 nodad", namespace.v6));
    namespace.run("ip link set eth0 up");
    namespace
}

/// A pod at a wire of its own. The node's end has the node's address, so that what is masqueraded comes from there.
fn attach_pod(node: &Namespace, number: u8, pod: u8) -> Namespace {
    let name = format!("pod{number}-{pod}");
    let v6 = format!("fd10::{number}:{pod}").parse().expect("an address");
    let namespace = make(&name, [10, 1, number, pod].into(), v6);
    let wire = format!("v-{pod}");
    node.run(&format!("ip link add {wire} type veth peer name eth0 netns {name}"));
    node.run(&format!("ip addr add {}/32 dev {wire}", node.v4));
    node.run(&format!("ip -6 addr add {}/128 dev {wire} nodad", node.v6));
    node.run(&format!("ip link set {wire} up"));
    for (flag, pod, node) in [("-4", namespace.v4, node.v4), ("-6", namespace.v6, node.v6)] {
        let extra = if pod.is_ipv6() { " nodad" } else { "" };
        namespace.run(&format!("ip {flag} addr add {pod} dev eth0{extra}"));
        if flag == "-4" {
            namespace.run("ip link set eth0 up");
        }
        namespace.run(&format!("ip {flag} route add {node} dev eth0"));
        namespace.run(&format!("ip {flag} route add default via {node} dev eth0"));
    }
    node.run(&format!("ip route add {} dev {wire}", namespace.v4));
    node.run(&format!("ip -6 route add {} dev {wire}", namespace.v6));
    namespace
}
