//! What a Service may say, and what it may not say at the same time.

use serde_json::Value;

use super::{
    NONE, cluster_ips, immutable, is_externally_accessible, is_headless, kind, load_balancer,
    needs_health_check, parsed_ips, ports,
};
use crate::invalid::{FieldError, Problem};
use crate::rules::{field, ip, metadata, names};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const MOST_AFFINITY_SECONDS: i64 = 86_400;
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const HEALTH_PORT_PLACE: &str =
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";

/// Everything that is wrong with a Service that has been defaulted and prepared. Metadata is judged elsewhere.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut wrong = old.map(|old| immutable::changes(new, old)).unwrap_or_default();
    wrong.extend(type_specific(new));
    wrong.extend(ports::validate(new));
    wrong.extend(metadata::labels(new, "spec.selector"));
    wrong.extend(session_affinity(new));
    wrong.extend(cluster_ips_and_families(new, old));
    wrong.extend(external_ips(new, old));
    wrong.extend(enumerated(new, "spec.type", &TYPES));
    wrong.extend(ports::validate_together(new));
    wrong.extend(load_balancer::validate_spec(new, old));
    wrong.extend(external_policy(new));
    wrong.extend(internal_policy(new));
    wrong.extend(distribution(new));
    wrong
}

fn type_specific(service: &Value) -> Vec<FieldError> {
    match kind(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            vec![FieldError::invalid("spec.clusterIPs[0]", NONE, detail)]
        }
        "ExternalName" => external_name(service),
        _ => Vec::new(),
    }
}

fn external_name(service: &Value) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    for path in ["spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"] {
        if !field::is_empty(field::at(service, path)) {
            wrong.push(FieldError::forbidden(path, "may not be set for ExternalName services"));
        }
    }
    let name = field::text(service, "spec.externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => wrong.push(FieldError::required("spec.externalName", "")),
        name => wrong.extend(metadata::complaints("spec.externalName", name, names::dns_subdomain(name))),
    }
    wrong
}

fn session_affinity(service: &Value) -> Vec<FieldError> {
    let mut wrong: Vec<FieldError> =
        enumerated(service, "spec.sessionAffinity", &["ClientIP", "None"]).into_iter().collect();
    if field::text(service, "spec.sessionAffinity") == "ClientIP" {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let seconds = field::number(service, path);
        if !(1..=MOST_AFFINITY_SECONDS).contains(&seconds) {
            let detail = format!("must be greater than 0 and less than {MOST_AFFINITY_SECONDS}");
            wrong.push(FieldError::invalid(path, seconds, detail));
        }
    }
    wrong
}

/// What is wrong with the addresses, the families and how they fit; also asked before families are settled.
pub(super) fn cluster_ips_and_families(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if kind(new) == "ExternalName" {
        return Vec::new();
    }
    let mut wrong: Vec<FieldError> = singular_and_plural(new).into_iter().collect();
    wrong.extend(family_list(new));
    if let Some(policy) = field::at(new, "spec.ipFamilyPolicy").and_then(Value::as_str)
        && !POLICIES.contains(&policy)
    {
        wrong.push(FieldError::not_supported("spec.ipFamilyPolicy", policy, &POLICIES));
    }
    let mistyped = address_list(new, old);
    let is_readable = mistyped.is_empty();
    wrong.extend(mistyped);
    if cluster_ips(new).len() > 2 {
        wrong.push(FieldError::invalid("spec.clusterIPs", cluster_ips(new), "may only hold up to 2 values"));
    }
    if is_readable {
        wrong.extend(one_per_family(new));
        wrong.extend(family_of_each(new));
    }
    wrong
}

fn singular_and_plural(service: &Value) -> Option<FieldError> {
    let (ip, ips) = (field::text(service, "spec.clusterIP"), cluster_ips(service));
    let path = "spec.clusterIPs";
    match (ip, ips.first()) {
        ("", None) => None,
        ("", Some(_)) => {
            Some(FieldError::invalid(path, ips, "must be empty when `clusterIP` is not specified"))
        }
        (_, None) => Some(FieldError::required(path, "")),
        (ip, Some(first)) if ip != *first => {
            Some(FieldError::invalid(path, ips, "first value must match `clusterIP`"))
        }
        _ => None,
    }
}

fn family_list(service: &Value) -> Vec<FieldError> {
    let families = field::texts(service, "spec.ipFamilies");
    let mut wrong = Vec::new();
    for (index, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{index}]");
        if !FAMILIES.contains(family) {
            wrong.push(FieldError::not_supported(path.clone(), *family, &FAMILIES));
        }
        if families[..index].contains(family) {
            wrong.push(FieldError::duplicate(path, *family));
        }
    }
    wrong
}

fn address_list(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let ips = cluster_ips(new);
    let known = old.map(cluster_ips).unwrap_or_default();
    let mut wrong = Vec::new();
    for (index, text) in ips.iter().enumerate() {
        if index == 0 && *text == NONE {
            if ips.len() > 1 {
                let detail = "'None' must be the first and only value";
                wrong.push(FieldError::invalid("spec.clusterIPs", ips.clone(), detail));
            }
            continue;
        }
        wrong.extend(ip::address(&format!("spec.clusterIPs[{index}]"), text, &known));
    }
    wrong
}

fn one_per_family(service: &Value) -> Option<FieldError> {
    let parsed: Vec<_> = parsed_ips(service).collect();
    let is_dual = parsed.iter().any(|ip| ip.is_ipv4()) && parsed.iter().any(|ip| ip.is_ipv6());
    (cluster_ips(service).len() > 1 && !is_dual).then(|| {
        let detail = "may specify no more than one IP for each IP family";
        FieldError::invalid("spec.clusterIPs", cluster_ips(service), detail)
    })
}

fn family_of_each(service: &Value) -> Vec<FieldError> {
    if is_headless(service) {
        return Vec::new();
    }
    let families = field::texts(service, "spec.ipFamilies");
    let pairs = cluster_ips(service).into_iter().zip(families).enumerate();
    pairs
        .filter(|(_, (text, family))| {
            FAMILIES.contains(family) && text.parse().is_ok_and(|address| ip::family(address) != *family)
        })
        .map(|(index, (text, family))| {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            FieldError::invalid(format!("spec.clusterIPs[{index}]"), text, detail)
        })
        .collect()
}

fn external_ips(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let known = old.map(|old| field::texts(old, "spec.externalIPs")).unwrap_or_default();
    let mut wrong = Vec::new();
    for (index, text) in field::texts(new, "spec.externalIPs").into_iter().enumerate() {
        let path = format!("spec.externalIPs[{index}]");
        match (ip::address(&path, text, &known), text.parse()) {
            (Some(error), _) => wrong.push(error),
            (None, Ok(address)) => wrong.extend(ip::reachable(&path, text, address)),
            (None, Err(_)) => {}
        }
    }
    wrong
}

fn external_policy(service: &Value) -> Vec<FieldError> {
    let path = "spec.externalTrafficPolicy";
    let policy = field::text(service, path);
    let mut wrong = Vec::new();
    if is_externally_accessible(service) {
        wrong.extend(enumerated(service, path, &["Cluster", "Local"]));
    } else if !policy.is_empty() {
        wrong.push(FieldError::invalid(path, policy, "may only be set for externally-accessible services"));
    }
    let path = "spec.healthCheckNodePort";
    match field::number(service, path) {
        0 => {}
        port if needs_health_check(service) => wrong.extend(ports::number(path, port)),
        port => wrong.push(FieldError::invalid(path, port, HEALTH_PORT_PLACE)),
    }
    wrong
}

/// Judged for every type: an ExternalName may carry the field for historical reasons.
fn internal_policy(service: &Value) -> Option<FieldError> {
    let path = "spec.internalTrafficPolicy";
    let policy = field::at(service, path)?;
    let is_known = policy == "Cluster" || policy == "Local";
    (!is_known).then(|| FieldError::not_supported(path, policy.clone(), &["Cluster", "Local"]))
}

fn distribution(service: &Value) -> Option<FieldError> {
    let path = "spec.trafficDistribution";
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let value = field::at(service, path)?;
    // The one list that the server does not sort.
    let detail = r#"supported values: "PreferClose", "PreferSameZone", "PreferSameNode""#;
    (!known.iter().any(|name| value == name))
        .then(|| FieldError::new(path, Problem::NotSupported(value.clone()), detail))
}

fn enumerated(service: &Value, path: &str, known: &[&str]) -> Option<FieldError> {
    match field::text(service, path) {
        "" => Some(FieldError::required(path, "")),
        value if !known.contains(&value) => Some(FieldError::not_supported(path, value, known)),
        _ => None,
    }
}
