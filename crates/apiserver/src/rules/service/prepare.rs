//! Settling the fields of a Service that depend on each other and on what is stored.
//!
//! A client that writes back a manifest without the values the server once chose must not lose them, and a client that
//! changes the type must not trip over values that made sense for the old one only. So omitted values come back from
//! the stored object, and values that the new type has no use for go away, unless the client changed them as well:
//! then it is told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Features, Network, cluster_ips, families, is_externally_accessible, kind, needs_cluster_ip,
    needs_health_check, node_ports, uses_node_ports, wants_node_ports,
};
use crate::invalid::FieldError;
use crate::rules::field;

/// Settles a new Service. The error is about address families that this network does not have.
pub(crate) fn prepare_create(
    new: &mut Value,
    features: &Features,
    network: &Network,
) -> Result<(), Vec<FieldError>> {
    field::set(new, "status", json!({"loadBalancer": {}}));
    drop_gated(new, None, features);
    let ip = field::text(new, "spec.clusterIP").to_owned();
    if !ip.is_empty() && cluster_ips(new).is_empty() {
        field::set(new, "spec.clusterIPs", json!([ip]));
    }
    families::settle(new, None, network)
}

/// Settles a new Service that came as a write to its status. The server forgets about addresses there.
pub(crate) fn prepare_create_by_status(new: &mut Value) {
    field::set(new, "status", json!({"loadBalancer": {}}));
}

/// Settles a Service that replaces `old`.
pub(crate) fn prepare_update(
    old: &Value,
    new: &mut Value,
    features: &Features,
    network: &Network,
) -> Result<(), Vec<FieldError>> {
    field::carry(old, new, "status");
    field::fill_absent(new, "status.loadBalancer", json!({}));
    drop_gated(new, Some(old), features);
    recall(old, new);
    align_cluster_ips(old, new);
    families::settle(new, Some(old), network)?;
    drop_unused(old, new);
    Ok(())
}

/// Settles a write to the status of a Service: nothing but the status changes.
pub(crate) fn prepare_status(old: &Value, new: &mut Value) {
    field::carry(old, new, "spec");
    field::fill_absent(new, "status.loadBalancer", json!({}));
}

/// Takes away fields whose gate is closed, unless the stored object has them already.
fn drop_gated(new: &mut Value, old: Option<&Value>, features: &Features) {
    let gates = [
        ("spec.internalTrafficPolicy", features.service_internal_traffic_policy),
        ("spec.requiredLoadBalancerFeatures", features.load_balancer_status_improvements),
    ];
    for (path, is_open) in gates {
        let is_stored = old.is_some_and(|old| field::at(old, path).is_some());
        if !is_open && !is_stored {
            field::remove(new, path);
        }
    }
}

/// Brings back what the server chose earlier and the client left out.
fn recall(old: &Value, new: &mut Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        for path in ["spec.clusterIP", "spec.clusterIPs"] {
            if field::is_empty(field::at(new, path)) {
                field::carry(old, new, path);
            }
        }
    }
    if wants_node_ports(old) && wants_node_ports(new) {
        recall_node_ports(old, new);
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && field::number(new, "spec.healthCheckNodePort") == 0
    {
        field::carry(old, new, "spec.healthCheckNodePort");
    }
}

/// Node ports come back by the name of their port, unless another port asks for the same number.
fn recall_node_ports(old: &Value, new: &mut Value) {
    let asked: BTreeSet<i64> = node_ports(new).collect();
    let used: BTreeSet<i64> = node_ports(old).filter(|port| asked.contains(port)).collect();
    let known: BTreeMap<&str, i64> = field::list(old, "spec.ports")
        .iter()
        .map(|port| (field::text(port, "name"), field::number(port, "nodePort")))
        .collect();
    for port in field::list_mut(new, "spec.ports") {
        let found = known.get(field::text(port, "name")).copied().unwrap_or_default();
        if field::number(port, "nodePort") == 0 && found != 0 && !used.contains(&found) {
            field::set(port, "nodePort", found);
        }
    }
}

/// Lets `clusterIPs` follow `clusterIP` for clients that know the singular only.
fn align_cluster_ips(old: &Value, new: &mut Value) {
    let (before, after) = (field::text(old, "spec.clusterIP"), field::text(new, "spec.clusterIP").to_owned());
    if before == after {
        if cluster_ips(new).is_empty() && !cluster_ips(old).is_empty() {
            field::carry(old, new, "spec.clusterIPs");
        }
    } else if cluster_ips(old) == cluster_ips(new) {
        match after.is_empty() {
            true => drop(field::remove(new, "spec.clusterIPs")),
            false => field::set(new, "spec.clusterIPs", json!([after])),
        }
    }
}

/// Takes away what the new type has no use for and the client did not touch.
fn drop_unused(old: &Value, new: &mut Value) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        drop_same(old, new, &["spec.clusterIP", "spec.clusterIPs"]);
        drop_same(old, new, &["spec.ipFamilies"]);
        drop_same(old, new, &["spec.ipFamilyPolicy"]);
    }
    if uses_node_ports(old) && !uses_node_ports(new) && adds_no_node_port(old, new) {
        for port in field::list_mut(new, "spec.ports") {
            field::remove(port, "nodePort");
        }
    }
    if needs_health_check(old) && !needs_health_check(new) {
        drop_same(old, new, &["spec.healthCheckNodePort"]);
    }
    if kind(old) == "LoadBalancer" && kind(new) != "LoadBalancer" {
        drop_same(old, new, &["spec.allocateLoadBalancerNodePorts"]);
        drop_same(old, new, &["spec.loadBalancerClass"]);
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) {
        drop_same(old, new, &["spec.externalTrafficPolicy"]);
    }
    if kind(new) != "LoadBalancer" {
        field::set(new, "status.loadBalancer", json!({}));
    }
}

fn drop_same(old: &Value, new: &mut Value, paths: &[&str]) {
    if paths.iter().all(|path| field::at(old, path) == field::at(new, path)) {
        for path in paths {
            field::remove(new, path);
        }
    }
}

fn adds_no_node_port(old: &Value, new: &Value) -> bool {
    let before: BTreeSet<i64> = node_ports(old).collect();
    node_ports(new).all(|port| before.contains(&port))
}
