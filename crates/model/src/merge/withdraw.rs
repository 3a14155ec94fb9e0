//! All exports agree, or there is no service (KEP-1645 first edition, Global Properties).
//!
//! Ports, IP family and whether the service is headless are global. Ports may complete each other as long as none
//! contradicts; the service has one family, which must be one that all exports have (of several, the first of the oldest
//! export).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use tombolo_api::mcs::ConflictReason;
use tombolo_api::service::{IpFamily, ServicePort};
use tombolo_api::tombolo::OfferType;

use super::{Ranked, Settled};
use crate::cluster::ClusterId;
use crate::verdict::{Conflict, listing};

/// What is said about one subject, and by whom.
type Sides<T> = BTreeMap<T, BTreeSet<ClusterId>>;

pub(super) fn settle(exports: &[Ranked]) -> Settled {
    let common = common_families(exports);
    let conflicts = [port_conflict(exports), type_conflict(exports), family_conflict(exports, &common)];
    Settled {
        ports: superset(exports),
        families: common.into_iter().take(1).collect(),
        conflicts: conflicts.into_iter().flatten().collect(),
    }
}

/// All ports, in the order in which the oldest export that has them names them.
fn superset(exports: &[Ranked]) -> Vec<ServicePort> {
    let mut superset: Vec<ServicePort> = Vec::new();
    let mut seen = BTreeSet::new();
    for port in exports.iter().flat_map(|export| &export.offer.ports) {
        if seen.insert((port.name.clone(), port.protocol, port.port)) {
            superset.push(port.clone());
        }
    }
    superset
}

/// The families every export has, in the order of the oldest one.
fn common_families(exports: &[Ranked]) -> Vec<IpFamily> {
    let (oldest, younger) = exports
        .split_first()
        .map_or((&[][..], exports), |(oldest, younger)| (&oldest.offer.ip_families[..], younger));
    let everywhere =
        |family: &&IpFamily| younger.iter().all(|export| export.offer.ip_families.contains(family));
    oldest.iter().filter(everywhere).copied().collect()
}

fn port_conflict(exports: &[Ranked]) -> Option<Conflict> {
    let mut by_name: BTreeMap<&str, Sides<String>> = BTreeMap::new();
    let mut by_number: BTreeMap<String, Sides<&str>> = BTreeMap::new();
    for (cluster, port) in all_ports(exports) {
        let number = format!("{}/{}", port.port, port.protocol);
        let name = port.name.as_deref().unwrap_or("(unnamed)");
        note(by_name.entry(name).or_default(), number.clone(), cluster);
        note(by_number.entry(number).or_default(), name, cluster);
    }
    let names = by_name.iter().filter(|(_, sides)| sides.len() > 1);
    let numbers = by_number.iter().filter(|(_, sides)| sides.len() > 1);
    let mut found: Vec<(String, BTreeSet<ClusterId>)> = Vec::new();
    found.extend(names.map(|(name, sides)| (format!("port {name} is {}", say(sides)), clusters(sides))));
    found.extend(
        numbers.map(|(number, sides)| (format!("port {number} is named {}", say(sides)), clusters(sides))),
    );
    found.extend(unnamed_beside_others(exports));
    conflict(ConflictReason::PortConflict, found)
}

/// A Service of several ports names each, so an unnamed one of one cluster cannot join those of another.
fn unnamed_beside_others(exports: &[Ranked]) -> Option<(String, BTreeSet<ClusterId>)> {
    let mut sides: Sides<&str> = BTreeMap::new();
    for (cluster, port) in all_ports(exports) {
        note(&mut sides, if port.name.is_some() { "with a name" } else { "without a name" }, cluster);
    }
    (sides.len() > 1).then(|| (format!("there are ports {}", say(&sides)), clusters(&sides)))
}

fn type_conflict(exports: &[Ranked]) -> Option<Conflict> {
    let mut sides: Sides<&str> = BTreeMap::new();
    for export in exports {
        let word = match export.offer.type_ {
            OfferType::ClusterIp => "not headless",
            OfferType::Headless => "headless",
        };
        note(&mut sides, word, &export.cluster);
    }
    let found = (sides.len() > 1).then(|| (format!("the Service is {}", say(&sides)), clusters(&sides)));
    conflict(ConflictReason::TypeConflict, found.into_iter().collect())
}

fn family_conflict(exports: &[Ranked], common: &[IpFamily]) -> Option<Conflict> {
    if !common.is_empty() {
        return None;
    }
    let mut sides: Sides<String> = BTreeMap::new();
    for export in exports {
        let families: Vec<&str> = export.offer.ip_families.iter().map(|family| family.as_str()).collect();
        note(&mut sides, families.join("+"), &export.cluster);
    }
    let found = (format!("the IP family is {}", say(&sides)), clusters(&sides));
    conflict(ConflictReason::IpFamilyConflict, vec![found])
}

fn all_ports(exports: &[Ranked]) -> impl Iterator<Item = (&ClusterId, &ServicePort)> {
    exports.iter().flat_map(|export| export.offer.ports.iter().map(move |port| (&export.cluster, port)))
}

fn note<T: Ord>(sides: &mut Sides<T>, what: T, cluster: &ClusterId) {
    sides.entry(what).or_default().insert(cluster.clone());
}

/// `80/TCP in a, b but 8080/TCP in c`.
fn say<T: Display>(sides: &Sides<T>) -> String {
    listing(sides.iter().map(|(what, who)| format!("{what} in {}", listing(who.iter(), ", "))), " but ")
}

fn clusters<T>(sides: &Sides<T>) -> BTreeSet<ClusterId> {
    sides.values().flatten().cloned().collect()
}

fn conflict(reason: ConflictReason, found: Vec<(String, BTreeSet<ClusterId>)>) -> Option<Conflict> {
    if found.is_empty() {
        return None;
    }
    let what = listing(found.iter().map(|(what, _)| what), "; ");
    let disagreeing = found.into_iter().flat_map(|(_, who)| who).collect();
    Some(Conflict { reason, what, disagreeing })
}
