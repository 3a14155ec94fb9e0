//! Where a node sends the traffic of a Service: every choice, made before a proxy sees it.
//!
//! [`route()`] takes a Service, its slices and the node, and returns for each address of the Service which endpoints get its
//! connections, or why they are refused. It depends on nothing else, not even on the order of the slices. Headless Services
//! and those that are only a name have no routes.
//!
//! ```text
//! Service ── wanted ─────────────────────────────┐
//! EndpointSlices ── endpoint ── selection ── frontends ── Routes
//! import ── imported ──── topology, near ┘
//! ```
//!
//! Decisions that the specifications leave open, and where they are explained: zones and regions of other clusters and
//! `tombolo.dev/prefer` (`near`), source ranges of one family (`ranges`), which imported endpoints are on this node
//! (`endpoint`).

mod endpoint;
mod explain;
mod frontends;
mod gathered;
mod imported;
mod near;
mod node;
mod ranges;
mod route;
mod selection;
mod topology;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tombolo_api::service::IpFamily;

use crate::address::family_of;
use crate::complaint::Complaint;
use endpoint::{Endpoints, State};
use frontends::Frontends;
use gathered::Gathered;
use selection::{Selection, View};
use wanted::Wanted;

pub use explain::explain;
pub use imported::{Imported, import_of};
pub use node::Node;
pub use route::{
    Action, Backend, Balance, Claim, Frontend, FrontendKind, HealthCheck, Nearness, Protocol, Reason, Route,
    Routes, Tier,
};

/// What there is to know about one Service on one node.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub service: &'a Service,
    /// All that carry the Service's name in `kubernetes.io/service-name`, in its namespace, in any order.
    pub slices: Vec<&'a EndpointSlice>,
    pub node: &'a Node,
    /// The import, if the Service is the derived one of an import (see [`import_of`]).
    pub imported: Option<&'a Imported>,
}

/// What the node does for the Service, and what was wrong with the input.
pub fn route(input: &Input<'_>) -> (Routes, Vec<Complaint>) {
    let mut gathered = Gathered::default();
    let Some(wanted) = Wanted::read(input.service, &mut gathered) else {
        return (Routes::default(), gathered.complaints().collect());
    };
    let endpoints = Endpoints::read(&input.slices, input.node, &mut gathered);
    let (view, mut complaints) = view(input, &wanted);
    let mut frontends = Frontends::new(&wanted, input.node);
    for port in &wanted.ports {
        for &cluster_ip in &wanted.cluster_ips {
            let of_port = endpoints.of(family_of(cluster_ip), port.protocol, port.name);
            frontends.add(cluster_ip, port, &Selection::of(of_port, &view), &mut gathered);
        }
    }
    let health_check =
        wanted.health_check_port.map(|port| HealthCheck { port, local_endpoints: count_local(&endpoints) });
    let routes = Routes { routes: frontends.routes(), health_check };
    complaints.extend(gathered.complaints());
    (routes, complaints)
}

fn view<'a>(input: &Input<'a>, wanted: &Wanted<'_>) -> (View<'a>, Vec<Complaint>) {
    let mut complaints: Vec<Complaint> =
        input.imported.map(|imported| imported.complaints().to_vec()).unwrap_or_default();
    let mut prefer = input.imported.and_then(|imported| imported.prefer()).map(<[_]>::to_vec);
    // The annotation of an exporting Service is meant for those who import it; it arrives on the derived Service.
    let is_derived = input.imported.is_some() || import_of(input.service).is_some();
    if is_derived && prefer.is_none() {
        let (own, complaint) = imported::preference(&input.service.metadata);
        prefer = own;
        complaints.extend(complaint);
    }
    let prefer = prefer.filter(|tiers| !tiers.is_empty());
    let view = View { node: input.node, imported: input.imported, prefer, sticky: wanted.sticky };
    (view, complaints)
}

/// Different addresses of ready endpoints on the node, in the family that has more: the two addresses of a pod are not
/// two places to go to.
fn count_local(endpoints: &Endpoints<'_>) -> usize {
    let ready = endpoints.iter().filter(|endpoint| !endpoint.remote && endpoint.state == State::Ready);
    let mut by_family: BTreeMap<IpFamily, BTreeSet<IpAddr>> = BTreeMap::new();
    for endpoint in ready {
        by_family.entry(family_of(endpoint.address)).or_default().insert(endpoint.address);
    }
    by_family.values().map(BTreeSet::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
