//! Terms and addresses put together: what is served in the end.

use std::net::IpAddr;

use tombolo_api::loadbalancer::Feature;
use tombolo_api::service::IpFamily;

use super::ledger::{Grant, Shortage};
use super::verdict::{Degradation, Terms, requires};
use super::wish::Wish;

/// What becomes of a Service once addresses have been looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Served at these addresses.
    Serve { addresses: Vec<IpAddr>, degraded: Vec<Degradation>, notes: Vec<String> },
    /// A required feature cannot be had. The KEP has no other reason for that than `Unsupported`.
    Refuse(Vec<String>),
    /// There is no address.
    Fail(String),
}

/// Puts terms and addresses together.
///
/// An address that was asked for and is not to be had degrades the load balancer, or refuses it where `LoadBalancerIP` is
/// required. One family of two that has no address is as one that is not supported.
pub fn settle(wish: &Wish, terms: &Terms, grant: &Grant) -> Settled {
    if grant.addresses.is_empty() {
        return Settled::Fail(shortages(&grant.missing));
    }
    let mut degraded = terms.degraded.clone();
    let mut refusals = Vec::new();
    let mut lack = |feature: Feature, why: String| match requires(wish, feature) {
        true => refusals.push(format!("{why}, and {feature} is required")),
        false => degraded.push(Degradation::new(feature, why)),
    };
    if !grant.missing.is_empty() {
        lack(Feature::IpFamilies, shortages(&grant.missing));
    }
    if !grant.denied.is_empty() {
        let why: Vec<&str> = grant.denied.iter().map(|denied| denied.why.as_str()).collect();
        lack(Feature::LoadBalancerIp, why.join(", "));
    }
    if !refusals.is_empty() {
        return Settled::Refuse(refusals);
    }
    let stray = |address: &IpAddr| {
        format!("{address} is in no AddressPool for this Service any more and stays until it is given up")
    };
    let notes = grant.stray.iter().map(stray).chain(wish.complaints.iter().map(ToString::to_string));
    Settled::Serve { addresses: grant.addresses.clone(), degraded, notes: notes.collect() }
}

fn shortages(missing: &[(IpFamily, Shortage)]) -> String {
    let mut said: Vec<String> = missing.iter().map(|(_, shortage)| shortage.to_string()).collect();
    said.dedup();
    said.join("; ")
}
