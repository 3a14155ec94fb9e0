//! A node that is not there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Marks nodes whose pods are only pretended, so that those of a real node are never touched.
const PHANTOM: &str = "tombolo.dev/phantom";
const PODS_FROM: u32 = u32::from_be_bytes([10, 244, 0, 0]);
const NODES_FROM: u32 = u32::from_be_bytes([172, 18, 0, 0]);

pub(super) fn name(number: usize) -> String {
    format!("node{number}")
}

/// The node with this number, counted from one.
pub(super) fn node(number: usize) -> Node {
    let step = u32::try_from(number).unwrap_or(u32::MAX);
    let range = format!("{}/24", Ipv4Addr::from(PODS_FROM.saturating_add(step.saturating_mul(256))));
    let labels = json!({
        "kubernetes.io/hostname": name(number),
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": format!("zone{number}"),
    });
    let value = json!({
        "metadata": {"name": name(number), "labels": labels, "annotations": {PHANTOM: "true"}},
        "spec": {"podCIDR": range, "podCIDRs": [range]},
    });
    serde_json::from_value(value).expect("a node as the API describes it")
}

pub(super) fn is_phantom(node: &Node) -> bool {
    node.annotations().contains_key(PHANTOM)
}

pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True")
}

/// What a node says when all is well. It says so once: there are no heartbeats.
pub(super) fn status(node: &Node, number: usize) -> Value {
    let step = u32::try_from(number).unwrap_or(u32::MAX);
    let since = &node.metadata.creation_timestamp;
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "250"});
    json!({
        "addresses": [
            {"type": "InternalIP", "address": Ipv4Addr::from(NODES_FROM.saturating_add(step.saturating_add(1)))},
            {"type": "Hostname", "address": name(number)},
        ],
        "nodeInfo": {
            "architecture": "",
            "bootID": "",
            "containerRuntimeVersion": "phantom",
            "kernelVersion": "phantom",
            "kubeProxyVersion": "",
            "kubeletVersion": "phantom",
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "phantom",
            "systemUUID": "",
        },
        "capacity": room,
        "allocatable": room,
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "Phantom",
            "message": "nothing runs here, everything looks as if",
            "lastHeartbeatTime": since,
            "lastTransitionTime": since,
        }],
    })
}

/// The node's own address.
pub(super) fn own_address(node: &Node) -> Option<&str> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    addresses.iter().find(|found| found.type_ == "InternalIP").map(|found| found.address.as_str())
}

/// The lowest address of the node's range that is not taken; the first one is the gateway's.
pub(super) fn free_address(node: &Node, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
    let range: Ipv4Net = node.spec.as_ref()?.pod_cidr.as_ref()?.parse().ok()?;
    range.hosts().skip(1).find(|address| !taken.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_own_range_and_zone() {
        let (one, two) = (node(1), node(2));
        let range = |node: &Node| node.spec.as_ref().unwrap().pod_cidr.clone().unwrap();
        assert_eq!((range(&one), range(&two)), ("10.244.1.0/24".to_owned(), "10.244.2.0/24".to_owned()));
        assert_eq!(range(&node(300)), "10.245.44.0/24");
        assert_eq!(two.labels()["topology.kubernetes.io/zone"], "zone2");
        assert!(is_phantom(&one) && !is_phantom(&Node::default()));
    }

    #[test]
    fn addresses_are_given_out_from_below_until_none_is_left() {
        let node = node(1);
        let mut taken = BTreeSet::new();
        while let Some(address) = free_address(&node, &taken) {
            taken.insert(address);
        }
        assert_eq!(taken.len(), 253);
        assert_eq!(taken.first(), Some(&Ipv4Addr::new(10, 244, 1, 2)));
        taken.remove(&Ipv4Addr::new(10, 244, 1, 9));
        assert_eq!(free_address(&node, &taken), Some(Ipv4Addr::new(10, 244, 1, 9)));
    }
}
