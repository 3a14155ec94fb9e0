//! Services in the table, and objects to services.

use std::sync::atomic::AtomicBool;
use std::thread;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, from_value, json};
use tombolo_api::mcs;

use super::*;

fn vip(text: &str) -> Service {
    Service::Address { v4: Some(text.parse().unwrap()), v6: None, ports: Ports::default() }
}

fn is_there(zones: &Zones, key: &[u8]) -> bool {
    zones.with(Realm::Mcs, key, |service| service.is_some())
}

#[test]
fn a_service_comes_changes_and_goes_with_its_address_and_its_records() {
    let zones = Zones::new();
    let place = key("shop", "Web").unwrap();
    let [first, second]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    zones.put(Realm::Mcs, &place, Some(vip("10.0.0.1")));
    assert!(is_there(&zones, b"\x03web\x04shop"));
    assert_eq!((zones.records(Realm::Mcs), zones.records(Realm::Kep)), (1, 0));
    assert_eq!(zones.reverse().owners(first).len(), 1);
    zones.put(Realm::Mcs, &place, Some(vip("10.0.0.2")));
    assert!(zones.reverse().owners(first).is_empty() && zones.reverse().owners(second).len() == 1);
    assert_eq!((zones.records(Realm::Mcs), zones.services(Realm::Mcs)), (1, 1));
    zones.put(Realm::Mcs, &place, None);
    zones.put(Realm::Mcs, &place, None);
    assert!(!is_there(&zones, &place) && zones.reverse().owners(second).is_empty());
    assert_eq!((zones.records(Realm::Mcs), zones.services(Realm::Mcs)), (0, 0));
}

#[test]
fn a_serial_never_stands_still_and_follows_the_clock() {
    let zones = Zones::new();
    let serial = |seconds| {
        zones.advance(seconds);
        zones.serial()
    };
    assert_eq!([serial(100), serial(100), serial(100), serial(99), serial(200)], [100, 101, 102, 103, 200]);
}

#[test]
fn a_name_that_cannot_be_is_none() {
    for (namespace, name) in [("", "a"), ("a", ""), ("a", "b.c"), ("a", &"x".repeat(64))] {
        assert_eq!(key(namespace, name), None, "{namespace} {name}");
    }
}

/// Endpoints `10.0.<set>.0`, `10.0.<set>.1`, …
fn headless(set: u8, count: u8) -> Service {
    let endpoints: Vec<Value> = (0..count)
        .map(|i| json!({"addresses": [format!("10.0.{set}.{i}")], "hostname": format!("h{i}")}))
        .collect();
    let labels = json!({mcs::SERVICE_NAME_LABEL: "db", mcs::SOURCE_CLUSTER_LABEL: "east"});
    let slice = json!({"metadata": {"labels": labels}, "addressType": "IPv4", "endpoints": endpoints});
    let slice: EndpointSlice = from_value(slice).unwrap();
    let import = json!({"metadata": {}, "spec": {"type": "Headless", "ports": []}});
    let read = Reader::default().mcs(&from_value(import).unwrap(), &[Arc::new(slice)], 200);
    read.service.unwrap()
}

#[test]
fn readers_see_whole_sets_while_they_change() {
    let zones = Zones::new();
    let place = key("shop", "db").unwrap();
    zones.put(Realm::Mcs, &place, Some(headless(0, 50)));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0_usize;
                    while !done.load(Ordering::Relaxed) || seen == 0 {
                        zones.with(Realm::Mcs, &place, |service| {
                            let Some(Service::Endpoints(endpoints)) = service else {
                                panic!("it is always there")
                            };
                            let sets: std::collections::BTreeSet<u8> =
                                endpoints.addresses.v4.iter().map(|ip| ip.octets()[2]).collect();
                            assert_eq!((sets.len(), endpoints.hosts.len()), (1, 50));
                            seen += 1;
                        });
                    }
                    seen
                })
            })
            .collect();
        for set in 0..200 {
            zones.put(Realm::Mcs, &place, Some(headless(set, 50)));
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 0));
    });
    assert_eq!(zones.reverse().owners("10.0.199.7".parse().unwrap()).len(), 1);
    assert!(zones.reverse().owners("10.0.198.7".parse().unwrap()).is_empty());
}

#[test]
fn a_host_whose_name_does_not_fit_is_left_out_and_counted() {
    let labels = json!({mcs::SOURCE_CLUSTER_LABEL: "e".repeat(63)});
    let endpoints =
        json!([{"addresses": ["10.0.0.1"], "hostname": "h".repeat(63)}, {"addresses": ["10.0.0.2"]}]);
    let slice: EndpointSlice =
        from_value(json!({"metadata": {"labels": labels}, "addressType": "IPv4", "endpoints": endpoints}))
            .unwrap();
    let import: mcs::ServiceImport =
        from_value(json!({"metadata": {}, "spec": {"type": "Headless", "ports": []}})).unwrap();
    let read = Reader::default().mcs(&import, &[Arc::new(slice)], 100);
    assert_eq!(read.unfit, 1);
    let Some(Service::Endpoints(endpoints)) = read.service else { panic!() };
    assert_eq!(endpoints.addresses.iter().collect::<Vec<_>>(), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
    assert_eq!(room(&key("ns", "svc").unwrap(), 18), 255 - 7 - 4 - 18);
}

#[test]
fn nonsense_in_objects_is_left_out() {
    let import = json!({"metadata": {}, "spec": {"type": "ClusterSetIP", "ips": ["x", "10.0.0.1", "10.0.0.2"], "ports": [
        {"name": "p".repeat(80), "port": 80}, {"port": 0}, {"port": 70000}, {"name": "ok", "protocol": "QUIC", "port": 1}
    ]}});
    let read = Reader::default().mcs(&from_value(import).unwrap(), &[], 100);
    let Some(Service::Address { v4, v6, ports }) = read.service else { panic!() };
    assert_eq!((v4, v6), (Some("10.0.0.1".parse().unwrap()), None));
    assert_eq!(ports.iter().map(|port| (port.path.len(), port.number)).collect::<Vec<_>>(), [(0, 80)]);
}
