//! Which kinds a cluster needs for which part, and what is done where they are there already.
//!
//! Versions of Tombolo run side by side while one follows the other, and others define the same kinds, too. So a definition
//! is only ever replaced by a later one of ours: the number in its label says which is later, and what has no such number
//! belongs to somebody else and stays, as long as it serves what our parts ask for.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use tombolo_api::crd::{self, SCHEMA_REVISION_LABEL};

use crate::manifest::Manifest;
use crate::part::Part;

/// What to do about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Apply,
    /// It stays as it is.
    Keep(String),
    /// Our parts cannot work with it.
    Refuse(String),
}

/// Whether `ours` replaces what is there.
pub(crate) fn decide(present: Option<&CustomResourceDefinition>, ours: &CustomResourceDefinition) -> Verdict {
    let Some(present) = present else { return Verdict::Apply };
    let missing: Vec<String> = served(ours).difference(&served(present)).cloned().collect();
    match (revision(present), revision(ours)) {
        (Some(theirs), Some(own)) if theirs <= own => Verdict::Apply,
        _ if !missing.is_empty() => {
            let missing = missing.join(", ");
            Verdict::Refuse(format!("the one that is there does not serve {missing}; update or remove it"))
        }
        (Some(theirs), own) => {
            Verdict::Keep(format!("revision {theirs} is later than {}", own.unwrap_or_default()))
        }
        (None, _) => Verdict::Keep("it is somebody else's, and serves what is needed".to_owned()),
    }
}

fn revision(definition: &CustomResourceDefinition) -> Option<u64> {
    definition.labels().get(SCHEMA_REVISION_LABEL)?.parse().ok()
}

pub(crate) fn served(definition: &CustomResourceDefinition) -> BTreeSet<String> {
    let served = definition.spec.versions.iter().filter(|version| version.served);
    served.map(|version| version.name.clone()).collect()
}

/// The definitions of all kinds that one of `parts` reads or writes, in a fixed order.
pub fn definitions(parts: &[Part]) -> Vec<CustomResourceDefinition> {
    let groups: BTreeSet<&str> = parts.iter().flat_map(|part| groups(*part)).copied().collect();
    let kinds: BTreeSet<&str> = parts.iter().flat_map(|part| own_kinds(*part)).copied().collect();
    let is_needed = |definition: &CustomResourceDefinition| match definition.spec.group.as_str() {
        "tombolo.dev" => kinds.contains(definition.spec.names.kind.as_str()),
        group => groups.contains(group),
    };
    crd::crds().into_iter().filter(is_needed).collect()
}

/// The same, to be applied.
pub fn kinds(parts: &[Part]) -> Vec<Manifest> {
    definitions(parts).iter().map(Manifest::of).collect()
}

fn groups(part: Part) -> &'static [&'static str] {
    match part {
        Part::Hub => &["cluster.karmada.io", "networking.karmada.io", "work.karmada.io"],
        Part::Member => &["about.k8s.io", "multicluster.k8s.io", "multicluster.x-k8s.io"],
        Part::Dns | Part::Proxy => &["multicluster.k8s.io", "multicluster.x-k8s.io"],
        Part::Balancer => &[],
    }
}

/// The kinds of our own group belong to different places.
fn own_kinds(part: Part) -> &'static [&'static str] {
    match part {
        Part::Hub => &["Membership", "ServiceOffer"],
        Part::Balancer => &["AddressPool"],
        Part::Member | Part::Dns | Part::Proxy => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(revision: Option<&str>, versions: usize) -> CustomResourceDefinition {
        let mut one = definitions(&[Part::Member]).pop().unwrap();
        let labels = one.labels_mut();
        labels.remove(SCHEMA_REVISION_LABEL);
        labels.extend(revision.map(|revision| (SCHEMA_REVISION_LABEL.to_owned(), revision.to_owned())));
        one.spec.versions.truncate(versions);
        one
    }

    #[test]
    fn a_definition_is_replaced_by_a_later_one_of_ours_and_never_by_an_earlier() {
        let ours = with(Some("5"), 2);
        let verdict = |present: &CustomResourceDefinition| decide(Some(present), &ours);
        assert_eq!(decide(None, &ours), Verdict::Apply);
        assert_eq!(verdict(&with(Some("4"), 1)), Verdict::Apply);
        assert_eq!(verdict(&with(Some("5"), 2)), Verdict::Apply);
        assert!(matches!(verdict(&with(Some("6"), 2)), Verdict::Keep(_)));
        assert!(matches!(verdict(&with(None, 2)), Verdict::Keep(_)));
        for unusable in [with(Some("6"), 1), with(None, 1)] {
            assert!(matches!(verdict(&unusable), Verdict::Refuse(_)));
        }
    }

    #[test]
    fn all_parts_together_need_all_kinds() {
        assert_eq!(definitions(&Part::ALL), crd::crds());
        assert!(definitions(&[Part::Dns]).len() < definitions(&[Part::Member]).len());
    }
}
