//! Clients that stick: for as long as they should, to what is there.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tombolo_testkit::lab::{Echo, isolated};

use crate::world::{From, LB, NODE_PORT, PORT, TARGET, VIP, World, both, in_host, ready, service};

fn sticky(seconds: u32) -> Value {
    let config = json!({"clientIP": {"timeoutSeconds": seconds}});
    service(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}))
}

fn distinct(servers: Vec<String>) -> BTreeSet<String> {
    servers.into_iter().collect()
}

#[test]
fn a_client_stays_with_its_backend_until_it_rests() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        let all = [ready(0, 0), ready(0, 1), ready(1, 0)];
        world.set(&sticky(2), &all);
        let node = world.lab.nodes[0].place.clone();
        let mut first = BTreeSet::new();
        for (from, to, port) in [
            (From::Pod(0, 2), both(VIP)[0], PORT),
            (From::Pod(0, 2), both(VIP)[1], PORT),
            (From::Host(0), both(VIP)[0], PORT),
            (From::Client, node.v4(), NODE_PORT),
            (From::Client, node.v6(), NODE_PORT),
        ] {
            let servers = distinct(world.servers(from, to, port, 12));
            assert_eq!(servers.len(), 1, "{from:?} to {to}: {servers:?}");
            first.extend(servers);
        }
        assert!(world.proxies[0].kernel.count_affinity().unwrap() >= 4);
        wait(|| world.proxies[0].kernel.count_affinity().unwrap() == 0);
        // Each time it rests it is sent anywhere: 20 times to the same of three is no chance.
        let mut seen = BTreeSet::new();
        wait(|| {
            seen.extend(world.servers(From::Pod(0, 2), both(VIP)[0], PORT, 1));
            wait(|| world.proxies[0].kernel.count_affinity().unwrap() == 0);
            seen.len() > 1
        });
    });
}

#[test]
fn a_client_leaves_a_backend_that_is_gone_and_stays_when_others_go() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        let all = [ready(0, 0), ready(0, 1), ready(1, 0)];
        world.set(&sticky(600), &all);
        for address in both(VIP) {
            world.set(&sticky(600), &all);
            let home = distinct(world.servers(From::Pod(0, 2), address, PORT, 5)).pop_first().unwrap();
            let is_home = |node: usize, pod: usize| world.lab.nodes[node].pods[pod].name() == home;
            let (stay, go): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|endpoint| is_home(endpoint.node, endpoint.pod));
            let fewer = [stay[0], go[0]];
            world.set(&sticky(300), &fewer);
            assert_eq!(world.servers(From::Pod(0, 2), address, PORT, 5), [home.as_str(); 5]);
            world.set(&sticky(300), &go);
            let elsewhere = distinct(world.servers(From::Pod(0, 2), address, PORT, 5));
            assert!(elsewhere.len() == 1 && !elsewhere.contains(&home), "{elsewhere:?}, not {home}");
        }
    });
}

#[test]
fn after_a_restart_clients_stick_to_what_they_may_and_nothing_else() {
    isolated(|| {
        let mut world = World::new(&[3, 2]);
        let all = [ready(0, 0), ready(1, 0)];
        let mut local = sticky(600);
        local["spec"]["externalTrafficPolicy"] = json!("Local");
        for restarts in [true, false] {
            // Everybody lands on the other node.
            world.set(&sticky(600), &all[1..]);
            for address in both(LB) {
                for from in [From::Client, From::Pod(0, 2), From::Host(0)] {
                    assert_eq!(world.servers(from, address, PORT, 1), ["pod2-1"]);
                }
            }
            assert_eq!(world.proxies[0].kernel.count_affinity().unwrap(), 6);
            if restarts {
                world.restart(0, &local, &all);
                assert_eq!(world.proxies[0].kernel.count_affinity().unwrap(), 4, "all but those outside");
            } else {
                world.set(&local, &all);
            }
            for address in both(LB) {
                assert_eq!(world.servers(From::Client, address, PORT, 5), ["pod1-1"; 5]);
            }
            world.set(&sticky(600), &[]);
        }
    });
}

#[test]
fn a_client_stays_with_a_backend_in_the_network_of_the_node() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        let _echo = Echo::start(&world.lab.nodes[0].place, TARGET);
        world.set(&sticky(600), &[in_host(0)]);
        let clients = || {
            let outside = both(LB).map(|to| (From::Client, to));
            outside.into_iter().chain(both(VIP).map(|to| (From::Pod(0, 1), to)))
        };
        for (from, to) in clients() {
            assert_eq!(world.servers(from, to, PORT, 1), ["node1"]);
        }
        assert_eq!(world.proxies[0].kernel.count_affinity().unwrap(), 4);
        world.set(&sticky(600), &[in_host(0), ready(1, 0)]);
        for (from, to) in clients() {
            assert_eq!(world.servers(from, to, PORT, 8), ["node1"; 8], "{from:?} to {to}");
        }
    });
}

fn wait(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it did not happen");
        sleep(Duration::from_millis(20));
    }
}
