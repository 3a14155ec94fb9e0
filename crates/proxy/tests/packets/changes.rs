//! What changes while clients are there: UDP servers, foreign hands in the tables, the end of the proxy.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde_json::json;
use tombolo_nft::Forgotten;
use tombolo_proxy::kernel::clean_up;
use tombolo_testkit::lab::{Namespace, isolated};

use crate::world::{From, LB, NODE_PORT, PORT, VIP, World, both, ready, service, terminating};

fn socket(place: &Namespace, to: SocketAddr) -> UdpSocket {
    place.within(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.connect(to).unwrap();
        socket
    })
}

fn server(socket: &UdpSocket) -> String {
    socket.send(b"?").unwrap();
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).split(' ').next().unwrap().to_owned()
}

#[test]
fn a_live_udp_socket_follows_when_its_server_is_replaced() {
    isolated(|| {
        let mut world = World::new(&[3, 1]);
        for address in both(VIP) {
            world.set(&service(json!({})), &[ready(0, 0)]);
            let socket = socket(&world.lab.nodes[0].pods[2], (address, PORT).into());
            assert_eq!([server(&socket), server(&socket)], ["pod1-1", "pod1-1"]);
            world.set(&service(json!({})), &[ready(1, 0)]);
            assert_eq!([server(&socket), server(&socket)], ["pod2-1", "pod2-1"]);
        }
    });
}

#[test]
fn a_udp_socket_that_was_there_before_its_service_is_served() {
    isolated(|| {
        let mut world = World::new(&[3, 1]);
        let sockets = both(LB).map(|address| socket(&world.lab.nodes[0].pods[2], (address, PORT).into()));
        for socket in &sockets {
            // It leads nowhere, which the kernel remembers.
            socket.send(b"?").unwrap();
        }
        world.set(&service(json!({})), &[ready(0, 0)]);
        assert_eq!(sockets.map(|socket| server(&socket)), ["pod1-1", "pod1-1"]);
    });
}

#[test]
fn a_live_udp_socket_follows_a_server_that_went_while_no_proxy_ran() {
    isolated(|| {
        let mut world = World::new(&[3, 1]);
        world.set(&service(json!({})), &[ready(0, 0)]);
        let node = world.lab.nodes[0].place.clone();
        let inside = both(VIP).map(|to| socket(&world.lab.nodes[0].pods[2], (to, PORT).into()));
        let outside = [node.v4(), node.v6()].map(|to| socket(&world.lab.client, (to, NODE_PORT).into()));
        let all = || inside.iter().chain(&outside);
        all().for_each(|socket| assert_eq!(server(socket), "pod1-1"));
        // It serves while it ends.
        let leaving = [terminating(0, 0), ready(1, 0)];
        assert_eq!(world.restart(0, &service(json!({})), &leaving), Forgotten::default());
        all().for_each(|socket| assert_eq!(server(socket), "pod1-1"));
        let forgotten = world.restart(0, &service(json!({})), &[ready(1, 0)]);
        assert_eq!(forgotten, Forgotten { v4: 2, v6: 2 });
        all().for_each(|socket| assert_eq!(server(socket), "pod2-1"));
    });
}

#[test]
fn a_live_udp_socket_leaves_a_server_that_lingered_and_went() {
    isolated(|| {
        let mut world = World::new(&[3, 1]);
        world.set(&service(json!({})), &[ready(0, 0)]);
        let sockets = both(VIP).map(|to| socket(&world.lab.nodes[0].pods[2], (to, PORT).into()));
        for (endpoints, expected) in [
            (&[ready(0, 0)][..], "pod1-1"),
            (&[terminating(0, 0), ready(1, 0)], "pod1-1"),
            (&[ready(1, 0)], "pod2-1"),
        ] {
            world.set(&service(json!({})), endpoints);
            sockets.iter().for_each(|socket| assert_eq!(server(socket), expected));
        }
    });
}

#[test]
fn what_others_do_to_the_tables_is_noticed_and_mended() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        world.set(&service(json!({})), &[ready(0, 0)]);
        // What changes nothing writes nothing.
        world.set(&service(json!({})), &[ready(0, 0)]);
        let place = world.lab.nodes[0].place.clone();
        for deed in [
            "nft delete element ip tombolo-proxy services { 10.96.0.10 . tcp . 80 }",
            "nft add element ip tombolo-proxy cluster-ips { 10.96.0.99 }",
            "nft flush chain ip tombolo-proxy services",
            "nft flush chain ip tombolo-proxy lb-1",
            "nft delete table ip6 tombolo-proxy",
            // As a proxy leaves it that ends while it makes the tables anew.
            "nft add table ip tombolo-proxy-stand-in",
            "nft flush ruleset",
        ] {
            let before = place.run("nft list ruleset");
            let proxy = &mut world.proxies[0];
            assert!(proxy.kernel.is_undisturbed().unwrap(), "before {deed}");
            place.run(deed);
            assert!(!proxy.kernel.is_undisturbed().unwrap(), "{deed}");
            proxy.kernel.adopt(&proxy.plan).unwrap();
            assert!(proxy.kernel.is_undisturbed().unwrap());
            for address in both(VIP) {
                assert_eq!(world.servers(From::Pod(0, 1), address, PORT, 2), ["pod1-1"; 2], "{deed}");
            }
            assert_eq!(sorted(&place.run("nft list ruleset")), sorted(&before), "{deed}");
        }
    });
}

/// Elements and chains come in any order; counters count.
fn sorted(ruleset: &str) -> Vec<String> {
    let words = ruleset.replace(',', " ");
    let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn the_end_leaves_no_trace_and_what_belongs_to_others() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        let place = world.lab.nodes[0].place.clone();
        place.run("nft add table ip other");
        world.set(&service(json!({})), &[ready(0, 0)]);
        world.check(From::Pod(0, 1), both(VIP)[0], PORT, tombolo_testkit::lab::Protocol::Tcp);
        assert!(clean_up(Some(&place.path())).unwrap());
        assert_eq!(place.run("nft list ruleset"), "table ip other {\n}\n");
        assert!(!clean_up(Some(&place.path())).unwrap());
    });
}
