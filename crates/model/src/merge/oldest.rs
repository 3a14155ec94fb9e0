//! The oldest export decides (KEP-1645 today, Constraints and Conflict Resolution).
//!
//! Ports are a union in which older exports take names and numbers first. Of IP families every one is kept, so that no
//! endpoint is lost; but a client of one family then reaches only part of them, and that is said.

use std::collections::BTreeSet;

use tombolo_api::mcs::ConflictReason;
use tombolo_api::service::{IpFamily, ServicePort, SessionAffinity};
use tombolo_api::tombolo::{OfferType, ServiceOfferSpec};

use super::{Ranked, Settled};
use crate::verdict::Conflict;

pub(super) fn settle(exports: &[Ranked]) -> Settled {
    Settled {
        ports: union_of_ports(exports),
        families: union_of_families(exports),
        conflicts: conflicts(exports),
    }
}

/// Every port whose name, and then whose protocol and number, no older export has taken.
fn union_of_ports(exports: &[Ranked]) -> Vec<ServicePort> {
    let mut union: Vec<ServicePort> = Vec::new();
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for port in exports.iter().flat_map(|export| &export.offer.ports) {
        // Offers are clean, so an unnamed port is the only one of its export.
        let stands_alone = port.name.is_none() || union.first().is_some_and(|first| first.name.is_none());
        let taken = names.contains(&port.name) || numbers.contains(&(port.protocol, port.port));
        if taken || (stands_alone && !union.is_empty()) {
            continue;
        }
        names.insert(port.name.clone());
        numbers.insert((port.protocol, port.port));
        union.push(port.clone());
    }
    union
}

fn union_of_families(exports: &[Ranked]) -> Vec<IpFamily> {
    let mut union = Vec::new();
    for family in exports.iter().flat_map(|export| &export.offer.ip_families) {
        if !union.contains(family) {
            union.push(*family);
        }
    }
    union
}

fn conflicts(exports: &[Ranked]) -> Vec<Conflict> {
    use ConflictReason as Reason;
    let found = [
        differing(exports, Reason::PortConflict, "ports", port_set),
        differing(exports, Reason::TypeConflict, "type (headless or not)", |offer| offer.type_),
        differing(exports, Reason::LabelsConflict, "exportedLabels", |offer| offer.exported_labels.clone()),
        differing(exports, Reason::AnnotationsConflict, "exportedAnnotations", |offer| {
            offer.exported_annotations.clone()
        }),
        differing(exports, Reason::InternalTrafficPolicyConflict, "internalTrafficPolicy", |offer| {
            offer.internal_traffic_policy.unwrap_or_default()
        }),
        differing(exports, Reason::TrafficDistributionConflict, "trafficDistribution", |offer| {
            offer.traffic_distribution.clone()
        }),
        differing(
            exports,
            Reason::IpFamilyConflict,
            "ipFamilies (a client reaches only the endpoints of its own family)",
            |offer| offer.ip_families.iter().copied().collect::<BTreeSet<_>>(),
        ),
    ];
    found.into_iter().flatten().chain(affinity_conflicts(exports)).collect()
}

/// Affinity means nothing for a headless service, and a timeout only where there is affinity to time out.
fn affinity_conflicts(exports: &[Ranked]) -> Vec<Conflict> {
    use ConflictReason as Reason;
    let oldest = &exports[0].offer;
    if oldest.type_ == OfferType::Headless {
        return Vec::new();
    }
    let affinity = differing(exports, Reason::SessionAffinityConflict, "sessionAffinity", |offer| {
        offer.session_affinity
    });
    let timeout = |offer: &ServiceOfferSpec| match offer.session_affinity {
        SessionAffinity::ClientIp if oldest.session_affinity == SessionAffinity::ClientIp => {
            offer.session_affinity_config.clone()
        }
        _ => oldest.session_affinity_config.clone(),
    };
    let config = differing(exports, Reason::SessionAffinityConfigConflict, "sessionAffinityConfig", timeout);
    affinity.into_iter().chain(config).collect()
}

fn port_set(offer: &ServiceOfferSpec) -> BTreeSet<(Option<String>, &'static str, i32, Option<String>)> {
    let key = |port: &ServicePort| {
        (port.name.clone(), port.protocol.as_str(), port.port, port.app_protocol.clone())
    };
    offer.ports.iter().map(key).collect()
}

/// A conflict if some export has the property otherwise than the oldest one.
fn differing<T: PartialEq>(
    exports: &[Ranked],
    reason: ConflictReason,
    what: &str,
    property: impl Fn(&ServiceOfferSpec) -> T,
) -> Option<Conflict> {
    let (oldest, younger) = exports.split_first()?;
    let decided = property(&oldest.offer);
    let disagreeing: BTreeSet<_> = younger
        .iter()
        .filter(|export| property(&export.offer) != decided)
        .map(|export| export.cluster.clone())
        .collect();
    (!disagreeing.is_empty()).then(|| Conflict { reason, what: what.to_owned(), disagreeing })
}
