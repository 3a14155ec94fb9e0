//! Which parts a cluster has, and which of them need a kind.

use std::fmt;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::ListParams;
use kube::{Api, Client, Error, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tombolo_runtime::is_absent;

use crate::definitions::definitions;
use crate::part::{COMPONENT_LABEL, NAME_LABEL, Part, VERSION_LABEL};

/// A part that is installed, by whatever means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub part: Part,
    pub namespace: String,
    /// The version that installed it, if it says so.
    pub version: Option<String>,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.part.object_name(), self.namespace)
    }
}

/// All parts in any namespace of a cluster.
pub async fn installed(client: &Client) -> Result<Vec<Installed>, Error> {
    let mut all = workloads::<Deployment>(client).await?;
    all.extend(workloads::<DaemonSet>(client).await?);
    Ok(all)
}

async fn workloads<K>(client: &Client) -> Result<Vec<Installed>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    let ours = ListParams::default().labels(&format!("{NAME_LABEL}=tombolo"));
    match Api::<K>::all(client.clone()).list(&ours).await {
        // An API server may be there for nothing but to be a hub.
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        found => Ok(found?.items.iter().filter_map(part_of).collect()),
    }
}

fn part_of<K: Resource>(workload: &K) -> Option<Installed> {
    let labels = workload.labels();
    let component = labels.get(COMPONENT_LABEL)?;
    let part = Part::ALL.into_iter().find(|part| part.command() == component)?;
    let namespace = workload.namespace().unwrap_or_default();
    Some(Installed { part, namespace, version: labels.get(VERSION_LABEL).cloned() })
}

/// Who of these reads or writes a kind, by the name of its definition.
pub fn who_needs<'a>(definition: &str, installed: &'a [Installed]) -> Option<&'a Installed> {
    let needs = |part: Part| definitions(&[part]).iter().any(|one| one.name_any() == definition);
    installed.iter().find(|one| needs(one.part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::workload::workload;

    #[test]
    fn a_workload_says_which_part_it_runs_and_of_which_version() {
        let agents = workload(Part::Member, &Settings::default());
        let agents: Deployment = serde_json::from_value(agents.value().clone()).unwrap();
        let found = part_of(&agents).unwrap();
        assert_eq!((found.part, found.namespace.as_str()), (Part::Member, "tombolo-system"));
        assert_eq!(found.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_kind_is_needed_by_whoever_reads_or_writes_it() {
        let all = |parts: &[Part]| -> Vec<Installed> {
            let at = |part: &Part| Installed {
                part: *part,
                namespace: "tombolo-system".to_owned(),
                version: None,
            };
            parts.iter().map(at).collect()
        };
        let exports = "serviceexports.multicluster.x-k8s.io";
        let both = all(&[Part::Hub, Part::Member]);
        assert_eq!(who_needs(exports, &both).map(|one| one.part), Some(Part::Member));
        assert_eq!(who_needs(exports, &all(&[Part::Hub, Part::Balancer])), None);
        assert_eq!(who_needs("memberships.tombolo.dev", &both).map(|one| one.part), Some(Part::Hub));
    }
}
