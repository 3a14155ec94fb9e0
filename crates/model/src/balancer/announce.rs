//! Which addresses are announced, and which nodes may do it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use tombolo_api::condition;
use tombolo_api::loadbalancer::{Condition, Service};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;

use super::concern::{Concern, concern};
use crate::verdict::listing;

/// Label of a node that shall take no traffic of load balancers (well-known label of Kubernetes).
const EXCLUDED_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Set on a node that is about to be taken away.
const LEAVING_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// The addresses of a Service that are announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub addresses: Vec<IpAddr>,
    /// Only by nodes that have an endpoint.
    pub local: bool,
}

/// What is announced for a Service; `None` for those of other classes and those that do not serve.
pub fn announced(service: &Service, class: Option<&str>) -> Option<Announced> {
    let wanted = concern(service, class) == Concern::Wanted;
    if !wanted || !condition::is_true(service.conditions(), Condition::Serving) {
        return None;
    }
    let addresses = service.ingress().iter().filter_map(|entry| entry.ip.as_deref()?.parse().ok());
    let local = service.spec.core.external_traffic_policy.as_deref() == Some("Local");
    Some(Announced { addresses: addresses.collect(), local })
}

/// The nodes that have an endpoint of a Service: a ready one, or, where no node has that, one that still serves while it
/// terminates. Endpoints of other clusters are on no node of this one.
pub fn local_nodes<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> BTreeSet<&'a str> {
    let (mut ready, mut draining) = (BTreeSet::new(), BTreeSet::new());
    let foreign = |slice: &EndpointSlice| {
        slice.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(SOURCE_CLUSTER_LABEL))
    };
    for endpoint in
        slices.into_iter().filter(|slice| !foreign(slice)).flat_map(|slice| slice.endpoints.iter().flatten())
    {
        let Some(node) = endpoint.node_name.as_deref() else { continue };
        let unsaid = EndpointConditions::default();
        let conditions = endpoint.conditions.as_ref().unwrap_or(&unsaid);
        if conditions.ready.unwrap_or(true) {
            ready.insert(node);
        } else if conditions.serving.unwrap_or(true) && conditions.terminating.unwrap_or(false) {
            draining.insert(node);
        }
    }
    if ready.is_empty() { draining } else { ready }
}

/// Whether a node may take traffic of load balancers at all. One that is not ready may: its proxy goes on without it.
pub fn may_announce(node: &Node) -> bool {
    forbidden(node).is_none()
}

/// Why a node may not.
fn forbidden(node: &Node) -> Option<String> {
    let labels = node.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(EXCLUDED_LABEL)).is_some_and(|value| value != "false") {
        return Some(format!("has the label {EXCLUDED_LABEL}"));
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let leaving = taints.into_iter().flatten().any(|taint| taint.key == LEAVING_TAINT);
    (leaving || node.metadata.deletion_timestamp.is_some()).then(|| "is about to be removed".to_owned())
}

/// A node whose balancer runs.
#[derive(Clone, Copy, Debug)]
pub struct Herald<'a> {
    pub name: &'a str,
    /// `None`: there is no such Node.
    pub node: Option<&'a Node>,
    /// Whether it has no link to answer on.
    pub mute: bool,
}

/// Why no node announces addresses; `None` if any does.
pub fn unannounced<'a>(heralds: impl IntoIterator<Item = Herald<'a>>) -> Option<String> {
    let mut reasons = Vec::new();
    for Herald { name, node, mute } in heralds {
        let why = match node {
            _ if mute => Some("has no link to answer on".to_owned()),
            None => Some("is no Node of the cluster".to_owned()),
            Some(node) => forbidden(node),
        };
        reasons.push(format!("{name} {}", why?));
    }
    let why = match reasons.is_empty() {
        true => "tombolo balancer has to run on one at least".to_owned(),
        false => listing(reasons.into_iter(), ", "),
    };
    Some(format!("no node announces addresses: {why}"))
}

/// The addresses that a node says it has.
pub fn node_addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let status = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    status.into_iter().flatten().filter_map(|address| address.address.parse().ok())
}
