//! Who gets which address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use serde_json::json;
use tombolo_api::loadbalancer::{self, Profile};
use tombolo_api::service::{IpFamily, Protocol};

use super::lab::{
    Bench, FAILED, NORMAL, annotated, condition, edit, ingress, named, owner, pool, said, service,
};
use crate::balancer::{Claim, Ledger, Pools, Sharing};

const SHARING: &str = "tombolo.dev/address-sharing-key";
const ADDRESSES: &str = "tombolo.dev/load-balancer-addresses";

fn message(service: &loadbalancer::Service) -> String {
    condition(service, loadbalancer::Condition::Serving).unwrap().message.clone()
}

#[test]
fn newcomers_get_the_lowest_free_address_until_none_is_left() {
    let mut bench = Bench::with_pools(
        Profile::Full,
        &[pool("one", json!(["192.0.2.0/31", "192.0.2.9"])), pool("two", json!(["192.0.2.4"]))],
    );
    let mut services: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| named(name, json!({}))).into();
    for service in &mut services {
        bench.look(service);
    }
    let given: Vec<_> = services.iter().map(|service| ingress(service).join(",")).collect();
    assert_eq!(given, ["192.0.2.0", "192.0.2.1", "192.0.2.9", "192.0.2.4", ""]);
    assert_eq!(said(&services[4]), FAILED);
    assert_eq!(message(&services[4]), "no IPv4 address is free in the pools one, two");
    // One that is freed is given to who waits.
    assert!(bench.ledger.release(&owner("b")));
    assert!(!bench.ledger.release(&owner("b")));
    bench.look(&mut services[4]);
    assert_eq!((said(&services[4]).as_str(), ingress(&services[4])), (NORMAL, vec!["192.0.2.1"]));
}

#[test]
fn selectors_priority_and_auto_assignment_choose_the_pool() {
    let pools = [
        pool("manual", json!({"addresses": ["192.0.2.1"], "autoAssign": false, "priority": 9})),
        pool(
            "edge",
            json!({"addresses": ["192.0.2.2"], "priority": 5,
            "serviceSelector": {"matchLabels": {"edge": "yes"}}}),
        ),
        pool("common", json!(["192.0.2.3"])),
    ];
    let mut bench = Bench::with_pools(Profile::Full, &pools);
    let mut plain = named("plain", json!({}));
    bench.look(&mut plain);
    assert_eq!(ingress(&plain), ["192.0.2.3"]);
    let mut edge = named("edge", json!({}));
    edge.metadata.labels = Some(BTreeMap::from([("edge".into(), "yes".into())]));
    bench.look(&mut edge);
    assert_eq!(ingress(&edge), ["192.0.2.2"]);
    let mut asks = named("asks", json!({"loadBalancerIP": "192.0.2.1"}));
    bench.look(&mut asks);
    assert_eq!((said(&asks).as_str(), ingress(&asks)), (NORMAL, vec!["192.0.2.1"]));
    let mut wrong = named("wrong", json!({"ipFamilies": ["IPv6"]}));
    bench.look(&mut wrong);
    assert_eq!(message(&wrong), "no AddressPool has IPv6 addresses for this Service");
}

#[test]
fn an_address_that_is_asked_for_twice_goes_to_the_first_and_the_second_is_told_who_has_it() {
    let mut bench = Bench::new(Profile::Full);
    let mut first = named("first", json!({"loadBalancerIP": "192.0.2.3"}));
    let mut second = named("second", json!({"loadBalancerIP": "192.0.2.3"}));
    bench.look(&mut first);
    bench.look(&mut second);
    assert_eq!((ingress(&first), ingress(&second)), (vec!["192.0.2.3"], vec!["192.0.2.0"]));
    let told = &condition(&second, loadbalancer::Condition::Degraded).unwrap().message;
    assert_eq!(told, "LoadBalancerIP: 192.0.2.3 is used by default/first");
    // Once it is free, it goes to who asked for it.
    bench.ledger.release(&owner("first"));
    bench.look(&mut second);
    assert_eq!((said(&second).as_str(), ingress(&second)), (NORMAL, vec!["192.0.2.3"]));
}

#[test]
fn the_annotation_can_ask_for_both_families_and_goes_before_the_field() {
    let mut bench = Bench::new(Profile::Full);
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"], "loadBalancerIP": "192.0.2.1"});
    let mut both = annotated(service(spec), ADDRESSES, "2001:db8::2, 192.0.2.3");
    bench.look(&mut both);
    assert_eq!(ingress(&both), ["192.0.2.3", "2001:db8::2"]);
    assert!(message(&both).contains("192.0.2.3 is of the same family as 192.0.2.1"), "{}", message(&both));
}

#[test]
fn services_that_agree_share_an_address_unless_a_port_is_wanted_twice() {
    let mut bench = Bench::new(Profile::Full);
    let web = |name: &str, port: u16, key: &str| {
        annotated(named(name, json!({"ports": [{ "port": port }]})), SHARING, key)
    };
    let mut services = [
        web("a", 80, "k"),
        web("b", 443, "k"),
        web("c", 80, "k"),
        web("d", 8080, "other"),
        named("e", json!({"ports": [{"port": 9090}]})),
        annotated(named("f", json!({"ports": [{"port": 80, "protocol": "UDP"}]})), SHARING, "k"),
        annotated(
            named("g", json!({"ports": [{"port": 9}], "externalTrafficPolicy": "Local"})),
            SHARING,
            "k",
        ),
    ];
    let given: Vec<String> = services
        .iter_mut()
        .map(|service| {
            bench.look(service);
            ingress(service).join(",")
        })
        .collect();
    assert_eq!(given[..4], ["192.0.2.0", "192.0.2.0", "192.0.2.1", "192.0.2.2"]);
    assert_eq!(given[4..], ["192.0.2.3", "192.0.2.0", ""]);
    // The address is free when the last of them has gone.
    for name in ["a", "b"] {
        bench.ledger.release(&owner(name));
    }
    let mut late = named("late", json!({"loadBalancerIP": "192.0.2.0"}));
    bench.look(&mut late);
    assert_eq!(said(&late), FAILED);
    bench.ledger.release(&owner("f"));
    bench.look(&mut late);
    assert_eq!(ingress(&late), ["192.0.2.0"]);
}

#[test]
fn services_that_keep_traffic_on_the_node_share_only_if_they_select_the_same_pods() {
    let local = |namespace: &str, name: &str, port: u16, selector: serde_json::Value| {
        let spec = json!({"ports": [{"port": port}], "externalTrafficPolicy": "Local", "selector": selector});
        let mut service = annotated(named(name, spec), SHARING, "k");
        service.metadata.namespace = Some(namespace.to_owned());
        service
    };
    let (web, other) = (json!({"app": "web"}), json!({"app": "other"}));
    let mut bench = Bench::with_pools(Profile::Full, &[pool("main", json!(["192.0.2.0/28"]))]);
    let given: Vec<String> = [
        local("team", "first", 80, web.clone()),
        local("team", "same", 443, web.clone()),
        local("team", "others", 8080, other),
        local("elsewhere", "pods", 8443, web),
        local("team", "by-hand", 1, json!({})),
        local("team", "too", 2, json!({})),
    ]
    .iter_mut()
    .map(|service| {
        bench.look(service);
        ingress(service).join(",")
    })
    .collect();
    assert_eq!(given, ["192.0.2.0", "192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]);
}

#[test]
fn who_shares_no_more_gets_an_address_of_its_own() {
    let mut bench = Bench::new(Profile::Full);
    let mut first = annotated(named("first", json!({})), SHARING, "k");
    let mut second = annotated(named("second", json!({"ports": [{"port": 443}]})), SHARING, "k");
    bench.look(&mut first);
    bench.look(&mut second);
    assert_eq!(ingress(&second), ["192.0.2.0"]);
    edit(&mut second, json!({"ports": [{"port": 80}]}));
    bench.look(&mut second);
    assert_eq!((said(&second).as_str(), ingress(&second)), (NORMAL, vec!["192.0.2.1"]));
}

#[test]
fn a_pool_that_shrinks_leaves_a_live_service_its_address_and_says_so() {
    let mut bench = Bench::new(Profile::Full);
    let mut live = service(json!({}));
    bench.look(&mut live);
    let before = super::lab::times(&live);
    bench.ledger.set_pools(Pools::read(&[pool("main", json!(["192.0.2.2/31"]))]).0);
    bench.look(&mut live);
    assert_eq!((said(&live).as_str(), ingress(&live)), (NORMAL, vec!["192.0.2.0"]));
    assert!(message(&live).contains("192.0.2.0 is in no AddressPool for this Service any more"));
    assert_eq!(super::lab::times(&live), before, "clients notice nothing");
    let mut next = named("next", json!({}));
    bench.look(&mut next);
    assert_eq!(ingress(&next), ["192.0.2.2"]);
}

#[test]
fn after_a_restart_everybody_keeps_what_it_has_before_newcomers_get_any() {
    let mut holder = named("holder", json!({}));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.0", "ipMode": "VIP"}]}});
    holder.status = serde_json::from_value(status).unwrap();
    let mut newcomer = named("a-newcomer", json!({"loadBalancerIP": "192.0.2.0"}));
    let mut bench = Bench::new(Profile::Full);
    bench.ledger.keep(&owner("holder"), &crate::balancer::addresses(&holder), &Sharing::default());
    bench.look(&mut newcomer);
    bench.look(&mut holder);
    assert_eq!((ingress(&holder), ingress(&newcomer)), (vec!["192.0.2.0"], vec!["192.0.2.1"]));
}

#[test]
fn an_address_that_another_provider_left_is_kept_only_if_a_pool_has_it() {
    for (left, expected) in [("192.0.2.3", "192.0.2.3"), ("10.0.0.1", "192.0.2.0")] {
        let mut service = service(json!({}));
        let status = json!({"loadBalancer": {"ingress": [{"ip": left}]}});
        service.status = serde_json::from_value(status).unwrap();
        Bench::new(Profile::Full).look(&mut service);
        assert_eq!((said(&service).as_str(), ingress(&service)), (NORMAL, vec![expected]));
        assert!(!message(&service).contains("any more"), "{}", message(&service));
    }
}

#[test]
fn the_address_of_a_node_is_not_kept_even_where_we_served_before() {
    let (mut bench, mut service) = (Bench::new(Profile::Full), service(json!({})));
    bench.look(&mut service);
    let status = json!([{"ip": "10.0.0.1"}]);
    service.status.load_balancer.as_mut().unwrap().ingress = serde_json::from_value(status).unwrap();
    for (nodes, expected) in [([].into(), "10.0.0.1"), (["10.0.0.1".parse().unwrap()].into(), "192.0.2.0")] {
        let mut anew = Bench { nodes, ..Bench::new(Profile::Full) };
        let mut service = service.clone();
        anew.look(&mut service);
        assert_eq!(ingress(&service), [expected]);
    }
}

#[test]
fn of_two_that_claim_to_have_one_address_the_first_keeps_it() {
    let mut ledger = Ledger::new(None);
    let address: IpAddr = "192.0.2.0".parse().unwrap();
    ledger.keep(&owner("a"), &[address], &Sharing::default());
    ledger.keep(&owner("b"), &[address], &Sharing::default());
    assert_eq!((ledger.addresses_of(&owner("a")).len(), ledger.addresses_of(&owner("b")).len()), (1, 0));
}

#[test]
fn addresses_in_use_are_counted_by_pool() {
    let mut bench = Bench::new(Profile::Full);
    bench.look(&mut named("a", json!({"ipFamilies": ["IPv4", "IPv6"]})));
    bench.look(&mut named("b", json!({})));
    let pool = bench.ledger.pools().iter().next().unwrap().clone();
    assert_eq!(bench.ledger.in_use(&pool), 3);
}

#[test]
fn the_last_addresses_of_all_can_be_given() {
    let ends = pool("ends", json!(["255.255.255.254/31", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]));
    let mut bench = Bench::with_pools(Profile::Full, &[ends]);
    for (name, last) in [("a", "255.255.255.254"), ("b", "255.255.255.255"), ("c", "")] {
        let mut service = named(name, json!({}));
        bench.look(&mut service);
        assert_eq!(ingress(&service).join(","), last);
    }
    let mut six = named("six", json!({"ipFamilies": ["IPv6"]}));
    bench.look(&mut six);
    assert_eq!(ingress(&six), ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
}

proptest! {
    /// Whatever comes and goes: nobody loses an address unasked, none is given to two who do not share it, and none comes
    /// from outside of the pools.
    #[test]
    fn addresses_are_never_given_twice(
        steps in prop::collection::vec((0..6_u8, prop::option::of(0..6_u8), 0..3_u8, any::<bool>()), 1..60),
    ) {
        let mut ledger = Ledger::new(None);
        ledger.set_pools(Pools::read(&[pool("p", json!(["192.0.2.0/30"]))]).0);
        let labels = BTreeMap::new();
        let mut given: BTreeMap<u8, (Vec<IpAddr>, Option<u8>)> = BTreeMap::new();
        for (who, asked, key, leave) in steps {
            let name = owner(&who.to_string());
            if leave {
                ledger.release(&name);
                given.remove(&who);
                continue;
            }
            let sharing = Sharing {
                key: (key > 0).then(|| key.to_string()),
                ports: [(Protocol::Tcp, u16::from(who))].into(),
                backends: None,
            };
            let before = given.get(&who).cloned();
            let grant = ledger.assign(&Claim {
                owner: name,
                families: &[IpFamily::V4],
                asked: asked.map(|last| IpAddr::from([192, 0, 2, last])).into_iter().collect(),
                has: Vec::new(),
                sharing,
                namespace_labels: &labels,
                service_labels: &labels,
            });
            for address in &grant.addresses {
                prop_assert!(ledger.pools().of(*address).is_some());
                for (other, (theirs, their_key)) in &given {
                    let together = *other == who || (key > 0 && *their_key == Some(key));
                    prop_assert!(together || !theirs.contains(address));
                }
            }
            if let Some((had, had_key)) = before
                && asked.is_none() && had_key == Some(key) {
                prop_assert_eq!(&grant.addresses, &had);
            }
            if grant.addresses.is_empty() { given.remove(&who); } else { given.insert(who, (grant.addresses, Some(key))); }
        }
    }
}
