//! Which endpoints and ports of a slice are taken over, and what of each.
//!
//! Besides addresses that are not believed, everything goes that an API server would refuse: one bad hostname must not keep
//! a thousand endpoints from being written.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use tombolo_api::service::{IpFamily, Protocol};

use crate::address::{Declared, DropCount, Dropped};
use crate::syntax::{is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name};

/// As many as an API server takes in one slice (`discovery.k8s.io/v1`, EndpointSlice).
pub const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 100;

pub(crate) fn endpoints(
    slice: &EndpointSlice,
    family: IpFamily,
    declared: &Declared,
    keep_node: bool,
) -> (Vec<Endpoint>, DropCount) {
    let mut dropped = DropCount::new();
    let mut endpoints: Vec<Endpoint> = slice
        .endpoints
        .iter()
        .flatten()
        .filter_map(|endpoint| select(endpoint, family, declared, keep_node, &mut dropped))
        .collect();
    if endpoints.len() > MAX_ENDPOINTS {
        dropped.insert(Dropped::TooMany, endpoints.len() - MAX_ENDPOINTS);
        endpoints.truncate(MAX_ENDPOINTS);
    }
    (endpoints, dropped)
}

fn select(
    endpoint: &Endpoint,
    family: IpFamily,
    declared: &Declared,
    keep_node: bool,
    dropped: &mut DropCount,
) -> Option<Endpoint> {
    let mut addresses = Vec::new();
    for text in endpoint.addresses.iter().take(MAX_ADDRESSES) {
        match declared.accept(text, family) {
            Ok(address) => addresses.push(address.to_string()),
            Err(reason) => *dropped.entry(reason).or_default() += 1,
        }
    }
    if addresses.is_empty() {
        return None;
    }
    Some(Endpoint {
        addresses,
        conditions: endpoint.conditions.clone(),
        hostname: endpoint.hostname.clone().filter(|name| is_dns_label(name)),
        node_name: endpoint.node_name.clone().filter(|name| keep_node && is_dns_subdomain(name)),
        zone: endpoint.zone.clone().filter(|zone| is_label_value(zone)),
        deprecated_topology: None,
        hints: None,
        target_ref: None,
    })
}

/// The ports an API server takes: each name once, with a real number if any, and a known protocol.
pub(crate) fn ports(slice: &EndpointSlice) -> Vec<EndpointPort> {
    let mut names = BTreeSet::new();
    let valid = |port: &&EndpointPort| {
        let name = port.name.as_deref().unwrap_or_default();
        (name.is_empty() || is_dns_label(name))
            && port.port.is_none_or(|number| (1..=65535).contains(&number))
            && port.protocol.as_deref().is_none_or(|word| word.parse::<Protocol>().is_ok())
            && port.app_protocol.as_deref().is_none_or(is_qualified_name)
    };
    let ports = slice.ports.iter().flatten().filter(valid);
    ports
        .filter(|port| names.insert(port.name.clone().unwrap_or_default()))
        .take(MAX_PORTS)
        .cloned()
        .collect()
}
