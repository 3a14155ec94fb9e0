//! What a client may leave out of a Service.

use serde_json::{Value, json};

use super::{Features, is_externally_accessible, kind};
use crate::rules::field;

/// How long a client sticks to an endpoint unless told otherwise: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

/// Fills what follows from the object alone.
pub(crate) fn default(service: &mut Value, features: &Features) {
    drop_empty(service);
    field::fill(service, "spec.type", "ClusterIP");
    session_affinity(service);
    for port in field::list_mut(service, "spec.ports") {
        default_port(port);
    }
    if is_externally_accessible(service) {
        field::fill(service, "spec.externalTrafficPolicy", "Cluster");
    }
    let is_routable = matches!(kind(service), "ClusterIP" | "NodePort" | "LoadBalancer");
    if is_routable && features.service_internal_traffic_policy {
        field::fill_absent(service, "spec.internalTrafficPolicy", "Cluster");
    }
    if kind(service) == "LoadBalancer" {
        field::fill_absent(service, "spec.allocateLoadBalancerNodePorts", true);
        for ingress in field::list_mut(service, "status.loadBalancer.ingress") {
            default_mode(ingress);
        }
    }
}

/// What a reader never gets to see although it may be stored: an ExternalName has no traffic to have a policy for.
pub(crate) fn on_read(service: &mut Value) {
    if kind(service) == "ExternalName" {
        field::remove(service, "spec.internalTrafficPolicy");
    }
}

/// An address of a load balancer is one that packets arrive with, unless the provider says that it terminates them.
fn default_mode(ingress: &mut Value) {
    if !field::text(ingress, "ip").is_empty() {
        field::fill_absent(ingress, "ipMode", "VIP");
    }
}

fn session_affinity(service: &mut Value) {
    field::fill(service, "spec.sessionAffinity", "None");
    match field::text(service, "spec.sessionAffinity") {
        "None" => drop(field::remove(service, "spec.sessionAffinityConfig")),
        "ClientIP" if field::at(service, "spec.sessionAffinityConfig.clientIP.timeoutSeconds").is_none() => {
            let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            field::set(service, "spec.sessionAffinityConfig", config);
        }
        _ => {}
    }
}

fn default_port(port: &mut Value) {
    if !port.is_object() {
        return;
    }
    field::fill(port, "protocol", "TCP");
    field::fill(port, "targetPort", field::number(port, "port"));
    if field::number(port, "nodePort") == 0 {
        field::remove(port, "nodePort");
    }
}

/// Empty values of fields that are absent when empty, so that "not given" has one form only.
fn drop_empty(service: &mut Value) {
    if let Some(spec) = field::section(service, "spec") {
        spec.retain(|_, value| !value.is_null());
    }
    for path in [
        "spec.clusterIP",
        "spec.clusterIPs",
        "spec.ipFamilies",
        "spec.externalTrafficPolicy",
        "spec.healthCheckNodePort",
        "spec.requiredLoadBalancerFeatures",
    ] {
        if field::is_empty(field::at(service, path)) {
            field::remove(service, path);
        }
    }
}
