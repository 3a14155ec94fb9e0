//! Connections are spread evenly, wherever they begin; weights and hairpins work.

use std::collections::BTreeMap;

use serde_json::json;
use tombolo_testkit::lab::{Protocol as Transport, isolated};

use crate::world::{From, LB, NODE_PORT, PORT, VIP, World, both, ready, service};

/// With two degrees of freedom, chance exceeds this once in 20,000 times.
const CHI_SQUARE: f64 = 20.0;

fn chi_square(servers: &[String], kinds: usize) -> f64 {
    let mut counts: BTreeMap<&String, f64> = BTreeMap::new();
    servers.iter().for_each(|server| *counts.entry(server).or_default() += 1.0);
    assert_eq!(counts.len(), kinds, "{counts:?}");
    let expected = servers.len() as f64 / kinds as f64;
    counts.values().map(|count| (count - expected).powi(2) / expected).sum()
}

#[test]
fn connections_of_everybody_are_spread_evenly_over_nodes() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        world.set(&service(json!({})), &[ready(0, 0), ready(0, 1), ready(1, 0)]);
        for family in [0, 1] {
            for from in [From::Pod(0, 2), From::Pod(1, 1), From::Host(0), From::Client] {
                let servers = world.servers(from, both(VIP)[family], PORT, 300);
                let value = chi_square(&servers, 3);
                assert!(value < CHI_SQUARE, "{from:?}: {value}");
            }
            let servers = world.servers(From::Client, both(LB)[family], PORT, 300);
            assert!(chi_square(&servers, 3) < CHI_SQUARE);
        }
    });
}

#[test]
fn every_frontend_works_in_both_families_and_protocols() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        world.set(&service(json!({})), &[ready(0, 0), ready(1, 0)]);
        for protocol in [Transport::Tcp, Transport::Udp] {
            for family in [0, 1] {
                let node = world.lab.nodes[0].place.like(both(VIP)[family]);
                for from in [From::Pod(0, 2), From::Pod(0, 0), From::Host(0), From::Client] {
                    world.check(from, both(VIP)[family], PORT, protocol);
                    world.check(from, both(LB)[family], PORT, protocol);
                    world.check(from, node, NODE_PORT, protocol);
                }
                assert!(world.check(From::Pod(0, 2), both(VIP)[family], 81, protocol).contains("refused"));
            }
        }
        let printed = world.lab.nodes[0].place.run("nft list ruleset");
        assert!(printed.contains("10.96.0.10 . tcp . 80 : goto lb-2"), "{printed}");
    });
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        world.set(&service(json!({})), &[ready(0, 0)]);
        for address in both(VIP) {
            let expected = world.check(From::Pod(0, 0), address, PORT, Transport::Tcp);
            assert_eq!(expected.into_iter().collect::<Vec<_>>(), ["pod1-1 changed"]);
            let expected = world.check(From::Pod(0, 1), address, PORT, Transport::Tcp);
            assert_eq!(expected.into_iter().collect::<Vec<_>>(), ["pod1-1 kept"]);
        }
    });
}
