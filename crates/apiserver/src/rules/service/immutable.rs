//! What may not change about the addresses of a Service.
//!
//! The first address stays for life; the second one may come and go. Only a detour over ExternalName starts afresh.

use serde_json::Value;

use super::{cluster_ips, is_headless, kind, needs_health_check};
use crate::invalid::FieldError;
use crate::rules::field;

const CLUSTER_IPS: &str = "spec.clusterIPs";
const FAMILIES: &str = "spec.ipFamilies";
const FROZEN: &str = "may not change once set";

/// Everything that `new` changes about `old` but may not.
pub(super) fn changes(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    if kind(new) != "ExternalName" && kind(old) != "ExternalName" {
        if !(is_headless(new) && is_headless(old)) {
            wrong.extend(addresses(new, old));
        }
        if !is_headless(new) && !is_headless(old) {
            wrong.extend(families(new, old));
        }
    }
    if kind(new) == "LoadBalancer" && kind(old) == "LoadBalancer" {
        wrong.extend(class(new, old));
    }
    let port = |service: &Value| field::number(service, "spec.healthCheckNodePort");
    if needs_health_check(old) && needs_health_check(new) && port(old) != port(new) {
        wrong.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    wrong
}

fn addresses(new: &Value, old: &Value) -> Vec<FieldError> {
    let (before, after) = (cluster_ips(old), cluster_ips(new));
    let frozen = |index: usize| FieldError::invalid(format!("{CLUSTER_IPS}[{index}]"), after.clone(), FROZEN);
    if before.len() == after.len() {
        return (0..before.len()).filter(|index| before[*index] != after[*index]).map(frozen).collect();
    }
    let mut wrong = Vec::new();
    match (before.first(), after.first()) {
        (Some(_), None) => wrong.push(FieldError::invalid(
            format!("{CLUSTER_IPS}[0]"),
            after.clone(),
            "primary clusterIP can not be unset",
        )),
        (Some(first), Some(now)) if first != now => wrong.push(frozen(0)),
        _ => {}
    }
    if before.len() > after.len() && after.len() == 1 {
        wrong.extend(unreleased(new, "secondary clusterIP"));
    }
    wrong
}

fn families(new: &Value, old: &Value) -> Vec<FieldError> {
    let (before, after) = (field::list(old, FAMILIES), field::list(new, FAMILIES));
    let frozen = |shown: Value| FieldError::invalid(format!("{FAMILIES}[0]"), shown, FROZEN);
    if before.len() == after.len() {
        let changed = before.iter().zip(after).filter(|(before, after)| before != after);
        return changed.map(|_| frozen(after.into())).collect();
    }
    let mut wrong = Vec::new();
    match (before.first(), after.first()) {
        (Some(_), None) => wrong.push(FieldError::invalid(
            format!("{FAMILIES}[0]"),
            after.to_vec(),
            "primary ipFamily can not be unset",
        )),
        // The addresses and not the families: this is what the server shows here.
        (Some(first), Some(now)) if first != now => wrong.push(frozen(cluster_ips(new).into())),
        _ => {}
    }
    if before.len() > after.len() && after.len() == 1 {
        wrong.extend(unreleased(new, "secondary ipFamily"));
    }
    wrong
}

fn unreleased(new: &Value, what: &str) -> Option<FieldError> {
    let policy = field::text(new, "spec.ipFamilyPolicy");
    let detail = format!("must be set to 'SingleStack' when releasing the {what}");
    (policy != "SingleStack").then(|| FieldError::invalid("spec.ipFamilyPolicy", policy, detail))
}

fn class(new: &Value, old: &Value) -> Option<FieldError> {
    let path = "spec.loadBalancerClass";
    let now = field::at(new, path);
    (now != field::at(old, path)).then(|| FieldError::invalid(path, now.cloned().unwrap_or_default(), FROZEN))
}
