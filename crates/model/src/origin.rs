//! Whether what is found at the hub comes from the cluster it claims to come from, and is of a size one member may have.
//!
//! The hub lets a member write in its own namespace only. So the namespace is what is true, and whatever an object says
//! about its cluster must agree with it. A member that floods the hub loses its newest objects, not the others theirs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use thiserror::Error;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{Membership, OFFER_LABEL, POD_CIDRS_ANNOTATION, ServiceOffer};

use crate::address::Declared;
use crate::cluster::{BadClusterId, ClusterId};
use crate::names;
use crate::syntax::is_dns_label;

/// How much one member may have at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub offers: usize,
    /// Slices of one offer.
    pub slices: usize,
    /// Endpoints of one offer, in all its slices.
    pub endpoints: usize,
}

impl Default for Limits {
    /// Far above what a cluster of the size that Kubernetes supports has (10,000 Services; 1,000 slices of 100).
    fn default() -> Self {
        Limits { offers: 10_000, slices: 1_000, endpoints: 50_000 }
    }
}

/// Why an object at the hub is not believed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Reason {
    #[error(transparent)]
    BadClusterId(#[from] BadClusterId),
    #[error("cluster {cluster} writes in namespace {expected}, but this is in {found}")]
    Namespace { cluster: ClusterId, expected: String, found: String },
    #[error("it claims to come from cluster {claimed:?}, but it is in the namespace of cluster {owner}")]
    Cluster { claimed: String, owner: ClusterId },
    #[error("{namespace:?}/{name:?} is no name of a Service")]
    BadService { namespace: String, name: String },
    #[error("it belongs to no offer in its namespace")]
    NoOffer,
    #[error("cluster {owner} has {given} {what}, more than the {limit} that are allowed")]
    TooMany { owner: ClusterId, what: &'static str, given: usize, limit: usize },
}

impl Reason {
    /// The word for metrics and events.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Reason::BadClusterId(_) => "BadClusterId",
            Reason::Namespace { .. } => "ForeignNamespace",
            Reason::Cluster { .. } => "ForgedCluster",
            Reason::BadService { .. } => "BadService",
            Reason::NoOffer => "NoOffer",
            Reason::TooMany { .. } => "TooMany",
        }
    }
}

/// An object, or the rest of a flood, that is not used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{object} is ignored: {reason}")]
pub struct Refused {
    /// Kind, namespace and name.
    pub object: String,
    pub reason: Reason,
}

/// The cluster a membership speaks for.
pub fn check_membership(membership: &Membership) -> Result<ClusterId, Refused> {
    let refused = |reason| refuse("Membership", &membership.metadata, reason);
    let cluster: ClusterId =
        membership.spec.cluster.parse().map_err(|bad| refused(Reason::BadClusterId(bad)))?;
    check_namespace(&cluster, &membership.metadata).map_err(refused)?;
    Ok(cluster)
}

/// Where a member's endpoints may be: where its namespace at the hub says, which the member cannot change; where that says
/// nothing, it is taken at its word.
pub fn declared(namespace: Option<&Namespace>, membership: Option<&Membership>) -> Declared {
    let granted = namespace.map(pod_cidrs).filter(|granted| !granted.is_empty());
    let stated = membership.map(|membership| &membership.spec.pod_cidrs);
    granted.as_ref().or(stated).map_or(Declared::Nothing, |ranges| Declared::read(ranges).0)
}

/// The addresses of a member's pods, as its namespace at the hub has them.
pub fn pod_cidrs(namespace: &Namespace) -> Vec<String> {
    let annotations = namespace.metadata.annotations.as_ref();
    let text =
        annotations.and_then(|all| all.get(POD_CIDRS_ANNOTATION)).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|range| !range.is_empty()).map(str::to_owned).collect()
}

/// Whether an offer is one of `owner`.
pub fn check_offer(owner: &ClusterId, offer: &ServiceOffer) -> Result<(), Refused> {
    let service = &offer.spec.service;
    let check = || {
        check_namespace(owner, &offer.metadata)?;
        check_claim(owner, &offer.spec.cluster)?;
        if is_dns_label(&service.namespace) && is_dns_label(&service.name) {
            return Ok(());
        }
        let text = |text: &str| text.chars().take(100).collect();
        Err(Reason::BadService { namespace: text(&service.namespace), name: text(&service.name) })
    };
    check().map_err(|reason| refuse("ServiceOffer", &offer.metadata, reason))
}

/// Whether a slice is one of `owner`, for an offer that is there; `has_offer` knows the names of the owner's good ones.
pub fn check_slice<'a>(
    owner: &ClusterId,
    slice: &'a EndpointSlice,
    has_offer: impl FnOnce(&str) -> bool,
) -> Result<&'a str, Refused> {
    let label = |key| slice.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let check = || {
        check_namespace(owner, &slice.metadata)?;
        check_claim(owner, label(SOURCE_CLUSTER_LABEL).unwrap_or_default())?;
        label(OFFER_LABEL).filter(|offer| has_offer(offer)).ok_or(Reason::NoOffer)
    };
    check().map_err(|reason| refuse("EndpointSlice", &slice.metadata, reason))
}

/// Which objects of one member are within its limit: the oldest.
///
/// It is kept up to date with every object that comes or goes, so that asking costs the same however large a flood is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: usize,
    within: BTreeSet<Seniority>,
    beyond: BTreeSet<Seniority>,
}

impl Quota {
    pub fn new(limit: usize) -> Self {
        Quota { limit, within: BTreeSet::new(), beyond: BTreeSet::new() }
    }

    /// Counts an object in. Returns the name of the one that has to make room for it, if any.
    pub fn insert(&mut self, metadata: &ObjectMeta) -> Option<String> {
        self.within.insert(seniority(metadata));
        if self.within.len() <= self.limit {
            return None;
        }
        let newest = self.within.pop_last()?;
        let displaced = newest.1.clone();
        self.beyond.insert(newest);
        displaced.filter(|name| metadata.name.as_ref() != Some(name))
    }

    /// Counts an object out. Returns the name of the one that takes its place, if any.
    pub fn remove(&mut self, metadata: &ObjectMeta) -> Option<String> {
        let object = seniority(metadata);
        if self.beyond.remove(&object) || !self.within.remove(&object) {
            return None;
        }
        let oldest = self.beyond.pop_first()?;
        let admitted = oldest.1.clone();
        self.within.insert(oldest);
        admitted
    }

    pub fn admits(&self, metadata: &ObjectMeta) -> bool {
        self.beyond.is_empty() || self.within.contains(&seniority(metadata))
    }

    /// Why the others are not, if there are any.
    pub fn refusal(&self, owner: &ClusterId) -> Option<Refused> {
        let given = self.within.len() + self.beyond.len();
        let reason = Reason::TooMany { owner: owner.clone(), what: "offers", given, limit: self.limit };
        (!self.beyond.is_empty()).then(|| rest("ServiceOffers", owner, reason))
    }

    /// How many are refused.
    pub fn excess(&self) -> usize {
        self.beyond.len()
    }
}

/// The slices of one offer that are within the limits, and how many endpoints the others have; the newest go. They have
/// been checked before.
pub fn admit_slices<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    limits: &Limits,
) -> (Vec<&'a EndpointSlice>, usize) {
    let mut slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    let size = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
    let all: usize = slices.iter().map(|slice| size(slice)).sum();
    if slices.len() <= limits.slices && all <= limits.endpoints {
        return (slices, 0);
    }
    slices.sort_by_key(|slice| seniority(&slice.metadata));
    slices.truncate(limits.slices);
    let mut sum = 0;
    let fits = |slice: &&EndpointSlice| {
        sum += size(slice);
        sum <= limits.endpoints
    };
    let admitted: Vec<_> = slices.into_iter().take_while(fits).collect();
    let left_out = all - admitted.iter().map(|slice| size(slice)).sum::<usize>();
    (admitted, left_out)
}

/// The order in which objects came, by what the server says about them and their owner cannot change.
type Seniority = (Option<Time>, Option<String>);

fn seniority(metadata: &ObjectMeta) -> Seniority {
    (metadata.creation_timestamp.clone(), metadata.name.clone())
}

fn check_namespace(owner: &ClusterId, metadata: &ObjectMeta) -> Result<(), Reason> {
    let expected = names::hub_namespace(owner);
    let found = metadata.namespace.clone().unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(Reason::Namespace { cluster: owner.clone(), expected, found })
}

fn check_claim(owner: &ClusterId, claimed: &str) -> Result<(), Reason> {
    if claimed == owner.as_str() {
        return Ok(());
    }
    Err(Reason::Cluster { claimed: claimed.chars().take(100).collect(), owner: owner.clone() })
}

fn refuse(kind: &str, metadata: &ObjectMeta, reason: Reason) -> Refused {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    Refused { object: format!("{kind} {}/{}", part(&metadata.namespace), part(&metadata.name)), reason }
}

fn rest(kind: &str, owner: &ClusterId, reason: Reason) -> Refused {
    Refused { object: format!("the rest of the {kind} in {}", names::hub_namespace(owner)), reason }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::Endpoint;
    use tombolo_api::tombolo::{Dialect, MembershipSpec};

    use super::*;
    use crate::testing::{at, id, offer, with};

    fn word(result: Result<(), Refused>) -> &'static str {
        result.map_or_else(|refused| refused.reason.as_str(), |()| "good")
    }

    #[test]
    fn namespace_and_payload_of_an_offer_must_name_its_owner() {
        let good = offer(Dialect::Mcs, "a");
        let mut elsewhere = good.clone();
        elsewhere.metadata.namespace = Some("tombolo-b".into());
        let forged = with(good.clone(), |spec| spec.cluster = "b".into());
        let nameless = with(good.clone(), |spec| spec.service.name = "../x".into());
        for (offer, expected) in [
            (good, "good"),
            (elsewhere, "ForeignNamespace"),
            (forged, "ForgedCluster"),
            (nameless, "BadService"),
        ] {
            assert_eq!(word(check_offer(&id("a"), &offer)), expected);
        }
    }

    #[test]
    fn a_membership_is_believed_in_the_namespace_of_its_own_cluster_only() {
        let membership = |cluster: &str, namespace: &str| {
            let spec = MembershipSpec { cluster: cluster.into(), ..MembershipSpec::default() };
            let mut membership = Membership::new("self", spec);
            membership.metadata.namespace = Some(namespace.into());
            check_membership(&membership).map_err(|refused| refused.reason.as_str())
        };
        assert_eq!(membership("a", "tombolo-a"), Ok(id("a")));
        assert_eq!(membership("b", "tombolo-a"), Err("ForeignNamespace"));
        assert_eq!(membership("A b", "tombolo-a"), Err("BadClusterId"));
    }

    #[test]
    fn addresses_are_where_the_namespace_says_whatever_its_member_states() {
        let place = |ranges: &str| {
            let mut place = Namespace::default();
            place.metadata.annotations = Some([(POD_CIDRS_ANNOTATION.into(), ranges.into())].into());
            place
        };
        let states = |range: &str| {
            let spec = MembershipSpec { pod_cidrs: vec![range.into()], ..MembershipSpec::default() };
            Membership::new("self", spec)
        };
        let within =
            |ranges: &[&str]| Declared::Within(ranges.iter().map(|range| range.parse().unwrap()).collect());
        let everything = states("0.0.0.0/0");
        for (annotation, expected) in [
            (Some("10.1.0.0/16"), within(&["10.1.0.0/16"])),
            (Some("10.1.0.0/16, fd00:1::/64"), within(&["10.1.0.0/16", "fd00:1::/64"])),
            (Some("anywhere"), within(&[])),
            (Some(""), within(&["0.0.0.0/0"])),
            (None, within(&["0.0.0.0/0"])),
        ] {
            let place = annotation.map(place);
            assert_eq!(declared(place.as_ref(), Some(&everything)), expected, "{annotation:?}");
        }
        assert_eq!(declared(Some(&Namespace::default()), None), Declared::Nothing);
        assert_eq!(declared(Some(&place("10.1.0.0/16")), None), within(&["10.1.0.0/16"]));
    }

    fn slice(namespace: &str, source: &str, offer: &str, name: &str, endpoints: usize) -> EndpointSlice {
        let mut slice = EndpointSlice::default();
        slice.metadata.namespace = Some(namespace.into());
        slice.metadata.name = Some(name.into());
        slice.metadata.labels = Some(
            [(SOURCE_CLUSTER_LABEL, source), (OFFER_LABEL, offer)].map(|(k, v)| (k.into(), v.into())).into(),
        );
        slice.endpoints = Some(vec![Endpoint::default(); endpoints]);
        slice
    }

    #[test]
    fn a_slice_with_a_forged_source_or_without_an_offer_is_refused() {
        for (namespace, source, offer, expected) in [
            ("tombolo-a", "a", "echo", "good"),
            ("tombolo-b", "a", "echo", "ForeignNamespace"),
            ("tombolo-a", "b", "echo", "ForgedCluster"),
            ("tombolo-a", "", "echo", "ForgedCluster"),
            ("tombolo-a", "a", "other", "NoOffer"),
        ] {
            let slice = slice(namespace, source, offer, "x", 0);
            let checked = check_slice(&id("a"), &slice, |offer| offer == "echo");
            assert_eq!(word(checked.map(|_| ())), expected, "{namespace} {source} {offer}");
        }
        let bare = EndpointSlice::default();
        assert!(check_slice(&id("a"), &bare, |_| true).is_err());
    }

    #[test]
    fn a_refusal_says_which_object_and_why() {
        let forged = with(offer(Dialect::Mcs, "a"), |spec| spec.cluster = "b".into());
        let refused = check_offer(&id("a"), &forged).unwrap_err().to_string();
        assert!(refused.starts_with("ServiceOffer tombolo-a/echo-demo-"), "{refused}");
        let end = "is ignored: it claims to come from cluster \"b\", but it is in the namespace of cluster a";
        assert!(refused.ends_with(end), "{refused}");
    }

    /// Offers in the order they come, each with the second it was made in; a name with a dash before it goes.
    fn flood(limit: usize, steps: &[(&str, i64)]) -> (Quota, Vec<String>) {
        let mut quota = Quota::new(limit);
        let moved = steps.iter().filter_map(|(name, second)| {
            let gone = name.strip_prefix('-');
            let mut offer = offer(Dialect::Mcs, "a");
            offer.metadata.name = Some(gone.unwrap_or(name).to_owned());
            offer.metadata.creation_timestamp = Some(at(*second));
            if gone.is_some() { quota.remove(&offer.metadata) } else { quota.insert(&offer.metadata) }
        });
        let moved = moved.collect();
        (quota, moved)
    }

    #[test]
    fn of_a_flood_the_oldest_offers_stay() {
        let (quota, displaced) = flood(2, &[("new", 9), ("a", 5), ("z-old", 1), ("newer", 10)]);
        assert_eq!(displaced, ["new"]);
        assert_eq!(quota.excess(), 2);
        assert_eq!(
            quota.refusal(&id("a")).unwrap().to_string(),
            "the rest of the ServiceOffers in tombolo-a is ignored: \
             cluster a has 4 offers, more than the 2 that are allowed"
        );
        assert!(flood(4, &[("a", 1), ("b", 2)]).0.refusal(&id("a")).is_none());
    }

    #[test]
    fn what_goes_makes_room_for_the_next() {
        let (quota, moved) = flood(1, &[("a", 1), ("b", 2), ("c", 3), ("-c", 3), ("-a", 1), ("-x", 4)]);
        assert_eq!(moved, ["b"]);
        assert_eq!(quota.excess(), 0);
    }

    #[test]
    fn slices_and_endpoints_of_one_offer_are_limited() {
        let slices: Vec<_> =
            [("1", 3), ("2", 3), ("3", 3)].map(|(name, n)| slice("tombolo-a", "a", "echo", name, n)).into();
        for (slice_limit, endpoint_limit, kept, left_out) in
            [(3, 9, 3, 0), (2, 9, 2, 3), (3, 8, 2, 3), (3, 2, 0, 9), (2, 3, 1, 6), (0, 0, 0, 9)]
        {
            let limits = Limits { offers: 1, slices: slice_limit, endpoints: endpoint_limit };
            let (admitted, rest) = admit_slices(&slices, &limits);
            assert_eq!((admitted.len(), rest), (kept, left_out), "{limits:?}");
        }
    }
}
