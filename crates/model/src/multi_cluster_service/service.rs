//! The Service as it goes into a member.
//!
//! What the hub's API server gave it belongs to the hub: addresses, node ports, IP families. What its author wrote goes
//! along.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use serde_json::{Value, json};
use thiserror::Error;
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::networking::ExposurePort;
use tombolo_api::karmada::work::{CONFLICT_RESOLUTION_ANNOTATION, NAME_ANNOTATION, NAMESPACE_ANNOTATION};
use tombolo_api::service::HEADLESS;

use super::{Place, View};

/// Written by kubectl for itself.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A port of the MultiClusterService that its Service does not have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("spec.ports names {0}, which the Service does not have")]
pub struct Unlisted(String);

/// The ports that consumers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exposed {
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl Exposed {
    /// Whether the port of this name can be seen. Ports of slices have the names of the Service's.
    pub(crate) fn shows(&self, name: Option<&str>) -> bool {
        match self {
            Exposed::All => true,
            Exposed::Named(names) => names.contains(name.unwrap_or_default()),
        }
    }
}

/// Which ports of the Service are meant.
pub(super) fn exposed(listed: &[ExposurePort], template: &Service) -> Result<Exposed, Unlisted> {
    if listed.is_empty() {
        return Ok(Exposed::All);
    }
    let ports = template.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<&ServicePort> = ports.collect();
    let mut names = BTreeSet::new();
    for wish in listed {
        let name = wish.name.as_deref().filter(|name| !name.is_empty());
        let is_meant = |port: &&&ServicePort| {
            port.port == wish.port && name.is_none_or(|name| port.name.as_deref() == Some(name))
        };
        let mut meant = ports.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            return Err(Unlisted(format!("port{name} {}", wish.port)));
        }
        names.extend(meant.map(|port| port.name.clone().unwrap_or_default()));
    }
    Ok(Exposed::Named(names))
}

/// The object that a Work at `place` carries, and whether it shall have a load balancer.
pub(super) fn manifest(
    view: &View<'_>,
    template: &Service,
    exposed: &Exposed,
    balanced: bool,
    place: &Place,
) -> Value {
    let service = view.service();
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED_ANNOTATION);
    annotations.insert(NAMESPACE_ANNOTATION.to_owned(), place.0.clone());
    annotations.insert(NAME_ANNOTATION.to_owned(), place.1.clone());
    if let Some(resolution) = view.annotation(CONFLICT_RESOLUTION_ANNOTATION) {
        annotations.insert(CONFLICT_RESOLUTION_ANNOTATION.to_owned(), resolution.clone());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service.name,
            "namespace": service.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": template.spec.as_ref().map(|spec| portable(spec, exposed, balanced)),
    })
}

/// The part of a Service that means the same in every cluster.
fn portable(spec: &ServiceSpec, exposed: &Exposed, balanced: bool) -> ServiceSpec {
    let is_headless = spec.cluster_ip.as_deref() == Some(HEADLESS);
    let single = spec.ip_family_policy.as_deref() == Some("SingleStack");
    let ports = spec.ports.iter().flatten().filter(|port| exposed.shows(port.name.as_deref()));
    let type_ = if balanced { Some("LoadBalancer".to_owned()) } else { spec.type_.clone() };
    ServiceSpec {
        type_,
        cluster_ip: spec.cluster_ip.clone().filter(|_| is_headless),
        cluster_ips: spec.cluster_ips.clone().filter(|_| is_headless),
        ip_families: None,
        ip_family_policy: spec.ip_family_policy.clone().filter(|_| !single),
        health_check_node_port: None,
        ports: Some(ports.map(|port| ServicePort { node_port: None, ..port.clone() }).collect()),
        ..spec.clone()
    }
}
