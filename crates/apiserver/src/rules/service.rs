//! Services: the kind with the most defaults, the most linked fields and the only one that owns addresses.
//!
//! A write goes through four steps, and the server may stop after each: [`default`] fills what a client may leave out,
//! [`prepare_create`] or [`prepare_update`] settle the fields that depend on each other and on the stored object,
//! [`validate`] judges, [`allocate`] takes addresses and ports from the pool. A step that fails leaves the pool as it
//! was. A dry run does the same on a clone of the pool.

mod allocation;
mod defaults;
mod families;
mod immutable;
mod load_balancer;
mod ports;
mod prepare;
mod validation;
mod warnings;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::Value;

pub(crate) use allocation::{Addresses, allocate, release};
pub(crate) use defaults::{default, on_read};
pub(crate) use load_balancer::validate_status;
pub(crate) use prepare::{prepare_create, prepare_create_by_status, prepare_status, prepare_update};
pub(crate) use validation::validate;
pub(crate) use warnings::warnings;

use super::field;

/// The feature gates that decide about fields of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `ServiceInternalTrafficPolicy`: whether `spec.internalTrafficPolicy` may be written.
    pub service_internal_traffic_policy: bool,
    /// `LoadBalancerStatusImprovements`: whether `spec.requiredLoadBalancerFeatures` may be written.
    pub load_balancer_status_improvements: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { service_internal_traffic_policy: true, load_balancer_status_improvements: true }
    }
}

/// Where the addresses and ports of Services come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// At most one network of each address family; the first one is the family of Services that ask for none.
    pub(crate) service_cidrs: Vec<IpNet>,
    pub(crate) node_ports: RangeInclusive<u16>,
}

impl Network {
    /// The network of an address family, named as in `spec.ipFamilies`.
    fn cidr(&self, family: &str) -> Option<IpNet> {
        self.service_cidrs.iter().copied().find(|cidr| super::ip::family(cidr.addr()) == family)
    }

    fn primary_family(&self) -> &'static str {
        self.service_cidrs.first().map_or("IPv4", |cidr| super::ip::family(cidr.addr()))
    }

    fn is_dual_stack(&self) -> bool {
        self.cidr("IPv4").is_some() && self.cidr("IPv6").is_some()
    }
}

/// The value of `spec.clusterIP` that asks for no address.
const NONE: &str = "None";

fn kind(service: &Value) -> &str {
    field::text(service, "spec.type")
}

fn cluster_ips(service: &Value) -> Vec<&str> {
    field::texts(service, "spec.clusterIPs")
}

/// A Service without an address of its own, found by DNS only.
fn is_headless(service: &Value) -> bool {
    cluster_ips(service) == [NONE]
}

/// Even "None" counts as an address here: it is what the type calls for.
fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

fn uses_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

/// Whether ports without a node port get one.
fn wants_node_ports(service: &Value) -> bool {
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => {
            field::at(service, "spec.allocateLoadBalancerNodePorts") != Some(&Value::Bool(false))
        }
        _ => false,
    }
}

fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && field::text(service, "spec.externalTrafficPolicy") == "Local"
}

fn is_externally_accessible(service: &Value) -> bool {
    uses_node_ports(service)
        || kind(service) == "ClusterIP" && !field::list(service, "spec.externalIPs").is_empty()
}

/// The node ports of the ports that have one.
fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    field::list(service, "spec.ports")
        .iter()
        .map(|port| field::number(port, "nodePort"))
        .filter(|port| *port != 0)
}

fn parsed_ips(service: &Value) -> impl Iterator<Item = IpAddr> {
    cluster_ips(service).into_iter().filter_map(|ip| ip.parse().ok())
}

#[cfg(test)]
mod tests;
