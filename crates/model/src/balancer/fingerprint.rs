//! Short marks of what a Service asks for and of what is served, to compare with later ones.

use std::net::IpAddr;

use serde_json::{Value, json};
use tombolo_api::loadbalancer::Service;
use tombolo_api::tombolo::{
    ADDRESS_SHARING_KEY_ANNOTATION, FAIL_ANNOTATION, LOAD_BALANCER_ADDRESSES_ANNOTATION,
    REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION,
};

use super::verdict::Terms;
use super::wish::Wish;
use crate::names::hash;

/// The fields that have to do with the load balancer. KEP-4631 leaves open which these are: here they are those at which
/// the stock service controller looks again, and the newer ones.
const FIELDS: [&str; 13] = [
    "type",
    "allocateLoadBalancerNodePorts",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "sessionAffinity",
    "sessionAffinityConfig",
];

const ANNOTATIONS: [&str; 4] = [
    ADDRESS_SHARING_KEY_ANNOTATION,
    FAIL_ANNOTATION,
    LOAD_BALANCER_ADDRESSES_ANNOTATION,
    REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION,
];

/// The mark of everything about the load balancer that a user can change.
pub fn seen(service: &Service) -> String {
    let spec = serde_json::to_value(&service.spec.core).unwrap_or_default();
    let mut parts: Vec<String> = FIELDS.iter().map(|field| text(&spec[*field])).collect();
    parts.push(json!(service.spec.required_features).to_string());
    parts.extend(ANNOTATIONS.iter().map(|key| text(&json!(service.annotation(key)))));
    parts.push(service.metadata.uid.clone().unwrap_or_default());
    mark("load balancer seen", &parts)
}

/// The mark of what clients from outside notice.
pub fn serves(service: &Service, wish: &Wish, terms: &Terms, addresses: &[IpAddr]) -> String {
    let spec = &service.spec.core;
    let timeout = spec.session_affinity_config.as_ref().filter(|_| wish.sticky);
    let parts = [
        format!("{addresses:?}"),
        format!("{:?}", terms.ports),
        format!("{:?}", terms.degraded),
        json!(timeout).to_string(),
        format!("{} {}", wish.sticky, wish.local),
        json!(wish.source_ranges).to_string(),
    ];
    mark("load balancer serves", &parts)
}

fn mark(purpose: &str, parts: &[String]) -> String {
    hash(purpose, &parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Absent, empty and null are the same.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(items) if items.is_empty() => String::new(),
        value => value.to_string(),
    }
}
