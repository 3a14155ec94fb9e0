//! Which nodes answer for an address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_api::loadbalancer::Profile;

use super::lab::{Bench, annotated, service};
use crate::balancer::{Herald, Runner, announced, elect, local_nodes, may_announce, unannounced};

fn runners<'a>(nodes: &[&'a str], holder: Option<&str>) -> Vec<Runner<'a>> {
    nodes.iter().map(|&node| Runner { node, holds: Some(node) == holder }).collect()
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

#[test]
fn addresses_spread_over_nodes() {
    let nodes = ["node1", "node2", "node3"];
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for last in 0..=255 {
        *count.entry(elect(address(last), runners(&nodes, None), false).unwrap()).or_default() += 1;
    }
    assert!(nodes.iter().all(|node| count[node] > 50), "{count:?}");
}

#[test]
fn who_has_an_address_keeps_it_unless_it_may_be_taken_away() {
    for last in 0..=20 {
        let best = elect(address(last), runners(&["node1", "node2"], None), false).unwrap();
        let other = if best == "node1" { "node2" } else { "node1" };
        let nodes = ["node1", "node2"];
        assert_eq!(elect(address(last), runners(&nodes, Some(other)), false), Some(other));
        assert_eq!(elect(address(last), runners(&nodes, Some(other)), true), Some(best));
    }
}

#[test]
fn of_two_that_claim_an_address_all_choose_the_same() {
    let both = [Runner { node: "node1", holds: true }, Runner { node: "node2", holds: true }];
    let best = elect(address(1), runners(&["node1", "node2"], None), false);
    assert_eq!(elect(address(1), both, false), best);
    assert_eq!(elect(address(1), both.into_iter().rev(), false), best);
}

#[test]
fn without_nodes_nobody_answers() {
    assert_eq!(elect(address(1), [], false), None);
}

proptest! {
    /// A node that dies takes along only what it had.
    #[test]
    fn only_the_addresses_of_a_dead_node_move(last: u8, dead in 0..5_usize) {
        let nodes = ["a", "b", "c", "d", "e"];
        let before = elect(address(last), runners(&nodes, None), false).unwrap();
        let left: Vec<&str> = nodes.iter().copied().filter(|node| *node != nodes[dead]).collect();
        let after = elect(address(last), runners(&left, None), false).unwrap();
        prop_assert!(after == before || before == nodes[dead]);
    }
}

fn slice(endpoints: Value, labels: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"name": "s", "labels": labels}, "addressType": "IPv4", "endpoints": endpoints, "ports": [],
    }))
    .unwrap()
}

fn endpoint(node: &str, ready: bool, serving: bool, terminating: bool) -> Value {
    let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
    json!({"addresses": ["10.0.0.1"], "nodeName": node, "conditions": conditions})
}

#[test]
fn nodes_with_ready_endpoints_come_before_nodes_whose_endpoints_only_drain() {
    let draining = endpoint("node2", false, true, true);
    let dead = endpoint("node3", false, false, true);
    let all = slice(json!([endpoint("node1", true, true, false), draining, dead]), json!({}));
    assert_eq!(local_nodes([&all]).into_iter().collect::<Vec<_>>(), ["node1"]);
    let ending = slice(json!([draining, dead]), json!({}));
    assert_eq!(local_nodes([&ending]).into_iter().collect::<Vec<_>>(), ["node2"]);
    let starting = slice(json!([endpoint("node1", false, false, false)]), json!({}));
    assert!(local_nodes([&starting]).is_empty());
    let unsaid = slice(
        json!([{"addresses": ["10.0.0.1"], "nodeName": "node1"}, {"addresses": ["10.0.0.2"]}]),
        json!({}),
    );
    assert_eq!(local_nodes([&unsaid]).len(), 1);
    let foreign = json!({"multicluster.kubernetes.io/source-cluster": "east"});
    let imported = slice(json!([endpoint("node1", true, true, false)]), foreign);
    assert!(local_nodes([&imported]).is_empty(), "a node of that name in another cluster is not this one");
}

#[test]
fn only_what_serves_and_is_ours_is_announced() {
    let mut ours = service(json!({"externalTrafficPolicy": "Local"}));
    assert_eq!(announced(&ours, None), None, "nobody has looked at it yet");
    let mut bench = Bench::new(Profile::Full);
    bench.look(&mut ours);
    let found = announced(&ours, None).unwrap();
    assert_eq!((found.addresses, found.local), (vec![address(0)], true));
    assert_eq!(announced(&ours, Some("a/b")), None);
    let mut failing = annotated(ours.clone(), "tombolo.dev/fail", "serve");
    bench.look(&mut failing);
    assert_eq!(announced(&failing, None), None);
    ours.metadata.deletion_timestamp = Some(crate::testing::at(1));
    assert_eq!(announced(&ours, None), None);
}

#[test]
fn nodes_that_are_excluded_or_leave_announce_nothing() {
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let taints = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    for (node, may) in [
        (json!({"metadata": {"name": "n"}}), true),
        (json!({"metadata": {"name": "n", "labels": {label: ""}}}), false),
        (json!({"metadata": {"name": "n", "labels": {label: "true"}}}), false),
        (json!({"metadata": {"name": "n", "labels": {label: "false"}}}), true),
        (json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}), false),
        (json!({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
    ] {
        let node: Node = serde_json::from_value(node).unwrap();
        assert_eq!(may_announce(&node), may, "{node:?}");
    }
}

#[test]
fn why_no_node_announces_is_said_of_each() {
    let node = |node: Value| serde_json::from_value::<Node>(node).unwrap();
    let plain = node(json!({"metadata": {"name": "n"}}));
    let excluded = node(json!({
        "metadata": {"name": "n", "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}},
    }));
    let leaving = node(json!({
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]},
    }));
    let herald = |name, node, mute| Herald { name, node, mute };
    let label = "a has the label node.kubernetes.io/exclude-from-external-load-balancers";
    for (heralds, why) in [
        (vec![], "tombolo balancer has to run on one at least".to_owned()),
        (vec![herald("a", Some(&excluded), false)], label.to_owned()),
        (
            vec![
                herald("a", Some(&excluded), false),
                herald("b", Some(&leaving), false),
                herald("c", None, false),
            ],
            format!("{label}, b is about to be removed, c is no Node of the cluster"),
        ),
        (vec![herald("a", Some(&plain), true)], "a has no link to answer on".to_owned()),
    ] {
        assert_eq!(unannounced(heralds), Some(format!("no node announces addresses: {why}")));
    }
    let some = [herald("a", Some(&excluded), false), herald("b", Some(&plain), false)];
    assert_eq!(unannounced(some), None);
}
