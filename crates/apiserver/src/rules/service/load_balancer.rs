//! What belongs to load balancers only: their class, the clients they admit, the features they must have, their status.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind;
use crate::invalid::{FieldError, Problem};
use crate::rules::{field, ip, metadata, names};

const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// What is wrong with the fields of the spec that only a load balancer has.
pub(super) fn validate_spec(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut wrong = source_ranges(new, old);
    if kind(new) != "LoadBalancer" && field::at(new, "spec.allocateLoadBalancerNodePorts").is_some() {
        wrong.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY));
    }
    wrong.extend(class(new));
    wrong.extend(required_features(new));
    wrong
}

/// What is wrong with a status that a provider writes.
pub(crate) fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let path = "status.loadBalancer.ingress";
    let ingress = field::list(new, path);
    if kind(new) != "LoadBalancer" && !ingress.is_empty() {
        return vec![FieldError::forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let known: Vec<&str> = field::list(old, path).iter().map(|ingress| field::text(ingress, "ip")).collect();
    let points = ingress.iter().enumerate();
    points.flat_map(|(index, point)| ingress_point(point, &format!("{path}[{index}]"), &known)).collect()
}

/// Blanks around a range are part of the API: the annotation that the field replaced allowed them.
fn source_ranges(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let ranges = field::texts(new, "spec.loadBalancerSourceRanges");
    if ranges.is_empty() {
        return annotated_ranges(new, old);
    }
    // The capital letter is what clients have seen ever since.
    let path = "spec.LoadBalancerSourceRanges";
    let known: Vec<&str> = old
        .map(|old| field::texts(old, "spec.loadBalancerSourceRanges"))
        .unwrap_or_default()
        .into_iter()
        .map(str::trim)
        .collect();
    let mut wrong: Vec<FieldError> = misplaced(new, path).into_iter().collect();
    for (index, range) in ranges.iter().enumerate() {
        wrong.extend(ip::network(&format!("{path}[{index}]"), range.trim(), &known));
    }
    wrong
}

fn annotated_ranges(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let read = |service| field::member(service, "metadata.annotations", SOURCE_RANGES_ANNOTATION);
    let Some(ranges) = read(new) else { return Vec::new() };
    let path = format!("metadata.annotations[{SOURCE_RANGES_ANNOTATION}]");
    let mut wrong: Vec<FieldError> = misplaced(new, &path).into_iter().collect();
    if old.and_then(read) != Some(ranges) && !ranges.trim().is_empty() {
        wrong.extend(ranges.split(',').filter_map(|range| ip::network(&path, range.trim(), &[])));
    }
    wrong
}

fn misplaced(service: &Value, path: &str) -> Option<FieldError> {
    (kind(service) != "LoadBalancer").then(|| FieldError::forbidden(path, ONLY))
}

fn class(service: &Value) -> Vec<FieldError> {
    let path = "spec.loadBalancerClass";
    let Some(class) = field::at(service, path).and_then(Value::as_str) else { return Vec::new() };
    if kind(service) != "LoadBalancer" {
        return vec![FieldError::forbidden(path, ONLY)];
    }
    metadata::complaints(path, class, names::label_key(class)).collect()
}

/// KEP-4631: the features without which the load balancer is of no use, a list of distinct names.
fn required_features(service: &Value) -> Vec<FieldError> {
    let path = "spec.requiredLoadBalancerFeatures";
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, feature) in field::list(service, path).iter().enumerate() {
        let path = format!("{path}[{index}]");
        match feature.as_str() {
            None => {
                wrong.push(FieldError::new(path, Problem::TypeInvalid(feature.clone()), "must be a string"))
            }
            Some("") => wrong.push(FieldError::required(path, "")),
            Some(name) if !seen.insert(name) => wrong.push(FieldError::duplicate(path, name)),
            Some(_) => {}
        }
    }
    wrong
}

fn ingress_point(point: &Value, path: &str, known: &[&str]) -> Vec<FieldError> {
    let (address, hostname) = (field::text(point, "ip"), field::text(point, "hostname"));
    let mut wrong = Vec::new();
    if !address.is_empty() {
        wrong.extend(ip::address(&format!("{path}.ip"), address, known));
    }
    wrong.extend(mode(point, address, &format!("{path}.ipMode")));
    if !hostname.is_empty() {
        let path = format!("{path}.hostname");
        wrong.extend(metadata::complaints(&path, hostname, names::dns_subdomain(hostname)));
        if hostname.parse::<std::net::IpAddr>().is_ok() {
            wrong.push(FieldError::invalid(path, hostname, "must be a DNS name, not an IP address"));
        }
    }
    wrong
}

fn mode(point: &Value, address: &str, path: &str) -> Option<FieldError> {
    match field::at(point, "ipMode") {
        None if address.is_empty() => None,
        None => Some(FieldError::required(path, "must be specified when `ip` is set")),
        Some(_) if address.is_empty() => {
            Some(FieldError::forbidden(path, "may not be specified when `ip` is not set"))
        }
        Some(mode) if mode == "VIP" || mode == "Proxy" => None,
        Some(mode) => Some(FieldError::not_supported(path, mode.clone(), &["Proxy", "VIP"])),
    }
}
