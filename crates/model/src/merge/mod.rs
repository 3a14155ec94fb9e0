//! One service out of all exports of a name.
//!
//! Every agent runs this over the same offers, so the answer depends on nothing else: not on their order, not on a clock.
//! Exports are ranked by age (`creationTimestamp`, then cluster id, because timestamps have whole seconds). What the
//! dialects do differently is in the [`Policy`]; the two ways to settle ports and families are in `withdraw` and `oldest`.
//!
//! Two decisions where the specifications are silent. A port without a name can stand only alone, because a Service with
//! several ports names them all: beside others it counts as a conflict. And offers that mix headless with others disagree
//! on a global property in both dialects.

mod oldest;
mod withdraw;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tombolo_api::mcs::ConflictReason;
use tombolo_api::service::{IpFamily, ServicePort, SessionAffinity};
use tombolo_api::tombolo::{ServiceOffer, ServiceOfferSpec, ServiceRef};

use crate::cluster::ClusterId;
use crate::complaint::Complaint;
use crate::import::{Contribution, Import};
use crate::offer::clean;
use crate::policy::{Disagreement, Policy};
use crate::verdict::{Conflict, Verdict};

/// What the exports of one name amount to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The service as every member shall have it; `None` without exports or after a conflict that withdraws it.
    pub import: Option<Import>,
    /// What to tell each exporting cluster.
    pub verdicts: BTreeMap<ClusterId, Verdict>,
    /// Offers that could not be used at all.
    pub complaints: Vec<Complaint>,
}

/// Merges the offers of `service`. Offers of other services or another dialect are left out and complained about.
pub fn merge<'a>(
    policy: &Policy,
    service: &ServiceRef,
    offers: impl IntoIterator<Item = &'a ServiceOffer>,
) -> Merged {
    let mut complaints = Vec::new();
    let exports = rank(usable(policy, service, offers, &mut complaints));
    let Some(oldest) = exports.first() else {
        return Merged { complaints, ..Merged::default() };
    };
    let settled = match policy.disagreement {
        Disagreement::Withdraw => withdraw::settle(&exports),
        Disagreement::OldestWins => oldest::settle(&exports),
    };
    let mut conflicts = settled.conflicts;
    conflicts.sort_by_key(|conflict| place(conflict.reason));
    let withdrawn = policy.disagreement == Disagreement::Withdraw && !conflicts.is_empty();
    let verdicts = verdicts(&exports, (!withdrawn).then_some(&oldest.cluster), conflicts, &settled.ports);
    let import = (!withdrawn).then(|| import(policy, &exports, settled.ports, settled.families));
    Merged { import, verdicts, complaints }
}

/// A usable offer with the cluster it comes from.
pub(crate) struct Ranked {
    pub(crate) cluster: ClusterId,
    pub(crate) offer: ServiceOfferSpec,
    complaints: Vec<Complaint>,
}

impl Ranked {
    fn age(&self) -> (&Timestamp, &ClusterId) {
        (&self.offer.exported_at.0, &self.cluster)
    }
}

/// How a policy settles what must be one for all.
pub(crate) struct Settled {
    pub(crate) ports: Vec<ServicePort>,
    pub(crate) families: Vec<IpFamily>,
    pub(crate) conflicts: Vec<Conflict>,
}

/// One offer per cluster: of two, the first by name counts, so that all members choose the same.
fn usable<'a>(
    policy: &Policy,
    service: &ServiceRef,
    offers: impl IntoIterator<Item = &'a ServiceOffer>,
    complaints: &mut Vec<Complaint>,
) -> BTreeMap<ClusterId, &'a ServiceOffer> {
    let mut offers: Vec<&ServiceOffer> = offers.into_iter().collect();
    offers.sort_by(|a, b| by_name(a, b));
    let mut usable = BTreeMap::new();
    for offer in offers {
        match admit(policy, service, offer, &usable) {
            Ok(cluster) => _ = usable.insert(cluster, offer),
            Err(problem) => complaints.push(Complaint::new(describe(offer), problem)),
        }
    }
    usable
}

fn admit(
    policy: &Policy,
    service: &ServiceRef,
    offer: &ServiceOffer,
    usable: &BTreeMap<ClusterId, &ServiceOffer>,
) -> Result<ClusterId, String> {
    if offer.spec.dialect != policy.dialect || offer.spec.service != *service {
        return Err("it is an offer of another service or dialect; it is ignored".to_owned());
    }
    let cluster: ClusterId = offer.spec.cluster.parse().map_err(|error| format!("{error}; it is ignored"))?;
    match usable.get(&cluster) {
        Some(first) => Err(format!("cluster {cluster} offers the service already with {}", describe(first))),
        None => Ok(cluster),
    }
}

/// Names order offers; the payload decides between objects without one, which no server stores.
fn by_name(a: &ServiceOffer, b: &ServiceOffer) -> Ordering {
    let (a_key, b_key) = [a, b].map(|offer| (&offer.metadata.name, &offer.metadata.namespace)).into();
    a_key.cmp(&b_key).then_with(|| format!("{:?}", a.spec).cmp(&format!("{:?}", b.spec)))
}

fn describe(offer: &ServiceOffer) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("offer {}/{}", part(&offer.metadata.namespace), part(&offer.metadata.name))
}

/// The exports, the oldest first.
fn rank(usable: BTreeMap<ClusterId, &ServiceOffer>) -> Vec<Ranked> {
    let mut exports: Vec<Ranked> = usable
        .into_iter()
        .map(|(cluster, offer)| {
            let (offer, complaints) = clean(offer.spec.clone());
            Ranked { cluster, offer, complaints }
        })
        .collect();
    exports.sort_by(|a, b| a.age().cmp(&b.age()));
    exports
}

fn place(reason: ConflictReason) -> usize {
    ConflictReason::ALL.iter().position(|known| *known == reason).unwrap_or(usize::MAX)
}

fn verdicts(
    exports: &[Ranked],
    winner: Option<&ClusterId>,
    conflicts: Vec<Conflict>,
    ports: &[ServicePort],
) -> BTreeMap<ClusterId, Verdict> {
    let conflicts: Arc<[Conflict]> = conflicts.into();
    let verdict = |export: &Ranked| Verdict {
        cluster: export.cluster.clone(),
        exports: exports.len(),
        winner: winner.cloned(),
        conflicts: conflicts.clone(),
        skipped: match winner {
            Some(_) => export.offer.ports.iter().filter(|port| !exposes(ports, port)).cloned().collect(),
            None => Vec::new(),
        },
        complaints: export.complaints.clone(),
    };
    exports.iter().map(|export| (export.cluster.clone(), verdict(export))).collect()
}

/// Whether a list has this port: name, protocol and number. The application protocol is a remark, not part of it.
pub(crate) fn exposes(ports: &[ServicePort], wanted: &ServicePort) -> bool {
    let same = |port: &ServicePort| {
        (&port.name, port.protocol, port.port) == (&wanted.name, wanted.protocol, wanted.port)
    };
    ports.iter().any(same)
}

fn import(policy: &Policy, exports: &[Ranked], ports: Vec<ServicePort>, families: Vec<IpFamily>) -> Import {
    let oldest = &exports[0].offer;
    let (session_affinity, session_affinity_config) = match policy.disagreement {
        Disagreement::OldestWins => (oldest.session_affinity, oldest.session_affinity_config.clone()),
        // Affinity is carried per cluster; the service as a whole has it where all clusters have the same.
        Disagreement::Withdraw if all_equal(exports, affinity) => affinity(oldest),
        Disagreement::Withdraw => (SessionAffinity::None, None),
    };
    let mut clusters: Vec<Contribution> = exports.iter().map(contribution).collect();
    clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Import {
        dialect: policy.dialect,
        service: oldest.service.clone(),
        type_: oldest.type_,
        ports,
        ip_families: families,
        session_affinity,
        session_affinity_config,
        internal_traffic_policy: oldest.internal_traffic_policy,
        traffic_distribution: oldest.traffic_distribution.clone(),
        prefer: oldest.prefer.clone(),
        labels: oldest.exported_labels.clone(),
        annotations: oldest.exported_annotations.clone(),
        clusters,
    }
}

fn affinity(
    offer: &ServiceOfferSpec,
) -> (SessionAffinity, Option<k8s_openapi::api::core::v1::SessionAffinityConfig>) {
    (offer.session_affinity, offer.session_affinity_config.clone())
}

fn all_equal<T: PartialEq>(exports: &[Ranked], property: impl Fn(&ServiceOfferSpec) -> T) -> bool {
    exports.windows(2).all(|pair| property(&pair[0].offer) == property(&pair[1].offer))
}

fn contribution(export: &Ranked) -> Contribution {
    let offer = &export.offer;
    Contribution {
        cluster: export.cluster.clone(),
        ports: offer.ports.clone(),
        ip_families: offer.ip_families.clone(),
        topology_keys: offer.topology_keys.clone(),
        publish_not_ready_addresses: offer.publish_not_ready_addresses,
        session_affinity: offer.session_affinity,
        session_affinity_config: offer.session_affinity_config.clone(),
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
