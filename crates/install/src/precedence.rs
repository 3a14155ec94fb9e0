//! Which of two versions counts where both apply the same objects: the later one, whoever comes last.
//!
//! Neighbouring versions run side by side, and each brings roles and workloads. What a later one made says so in its label
//! and stays: an earlier program would take from running pods what they need. That Helm brought it makes no difference.

use std::collections::BTreeMap;

use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tombolo_api::tombolo::MANAGED_BY_LABEL;
use tombolo_runtime::is_absent;

use crate::apply::{Error, api};
use crate::manifest::Manifest;
use crate::part::{ADMISSION_LABEL, INSTALLER, VERSION_LABEL};
use crate::place;

/// Helm writes itself over whoever its chart says that an object is managed by.
const HELM: &str = "Helm";

/// A workload that a later version installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later {
    /// As people write it: kind and name.
    pub object: String,
    pub version: String,
}

/// The workloads among `manifests` that are there already, from a later version. What else of it is there stays by itself.
pub async fn later_workloads(client: &Client, manifests: &[Manifest]) -> Result<Vec<Later>, Error> {
    let mut later = Vec::new();
    for manifest in manifests.iter().filter(|one| ["Deployment", "DaemonSet"].contains(&one.kind())) {
        let found = match api(client, manifest).get(manifest.name()).await {
            Err(error) if is_absent(&error) => continue,
            found => found.map_err(|source| Error::refused(manifest, source))?,
        };
        let object = format!("{}/{}", manifest.kind().to_lowercase(), manifest.name());
        let version = later_than(found.labels(), manifest).map(str::to_owned);
        later.extend(version.map(|version| Later { object, version }));
    }
    Ok(later)
}

/// The version of what is there, if it is ours and later than the manifest's. What says no version is no later.
pub(crate) fn later_than<'a>(there: &'a BTreeMap<String, String>, manifest: &Manifest) -> Option<&'a str> {
    let own = manifest.value()["metadata"]["labels"][VERSION_LABEL].as_str()?;
    let is_ours = there.get(MANAGED_BY_LABEL).is_some_and(|by| [INSTALLER, HELM].contains(&by.as_str()));
    there.get(VERSION_LABEL).map(String::as_str).filter(|version| is_ours && is_later(version, own))
}

/// A manifest as it is applied where its object is there already, with these labels. A role of all members that Helm owns it goes
/// on owning, or else it would refuse to bring its later versions, as somebody else's. Which pods a namespace admits stays as
/// somebody needed it, or wanted it, unless this installation needs something else.
pub(crate) fn beside(there: &BTreeMap<String, String>, manifest: &Manifest) -> Value {
    let mut value = manifest.value().clone();
    let labels = &mut value["metadata"]["labels"];
    if place::is_for_members(manifest) && there.get(MANAGED_BY_LABEL).is_some_and(|by| by == HELM) {
        labels[MANAGED_BY_LABEL] = json!(HELM);
    }
    if manifest.kind() == "Namespace"
        && labels.get(ADMISSION_LABEL).is_none()
        && let Some(level) = there.get(ADMISSION_LABEL)
    {
        labels[ADMISSION_LABEL] = json!(level);
    }
    value
}

/// Whether `a` comes after `b`. What cannot be read comes after nothing, nor does one candidate of a release after another.
fn is_later(a: &str, b: &str) -> bool {
    matches!((read(a), read(b)), (Some(a), Some(b)) if a > b)
}

/// Three numbers, and whether that is the release itself.
fn read(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.trim_start_matches('v').split('+').next()?;
    let (numbers, is_release) = match version.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (version, true),
    };
    let numbers: Vec<u64> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((numbers.try_into().ok()?, is_release))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{self, Part};
    use crate::place::Introduction;
    use crate::settings::Settings;

    #[test]
    fn versions_follow_each_other_by_numbers_and_not_by_letters() {
        let later = [
            ("0.2.0", "0.1.9"),
            ("0.10.0", "0.9.0"),
            ("1.0.0", "0.99.99"),
            ("0.1.1", "v0.1.0"),
            ("1.0.0", "1.0.0-rc.1"),
        ];
        for (a, b) in later {
            assert!(is_later(a, b) && !is_later(b, a), "{a} {b}");
        }
        for (a, b) in [("0.1.0", "0.1.0"), ("0.1.0", "0.1.0+built"), ("dev", "0.1.0"), ("1.0.0-a", "1.0.0-b")]
        {
            assert!(!is_later(a, b) && !is_later(b, a), "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_ours_and_says_a_later_version_counts() {
        let labels = |labels: &[(&str, &str)]| -> BTreeMap<String, String> {
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let manifest = Manifest::from_value(json!({"metadata": {"labels": {VERSION_LABEL: "0.1.0"}}}));
        let silent = Manifest::from_value(json!({"metadata": {}}));
        let ours = labels(&[(MANAGED_BY_LABEL, INSTALLER), (VERSION_LABEL, "0.2.0")]);
        assert_eq!(later_than(&ours, &manifest), Some("0.2.0"));
        assert_eq!(later_than(&ours, &silent), None);
        let by_helm = labels(&[(MANAGED_BY_LABEL, HELM), (VERSION_LABEL, "0.2.0")]);
        assert_eq!(later_than(&by_helm, &manifest), Some("0.2.0"), "ours, whoever brought it");
        assert_eq!(later_than(&labels(&[(VERSION_LABEL, "0.2.0")]), &manifest), None, "somebody else's");
        assert_eq!(later_than(&labels(&[(MANAGED_BY_LABEL, INSTALLER)]), &manifest), None);
    }

    #[test]
    fn roles_of_members_stay_with_whoever_brought_them() {
        let by = |who: &str| [(MANAGED_BY_LABEL.to_owned(), who.to_owned())].into();
        for role in place::member_roles() {
            let mut ours = role.value().clone();
            assert_eq!(beside(&by(INSTALLER), &role), ours);
            ours["metadata"]["labels"][MANAGED_BY_LABEL] = json!(HELM);
            assert_eq!(beside(&by(HELM), &role), ours, "all else is as this version has it");
        }
        let other = place::place(&"a".parse().unwrap(), &Introduction::default()).remove(0);
        assert_eq!(beside(&by(HELM), &other), *other.value());
    }

    #[test]
    fn a_namespace_admits_what_it_admitted_unless_parts_on_nodes_need_more() {
        let settings = Settings::default();
        let level = |there: &[&str], parts: &[Part]| {
            let there = there.iter().map(|level| (ADMISSION_LABEL.to_owned(), (*level).to_owned())).collect();
            beside(&there, &part::namespace(&settings, parts))["metadata"]["labels"][ADMISSION_LABEL].clone()
        };
        assert_eq!(level(&[], &[Part::Hub, Part::Member, Part::Dns]), Value::Null);
        assert_eq!(level(&["restricted"], &[Part::Member]), "restricted");
        assert_eq!(level(&["privileged"], &[]), "privileged", "for proxies that were installed before");
        assert_eq!(level(&["restricted"], &[Part::Proxy]), "privileged");
        assert_eq!(level(&[], &[Part::Member, Part::Balancer]), "privileged");
    }
}
