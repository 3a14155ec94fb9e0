//! Every row of the table of traffic policies, asked from everywhere; refusals; source ranges.

use std::collections::BTreeSet;

use serde_json::json;
use tombolo_testkit::lab::{Echo, Protocol as Transport, isolated};

use crate::world::{Endpoint, From, LB, NODE_PORT, PORT, VIP, World, both, ready, service, terminating};

/// What somebody should see: the servers, and whether they see who asks.
fn expect(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

struct Row {
    internal: &'static str,
    external: &'static str,
    endpoints: Vec<Endpoint>,
    /// A pod of node 1 to the cluster IP.
    inside: &'static [&'static str],
    /// A client to the balancer's address and the node port of node 1.
    outside: &'static [&'static str],
    /// A pod of node 1 to the balancer's address.
    short_cut: &'static [&'static str],
}

fn rows() -> Vec<Row> {
    let row = |internal, external, endpoints: &[Endpoint], inside, outside, short_cut| Row {
        internal,
        external,
        endpoints: endpoints.to_vec(),
        inside,
        outside,
        short_cut,
    };
    let (all, far) = ([ready(0, 0), ready(1, 0)], [ready(1, 0)]);
    let leaving = [terminating(0, 0), ready(1, 0)];
    let (kept, changed) = (&["pod1-1 kept", "pod2-1 kept"], &["pod1-1 changed", "pod2-1 changed"]);
    vec![
        row("Cluster", "Cluster", &all, kept, changed, changed),
        row("Cluster", "Local", &all, kept, &["pod1-1 kept"], kept),
        row("Cluster", "Local", &far, &["pod2-1 kept"], &["dropped"], &["pod2-1 kept"]),
        row("Local", "Cluster", &all, &["pod1-1 kept"], changed, changed),
        row("Local", "Cluster", &far, &["dropped"], &["pod2-1 changed"], &["pod2-1 changed"]),
        row("Local", "Local", &all, &["pod1-1 kept"], &["pod1-1 kept"], kept),
        row("Local", "Local", &far, &["dropped"], &["dropped"], &["pod2-1 kept"]),
        row("Local", "Local", &[], &["refused"], &["refused"], &["refused"]),
        row("Cluster", "Cluster", &[], &["refused"], &["refused"], &["refused"]),
        row("Local", "Local", &leaving, &["pod1-1 kept"], &["pod1-1 kept"], &["pod2-1 kept"]),
        row(
            "Cluster",
            "Cluster",
            &[terminating(1, 0)],
            &["pod2-1 kept"],
            &["pod2-1 changed"],
            &["pod2-1 changed"],
        ),
    ]
}

#[test]
fn every_row_of_the_traffic_policies_holds_for_packets() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        for row in rows() {
            let service = service(json!({
                "internalTrafficPolicy": row.internal, "externalTrafficPolicy": row.external,
                "healthCheckNodePort": 32000,
            }));
            world.set(&service, &row.endpoints);
            let told = format!("{} {} {}", row.internal, row.external, row.endpoints.len());
            for family in [0, 1] {
                let (vip, lb) = (both(VIP)[family], both(LB)[family]);
                let node = world.lab.nodes[0].place.like(vip);
                let check = |from, to, port| world.check(from, to, port, Transport::Tcp);
                assert_eq!(check(From::Pod(0, 1), vip, PORT), expect(row.inside), "{told}: inside");
                assert_eq!(check(From::Client, lb, PORT), expect(row.outside), "{told}: outside");
                assert_eq!(check(From::Client, node, NODE_PORT), expect(row.outside), "{told}: node port");
                assert_eq!(check(From::Pod(0, 1), lb, PORT), expect(row.short_cut), "{told}: short cut");
                check(From::Host(0), lb, PORT);
                check(From::Host(0), vip, PORT);
            }
        }
    });
}

#[test]
fn refused_packets_are_counted_by_frontend() {
    isolated(|| {
        let mut world = World::new(&[1, 1]);
        world.set(&service(json!({"internalTrafficPolicy": "Local"})), &[ready(1, 0)]);
        world.check(From::Pod(0, 0), both(VIP)[0], PORT, Transport::Udp);
        let counts = world.proxies[0].kernel.refused().unwrap();
        assert_eq!(counts.values().sum::<u64>(), 1, "{counts:?}");
        // Another element changes; what was counted stays.
        world.set(&service(json!({"internalTrafficPolicy": "Local"})), &[ready(1, 0), ready(1, 0)]);
        assert_eq!(world.proxies[0].kernel.refused().unwrap().values().sum::<u64>(), 1);
    });
}

#[test]
fn who_is_kept_out_by_source_ranges_is_counted() {
    isolated(|| {
        let mut world = World::new(&[1, 1]);
        world.set(&service(json!({"loadBalancerSourceRanges": ["10.9.0.0/16"]})), &[ready(0, 0)]);
        for (family, address) in both(LB).into_iter().enumerate() {
            let expected = world.check(From::Client, address, PORT, Transport::Udp);
            assert_eq!(expected, expect(&["dropped"]));
            let counts = world.proxies[0].kernel.refused().unwrap();
            let kept_out = counts.iter().filter(|((_, set, _), _)| *set == "guarded");
            assert_eq!(kept_out.map(|(_, packets)| packets).sum::<u64>(), family as u64 + 1, "{counts:?}");
        }
        // Whoever is let in is not counted.
        world.check(From::Client, both(VIP)[0], PORT, Transport::Udp);
        assert_eq!(world.proxies[0].kernel.refused().unwrap().values().sum::<u64>(), 2);
    });
}

#[test]
fn addresses_of_the_service_range_that_nobody_has_lead_nowhere() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        world.set(&service(json!({})), &[ready(0, 0)]);
        for unused in ["10.96.0.99", "fd96::99"] {
            let unused = unused.parse().unwrap();
            for from in [From::Pod(0, 1), From::Client, From::Host(0)] {
                assert_eq!(world.check(from, unused, PORT, Transport::Tcp), expect(&["dropped"]), "{from:?}");
            }
        }
        // A port that a Service lacks is another matter: its address is in use.
        for address in both(VIP) {
            assert_eq!(world.check(From::Pod(0, 1), address, 81, Transport::Tcp), expect(&["refused"]));
        }
    });
}

#[test]
fn source_ranges_let_in_only_whom_they_name_in_each_family() {
    isolated(|| {
        let mut world = World::new(&[1, 1]);
        let set = |world: &mut World, ranges: &[&str]| {
            let service = service(json!({"loadBalancerSourceRanges": ranges}));
            world.set(&service, &[ready(0, 0)]);
        };
        let fate = |world: &World, family: usize| {
            let expected = world.check(From::Client, both(LB)[family], PORT, Transport::Tcp);
            world.check(From::Client, both(VIP)[family], PORT, Transport::Tcp);
            expected.contains("dropped")
        };
        set(&mut world, &["172.18.0.100/32", "172.18.0.0/24", "10.9.0.0/16", "fd18::/64"]);
        assert_eq!([fate(&world, 0), fate(&world, 1)], [false, false]);
        set(&mut world, &["172.18.0.0/27"]);
        assert_eq!([fate(&world, 0), fate(&world, 1)], [true, true], "ranges of one family close the other");
        set(&mut world, &["fd18::100/128", "10.0.0.0/8"]);
        assert_eq!([fate(&world, 0), fate(&world, 1)], [true, false]);
        let node = world.lab.nodes[0].place.v4();
        let expected = world.check(From::Client, node, NODE_PORT, Transport::Tcp);
        assert_eq!(expected, expect(&["pod1-1 changed"]), "ranges do not guard node ports");
    });
}

#[test]
fn an_address_of_the_node_may_be_an_external_address_too() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        let place = world.lab.nodes[0].place.clone();
        let addresses = [place.v4(), place.v6()];
        world.set(&service(json!({"externalIPs": addresses})), &[ready(1, 0)]);
        for address in addresses {
            for port in [PORT, NODE_PORT] {
                // Unless it is masqueraded here, the answer comes from the other node, which nobody asked.
                let seen = world.check(From::Client, address, port, Transport::Tcp);
                assert_eq!(seen, expect(&["pod2-1 changed"]));
                world.check(From::Pod(0, 1), address, port, Transport::Tcp);
                world.check(From::Host(0), address, port, Transport::Tcp);
            }
        }
    });
}

#[test]
fn a_node_port_that_refuses_leaves_loopback_alone() {
    isolated(|| {
        let mut world = World::new(&[1, 1]);
        world.set(&service(json!({})), &[]);
        let place = world.lab.nodes[0].place.clone();
        let _echo = Echo::start(&place, NODE_PORT);
        for address in ["127.0.0.1", "::1"] {
            let own = world.servers(From::Host(0), address.parse().unwrap(), NODE_PORT, 1);
            assert_eq!(own, ["node1"], "{address}");
        }
        let seen = world.check(From::Client, place.v4(), NODE_PORT, Transport::Tcp);
        assert_eq!(seen, expect(&["refused"]));
    });
}
