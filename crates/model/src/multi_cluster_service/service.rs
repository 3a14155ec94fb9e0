//! The Service as it goes into a member.
//!
//! What the hub's API server gave it belongs to the hub: addresses, node ports, IP families. So does what Tombolo itself
//! noted on it, where the hub is a member, too. What its author wrote goes along.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use serde_json::{Value, json};
use thiserror::Error;
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::networking::ExposurePort;
use tombolo_api::karmada::work::{
    CONFLICT_RESOLUTION_ANNOTATION, NAME_ANNOTATION, NAMESPACE_ANNOTATION, Work,
};
use tombolo_api::service::{HEADLESS, LAST_APPLIED_ANNOTATION};
use tombolo_api::tombolo::{
    ADOPTED_ANNOTATION, LOAD_BALANCER_RECORD_ANNOTATION, MANAGED_BY_LABEL, NATIVE_IMPORT_LABEL,
    PRESERVED_ANNOTATION, SET_ASIDE_SELECTOR_ANNOTATION, WORK_GENERATION_ANNOTATION,
};

use super::{Place, View};
use crate::strategy::own_selector;

/// Written by kubectl for itself, or by us about the Service of this one cluster: in others it would be untrue, and they would
/// fight over it. Conflicts are resolved as the MultiClusterService says; the template has the word only from a Work.
const NOT_SENT: [&str; 9] = [
    LAST_APPLIED_ANNOTATION,
    ADOPTED_ANNOTATION,
    PRESERVED_ANNOTATION,
    WORK_GENERATION_ANNOTATION,
    SET_ASIDE_SELECTOR_ANNOTATION,
    LOAD_BALANCER_RECORD_ANNOTATION,
    CONFLICT_RESOLUTION_ANNOTATION,
    NAME_ANNOTATION,
    NAMESPACE_ANNOTATION,
];

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
    let mut names = BTreeSet::new();
    for wish in listed {
        let mut meant = meant(wish, template).peekable();
        if meant.peek().is_none() {
            let name = called(wish).map(|name| format!(" {name}")).unwrap_or_default();
            return Err(Unlisted(format!("port{name} {}", wish.port)));
        }
        names.extend(meant.map(|port| port.name.clone().unwrap_or_default()));
    }
    Ok(Exposed::Named(names))
}

/// Whether the Service has a port that is meant.
pub(super) fn has(template: &Service, wish: &ExposurePort) -> bool {
    meant(wish, template).next().is_some()
}

fn meant<'a>(wish: &'a ExposurePort, template: &'a Service) -> impl Iterator<Item = &'a ServicePort> {
    let ports = template.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.filter(|port| {
        port.port == wish.port && called(wish).is_none_or(|name| port.name.as_deref() == Some(name))
    })
}

fn called(wish: &ExposurePort) -> Option<&str> {
    wish.name.as_deref().filter(|name| !name.is_empty())
}

/// The resolution of conflicts that the manifest in a Work asks for.
pub(super) fn resolution_in(work: &Work) -> Option<&str> {
    let manifest = work.spec.workload.as_ref()?.manifests.first()?;
    manifest["metadata"]["annotations"][CONFLICT_RESOLUTION_ANNOTATION].as_str()
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
    let mut labels = own_labels(template);
    labels.insert(MANAGED_LABEL.to_owned(), "true".to_owned());
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_SENT.contains(&key.as_str()));
    annotations.insert(NAMESPACE_ANNOTATION.to_owned(), place.0.clone());
    annotations.insert(NAME_ANNOTATION.to_owned(), place.1.clone());
    if let Some(resolution) = view.annotation(CONFLICT_RESOLUTION_ANNOTATION) {
        annotations.insert(CONFLICT_RESOLUTION_ANNOTATION.to_owned(), resolution.clone());
    }
    let spec = template.spec.as_ref().map(|spec| ServiceSpec {
        selector: Some(own_selector(template)).filter(|selector| !selector.is_empty()),
        ..portable(spec, exposed, balanced)
    });
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service.name,
            "namespace": service.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// The labels of a Service, but for those that say that it was made for an import.
fn own_labels(template: &Service) -> BTreeMap<String, String> {
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    if labels.remove(NATIVE_IMPORT_LABEL).is_some() {
        labels.remove(MANAGED_BY_LABEL);
    }
    labels
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
