//! `LoadBalancer`: consumption clusters' Services have load balancers, and the hub shows all their addresses.
//!
//! Who makes the load balancers is the members' business. What they report of them is gathered here: the addresses of
//! every consumption cluster that is alive, in the order of the clusters' names.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use thiserror::Error;
use tombolo_api::karmada::networking::{ExposureType, MultiClusterService};
use tombolo_api::karmada::work::Work;
use tombolo_api::service::HEADLESS;

use super::conditions::{Held, service_work};
use super::{Roles, View, place};
use crate::syntax;

/// As many addresses as one cluster may have: one per family and a few to spare.
const MOST_ADDRESSES: usize = 16;

/// A Service that no load balancer can be made for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("spec.types has LoadBalancer, but the Service {0}")]
pub struct NotBalanceable(&'static str);

/// Whether the Services of consumption clusters shall have load balancers.
pub(super) fn is_wanted(object: &MultiClusterService) -> bool {
    object.spec.types.contains(&ExposureType::LoadBalancer)
}

/// Refuses what no API server would take.
pub(super) fn check(object: &MultiClusterService, template: &Service) -> Result<(), NotBalanceable> {
    let spec = template.spec.as_ref();
    let is_headless = spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some(HEADLESS);
    let is_alias = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    match (is_wanted(object), is_headless, is_alias) {
        (true, true, _) => Err(NotBalanceable("is headless")),
        (true, _, true) => Err(NotBalanceable("is an ExternalName")),
        _ => Ok(()),
    }
}

/// The addresses of all consumption clusters that are alive.
pub(super) fn gather(view: &View<'_>, roles: &Roles<'_>) -> LoadBalancerStatus {
    let mut ingress: Vec<LoadBalancerIngress> = Vec::new();
    if is_wanted(view.object) {
        let held: Held<'_> = view.works.iter().map(|work| (place(work), *work)).collect();
        for (cluster, member) in &roles.consumption {
            let reported =
                member.filter(|member| member.ready).and_then(|_| service_work(view, &held, cluster));
            for one in reported.into_iter().flat_map(addresses).take(MOST_ADDRESSES) {
                if !ingress.contains(&one) {
                    ingress.push(one);
                }
            }
        }
    }
    LoadBalancerStatus { ingress: Some(ingress).filter(|ingress| !ingress.is_empty()) }
}

/// What a member says about its load balancer. It may say anything, so what is no address is left out.
fn addresses(work: &Work) -> Vec<LoadBalancerIngress> {
    let statuses = work.status.iter().flat_map(|status| &status.manifest_statuses);
    let reported = statuses.filter_map(|one| one.status.as_ref()?.get("loadBalancer").cloned());
    let read = reported.filter_map(|status| serde_json::from_value::<LoadBalancerStatus>(status).ok());
    let mut found: Vec<LoadBalancerIngress> =
        read.flat_map(|status| status.ingress.unwrap_or_default()).filter(is_address).collect();
    for port in found.iter_mut().flat_map(|one| one.ports.iter_mut().flatten()) {
        port.error = port.error.take().filter(|error| syntax::is_qualified_name(error));
    }
    found
}

fn is_address(ingress: &LoadBalancerIngress) -> bool {
    let is_ip = |text: &String| text.parse::<IpAddr>().is_ok();
    match (&ingress.ip, &ingress.hostname) {
        (None, None) => false,
        (ip, name) => {
            ip.as_ref().is_none_or(is_ip) && name.as_ref().is_none_or(|name| syntax::is_dns_subdomain(name))
        }
    }
}
