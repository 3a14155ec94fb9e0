//! One Service with very many endpoints: loaded, used, changed one at a time.

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tombolo_model::routing::{self, Input};
use tombolo_nft::CommitError;
use tombolo_proxy::plan::Update;
use tombolo_runtime::Key;
use tombolo_testkit::lab::isolated;

use crate::world::{From, PORT, TARGET, VIP, World, both};

/// As many as a slice holds.
const PER_SLICE: u32 = 1000;
const ENDPOINTS: u32 = 100_000;

fn slice(number: u32, endpoints: u32) -> EndpointSlice {
    let address = |place: u32| Ipv4Addr::from(0x0a80_0000 + number * PER_SLICE + place).to_string();
    let endpoints: Vec<Value> = (0..endpoints).map(|place| json!({"addresses": [address(place)]})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": format!("many-{number}"), "namespace": "default"},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "tcp", "protocol": "TCP", "port": TARGET}],
    }))
    .unwrap()
}

fn update(world: &World, endpoints: u32) -> Update {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "many", "namespace": "default"},
        "spec": {
            "type": "ClusterIP", "clusterIP": VIP[0], "clusterIPs": [VIP[0]], "ipFamilies": ["IPv4"],
            "ports": [{"name": "tcp", "protocol": "TCP", "port": PORT, "targetPort": TARGET}],
        },
    }))
    .unwrap();
    let slices: Vec<EndpointSlice> = (0..endpoints.div_ceil(PER_SLICE))
        .map(|number| slice(number, (endpoints - number * PER_SLICE).min(PER_SLICE)))
        .collect();
    let node = world.node(0);
    let input = Input { service: &service, slices: slices.iter().collect(), node: &node, imported: None };
    let (routes, complaints) = routing::route(&input);
    assert!(complaints.is_empty(), "{complaints:?}");
    Update { service: Key::of(&service), routes, serving: Default::default() }
}

/// All addresses of the endpoints lead to one pod, which takes them for its own.
fn gather(world: &World) {
    let node = &world.lab.nodes[0];
    node.pods[0].run("ip route add local 10.128.0.0/9 dev lo");
    node.place.run(&format!("ip route add 10.128.0.0/9 via {} dev v-1 onlink", node.pods[0].v4()));
}

#[test]
fn a_set_that_is_full_is_made_anew_with_room_for_more() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        gather(&world);
        let first = update(&world, 1_100);
        let proxy = &mut world.proxies[0];
        proxy.plan.load([first]);
        assert!(proxy.kernel.renew(&proxy.plan).unwrap().anew);
        assert!(
            world.lab.nodes[0].place.run("nft list map ip tombolo-proxy endpoints").contains("size 2200")
        );
        for endpoints in [2_200, 2_201] {
            let update = update(&world, endpoints);
            let proxy = &mut world.proxies[0];
            let changes = proxy.plan.update([update]).changes;
            match proxy.kernel.apply(&changes) {
                Ok(_) => assert_eq!(endpoints, 2_200),
                Err(error) => {
                    assert!(error.is_full() && endpoints > 2_200, "{error}");
                    proxy.kernel.renew(&proxy.plan).unwrap();
                }
            }
            assert!(proxy.kernel.is_undisturbed().unwrap());
            assert_eq!(world.servers(From::Pod(0, 1), both(VIP)[0], PORT, 5), ["pod1-1"; 5]);
        }
    });
}

/// Root of the machine may send the kernel as much as it likes; root of a user namespace may not.
fn is_root_of_the_host() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[test]
fn a_hundred_thousand_endpoints_of_one_service_are_loaded_used_and_changed() {
    isolated(|| {
        let mut world = World::new(&[2, 1]);
        gather(&world);
        let changes = {
            let update = update(&world, ENDPOINTS);
            world.proxies[0].plan.update([update]).changes
        };
        match world.proxies[0].kernel.apply(&changes) {
            Ok(written) => assert_eq!(written.elements, ENDPOINTS as usize + 2),
            Err(CommitError::TooLarge(_)) if !is_root_of_the_host() => return,
            Err(error) => panic!("{error}"),
        }
        let vip: IpAddr = both(VIP)[0];
        assert_eq!(world.servers(From::Pod(0, 1), vip, PORT, 20), ["pod1-1"; 20]);
        for (endpoints, elements) in [(ENDPOINTS - 1, 2), (ENDPOINTS, 2), (1, ENDPOINTS as usize)] {
            let update = update(&world, endpoints);
            let changes = world.proxies[0].plan.update([update]).changes;
            let written = world.proxies[0].kernel.apply(&changes).unwrap();
            assert_eq!(written.elements, elements, "{endpoints}");
            assert_eq!(world.servers(From::Pod(0, 1), vip, PORT, 5), ["pod1-1"; 5]);
        }
    });
}
