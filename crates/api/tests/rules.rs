//! The CEL rules of the CRDs refuse what they should and nothing else.
//!
//! They are evaluated with the engine of the embedded API server. A field's type, bounds and pattern are checked by the
//! server's schema validation and are not repeated here.

use kube::CustomResourceExt;
use kube_cel::Validator;
use serde_json::{Value, json};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::kep::ImportedService;
use tombolo_api::tombolo::{AddressPool, Membership, ServiceOffer};

/// Expects the rules of `K` to accept the object, or to refuse it with a message that contains `refusal`.
fn check<K: CustomResourceExt>(object: &Value, old: Option<&Value>, refusal: Option<&str>) {
    let crd = serde_json::to_value(K::crd()).expect("a CRD is JSON");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    match (Validator::new().validate(schema, object, old), refusal) {
        (Ok(()), None) => {}
        (Ok(()), Some(refusal)) => panic!("accepted, but should be refused with {refusal:?}: {object}"),
        (Err(errors), None) => panic!("refused: {object}: {errors:?}"),
        (Err(errors), Some(refusal)) => {
            let messages: Vec<_> = errors.into_vec().into_iter().map(|error| error.message).collect();
            assert!(messages.iter().any(|message| message.contains(refusal)), "{object}: {messages:?}");
        }
    }
}

fn named(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

fn mcs(mut fields: Value) -> Value {
    if fields.get("types").is_none() {
        fields["types"] = json!(["CrossCluster"]);
    }
    named("foo", fields)
}

#[test]
fn two_spellings_of_a_cluster_list_must_agree() {
    let spellings = [
        ("serviceProvisionClusters", "providerClusters"),
        ("serviceConsumptionClusters", "consumerClusters"),
    ];
    let cases: [(&[&str], &[&str], bool); 7] = [
        (&["a"], &[], true),
        (&[], &["a"], true),
        (&["a", "b"], &["b", "a"], true),
        (&["a"], &["a", "a"], true),
        (&["a"], &["b"], false),
        (&["a", "b"], &["a"], false),
        (&["a"], &["a", "b"], false),
    ];
    for (older, newer) in spellings {
        for (older_names, newer_names, accepted) in cases {
            let selectors: Vec<Value> = newer_names.iter().map(|name| json!({ "name": name })).collect();
            let object = mcs(json!({ older: older_names, newer: selectors }));
            let message = format!("{older} and {newer} are two spellings");
            check::<MultiClusterService>(&object, None, (!accepted).then_some(message.as_str()));
        }
        check::<MultiClusterService>(&mcs(json!({ older: ["a"] })), None, None);
        check::<MultiClusterService>(&mcs(json!({ newer: [{ "name": "a" }] })), None, None);
    }
}

#[test]
fn a_multi_cluster_service_has_one_type_for_ever() {
    let with = |types: Value| mcs(json!({ "types": types }));
    check::<MultiClusterService>(&with(json!(["CrossCluster", "CrossCluster"])), None, None);
    let both = with(json!(["CrossCluster", "LoadBalancer"]));
    check::<MultiClusterService>(&both, None, Some("only one type can be chosen"));
    let (old, new) = (with(json!(["CrossCluster"])), with(json!(["LoadBalancer"])));
    check::<MultiClusterService>(&new, Some(&old), Some("types cannot be changed"));
    check::<MultiClusterService>(&old, Some(&old), None);
}

#[test]
fn the_ports_of_a_multi_cluster_service_have_different_names() {
    let with = |ports: Value| mcs(json!({ "ports": ports }));
    let fine = json!([{ "name": "a", "port": 1 }, { "name": "b", "port": 2 }, { "port": 3 }, { "name": "", "port": 4 }, { "name": "", "port": 5 }]);
    check::<MultiClusterService>(&with(fine), None, None);
    let twice = json!([{ "name": "a", "port": 1 }, { "name": "a", "port": 2 }]);
    check::<MultiClusterService>(&with(twice), None, Some("port names must be unique"));
}

#[test]
fn names_of_multi_cluster_services_and_clusters_are_names_of_what_they_stand_for() {
    let types = json!({ "types": ["CrossCluster"] });
    for (name, accepted) in [("foo-1", true), ("1foo", false), ("foo.bar", false), ("foo-", false)] {
        let refusal = (!accepted).then_some("the name must be that of a Service");
        check::<MultiClusterService>(&named(name, types.clone()), None, refusal);
    }
    let pull = json!({ "syncMode": "Pull" });
    let (longest, too_long) = ("a".repeat(48), "a".repeat(49));
    for (name, accepted) in [("1member", true), (&longest, true), (&too_long, false), ("a.b", false)] {
        let refusal = (!accepted).then_some("the name must be a DNS label of at most 48 characters");
        check::<Cluster>(&named(name, pull.clone()), None, refusal);
    }
}

#[test]
fn a_cluster_keeps_its_identity() {
    let with = |id: Option<&str>| {
        let mut spec = json!({ "syncMode": "Pull" });
        if let Some(id) = id {
            spec["id"] = id.into();
        }
        named("member1", spec)
    };
    let changed = Some("the identity of a cluster cannot be changed");
    check::<Cluster>(&with(Some("x")), Some(&with(None)), None);
    check::<Cluster>(&with(Some("x")), Some(&with(Some("x"))), None);
    check::<Cluster>(&with(Some("y")), Some(&with(Some("x"))), changed);
    check::<Cluster>(&with(None), Some(&with(Some("x"))), changed);
}

#[test]
fn the_address_of_an_imported_service_is_one_of_its_family() {
    let with = |family: &str, ip: &str| {
        named("foo", json!({ "ports": [], "clusters": [], "ipFamily": family, "ip": ip }))
    };
    let other_family = Some("ip must be of the family that ipFamily names");
    check::<ImportedService>(&with("IPv4", "42.42.42.42"), None, None);
    check::<ImportedService>(&with("IPv6", "fd00::7"), None, None);
    check::<ImportedService>(&with("IPv4", "fd00::7"), None, other_family);
    check::<ImportedService>(&with("IPv6", "42.42.42.42"), None, other_family);
    check::<ImportedService>(&with("IPv4", "somewhere"), None, Some("must be an IP address"));
    let without = named("foo", json!({ "ports": [], "clusters": [], "ipFamily": "IPv4" }));
    check::<ImportedService>(&without, None, None);
}

fn offer(fields: Value) -> Value {
    let mut spec = json!({
        "dialect": "kep", "cluster": "member1", "service": { "namespace": "demo", "name": "echo" },
        "exportedAt": "2026-05-05T00:00:00Z", "type": "ClusterIP", "ipFamilies": ["IPv4"],
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    named("echo", spec)
}

#[test]
fn an_offer_stays_that_of_one_dialect_cluster_and_service() {
    let old = offer(json!({}));
    check::<ServiceOffer>(&offer(json!({ "type": "Headless" })), Some(&old), None);
    for change in [
        json!({ "dialect": "mcs" }),
        json!({ "cluster": "member2" }),
        json!({ "service": { "namespace": "demo", "name": "other" } }),
    ] {
        let refusal = Some("an offer stays that of one dialect, cluster and service");
        check::<ServiceOffer>(&offer(change), Some(&old), refusal);
    }
}

#[test]
fn an_offer_names_a_family_or_a_tier_once() {
    check::<ServiceOffer>(&offer(json!({ "ipFamilies": ["IPv6", "IPv4"] })), None, None);
    let twice = offer(json!({ "ipFamilies": ["IPv4", "IPv4"] }));
    check::<ServiceOffer>(&twice, None, Some("a family can be named once"));
    check::<ServiceOffer>(&offer(json!({ "prefer": ["zone", "any"] })), None, None);
    let twice = offer(json!({ "prefer": ["zone", "any", "zone"] }));
    check::<ServiceOffer>(&twice, None, Some("a tier can be named once"));
}

#[test]
fn a_second_cluster_cannot_take_over_a_membership() {
    let with = |cluster: &str, identity: &str| {
        named(
            "member1",
            json!({ "cluster": cluster, "identity": identity, "podCIDRs": ["10.0.0.0/16", "fd00::/48"] }),
        )
    };
    let old = with("member1", "x");
    check::<Membership>(&old, Some(&old), None);
    for new in [with("member1", "y"), with("member2", "x")] {
        check::<Membership>(&new, Some(&old), Some("another cluster uses this id"));
    }
}

#[test]
fn the_pod_networks_of_a_membership_are_cidrs() {
    for (cidr, accepted) in [("10.0.0.0/16", true), ("fd00::/48", true), ("10.0.0.1", false), ("pods", false)]
    {
        let object = named("member1", json!({ "cluster": "member1", "identity": "x", "podCIDRs": [cidr] }));
        check::<Membership>(&object, None, (!accepted).then_some("each must be a CIDR"));
    }
}

#[test]
fn the_addresses_of_a_pool_are_cidrs_ranges_or_addresses() {
    let refused = "each must be a CIDR, a range first-last of one family, or an address";
    for (entry, accepted) in [
        ("192.0.2.0/28", true),
        ("192.0.2.1-192.0.2.9", true),
        ("192.0.2.1", true),
        ("2001:db8::/64", true),
        ("2001:db8::1-2001:db8::9", true),
        ("192.0.2.1-2001:db8::9", false),
        ("192.0.2.1-", false),
        ("192.0.2.1-192.0.2.2-192.0.2.3", false),
        ("192.0.2.0/99", false),
        ("lan", false),
    ] {
        let object = named("lan", json!({ "addresses": ["198.51.100.1", entry] }));
        check::<AddressPool>(&object, None, (!accepted).then_some(refused));
    }
}
