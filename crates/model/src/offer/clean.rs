//! Making any offer one that the merge can use.
//!
//! The API server checks offers when they are written, but the hub may run an older schema and its members another
//! release. After [`clean`] an offer has valid ports that do not contradict each other, at least one IP family, and labels
//! and annotations that an API server takes. Cleaning twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_api::service::{IpFamily, ServicePort, SessionAffinity};
use tombolo_api::tombolo::ServiceOfferSpec;

use super::{affinity_config, affinity_seconds};
use crate::complaint::Complaint;
use crate::syntax::{ANNOTATIONS_LIMIT, LABEL_LIMIT, is_dns_label, is_label_value, is_qualified_name};

/// As many as the schema of an offer takes.
const MAX_PORTS: usize = 1000;
const MAX_TOPOLOGY_KEYS: usize = 16;
const MAX_LABELS: usize = 256;
/// What the API server takes as `timeoutSeconds`.
pub(crate) const AFFINITY_SECONDS: std::ops::RangeInclusive<i32> = 1..=86400;
/// A topology key that every node matches; it ends the list (core/v1 `TopologyKeyAny`).
pub(crate) const ANY_TOPOLOGY: &str = "*";

/// The offer without what makes no sense, and what that was.
pub fn clean(mut offer: ServiceOfferSpec) -> (ServiceOfferSpec, Vec<Complaint>) {
    let mut complaints = Vec::new();
    offer.ports = clean_ports(offer.ports, &mut complaints);
    offer.ip_families = clean_families(offer.ip_families, &mut complaints);
    clean_affinity(&mut offer, &mut complaints);
    offer.topology_keys = clean_topology_keys(offer.topology_keys, &mut complaints);
    offer.traffic_distribution = offer.traffic_distribution.filter(|text| is_word(text, &mut complaints));
    offer.prefer = distinct(offer.prefer);
    retain_labels(&mut offer.exported_labels, &mut complaints);
    retain_annotations(&mut offer.exported_annotations, &mut complaints);
    (offer, complaints)
}

pub(crate) fn clean_ports(ports: Vec<ServicePort>, complaints: &mut Vec<Complaint>) -> Vec<ServicePort> {
    let mut kept: Vec<ServicePort> = Vec::new();
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    let mut skipped = Skipped::default();
    for mut port in ports {
        port.name = port.name.filter(|name| !name.is_empty());
        port.app_protocol = port.app_protocol.filter(|protocol| !protocol.is_empty());
        let fits = (1..=65535).contains(&port.port)
            && port.name.as_deref().is_none_or(is_dns_label)
            && port.app_protocol.as_deref().is_none_or(is_qualified_name);
        // A Service with several ports names them all; the API server takes no other.
        let alone = kept.is_empty() || (port.name.is_some() && kept[0].name.is_some());
        let taken = names.contains(&port.name) || numbers.contains(&(port.protocol, port.port));
        if !fits || !alone || taken || kept.len() == MAX_PORTS {
            skipped.note(port.port);
            continue;
        }
        names.insert(port.name.clone());
        numbers.insert((port.protocol, port.port));
        kept.push(port);
    }
    complaints.extend(skipped.complaint());
    kept
}

/// Ports that were left out: the first is named, the others are counted.
#[derive(Default)]
struct Skipped {
    first: Option<i32>,
    count: usize,
}

impl Skipped {
    fn note(&mut self, port: i32) {
        self.first.get_or_insert(port);
        self.count += 1;
    }

    fn complaint(&self) -> Option<Complaint> {
        let first = self.first?;
        let others = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        Some(Complaint::new(
            "spec.ports",
            format!("port {first}{others} left out: invalid, given twice, or without a name beside others"),
        ))
    }
}

fn clean_families(families: Vec<IpFamily>, complaints: &mut Vec<Complaint>) -> Vec<IpFamily> {
    if families.is_empty() {
        complaints.push(Complaint::new("spec.ipFamilies", "none is given; IPv4 is assumed"));
        return vec![IpFamily::V4];
    }
    distinct(families)
}

/// A timeout counts for a Service with affinity only; there it is made explicit, so that equal ones look equal.
fn clean_affinity(offer: &mut ServiceOfferSpec, complaints: &mut Vec<Complaint>) {
    if offer.session_affinity == SessionAffinity::None {
        offer.session_affinity_config = None;
        return;
    }
    let seconds = affinity_seconds(offer.session_affinity_config.as_ref());
    let allowed = seconds.clamp(*AFFINITY_SECONDS.start(), *AFFINITY_SECONDS.end());
    if allowed != seconds {
        let problem = format!("a timeout of {seconds} s is not allowed; {allowed} s is used");
        complaints.push(Complaint::new("spec.sessionAffinityConfig", problem));
    }
    offer.session_affinity_config = Some(affinity_config(allowed));
}

fn clean_topology_keys(keys: Vec<String>, complaints: &mut Vec<Complaint>) -> Vec<String> {
    let given = keys.len();
    let mut keys: Vec<String> =
        keys.into_iter().filter(|key| key == ANY_TOPOLOGY || is_qualified_name(key)).collect();
    if let Some(end) = keys.iter().position(|key| key == ANY_TOPOLOGY) {
        keys.truncate(end + 1);
    }
    let mut keys = distinct(keys);
    keys.truncate(MAX_TOPOLOGY_KEYS);
    if keys.len() < given {
        let problem = format!(
            "{} of {given} left out: no label key, given twice, after \"*\", or beyond the first {MAX_TOPOLOGY_KEYS}",
            given - keys.len()
        );
        complaints.push(Complaint::new("topology keys", problem));
    }
    keys
}

fn is_word(text: &str, complaints: &mut Vec<Complaint>) -> bool {
    let fits = text.len() <= LABEL_LIMIT && is_qualified_name(text);
    if !fits {
        complaints.push(Complaint::new(
            "spec.trafficDistribution",
            "no word that a Service may have; it is ignored",
        ));
    }
    fits
}

fn retain_labels(labels: &mut BTreeMap<String, String>, complaints: &mut Vec<Complaint>) {
    let given = labels.len();
    labels.retain(|key, value| is_qualified_name(key) && is_label_value(value));
    keep_first(labels, MAX_LABELS);
    complain_about_missing("spec.exportedLabels", given, labels.len(), complaints);
}

fn retain_annotations(annotations: &mut BTreeMap<String, String>, complaints: &mut Vec<Complaint>) {
    let given = annotations.len();
    let mut size = 0;
    annotations.retain(|key, value| {
        // Half of the room is left to the annotations that the import gets besides.
        let fits = size + key.len() + value.len() <= ANNOTATIONS_LIMIT / 2;
        let keep = fits && is_qualified_name(&key.to_ascii_lowercase());
        size += if keep { key.len() + value.len() } else { 0 };
        keep
    });
    keep_first(annotations, MAX_LABELS);
    complain_about_missing("spec.exportedAnnotations", given, annotations.len(), complaints);
}

fn keep_first(map: &mut BTreeMap<String, String>, limit: usize) {
    while map.len() > limit {
        map.pop_last();
    }
}

fn complain_about_missing(field: &str, given: usize, kept: usize, complaints: &mut Vec<Complaint>) {
    if kept < given {
        let problem =
            format!("{} of {given} left out: no key or value that an API server takes", given - kept);
        complaints.push(Complaint::new(field, problem));
    }
}

/// The list without repetitions, in its order.
fn distinct<T: Clone + Ord>(list: Vec<T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    list.into_iter().filter(|item| seen.insert(item.clone())).collect()
}
