//! Clients that stick: for as long as they should, to what is there.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tombolo_testkit::lab::isolated;

use crate::world::{From, NODE_PORT, PORT, VIP, World, both, ready, service};

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

fn wait(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it did not happen");
        sleep(Duration::from_millis(20));
    }
}
