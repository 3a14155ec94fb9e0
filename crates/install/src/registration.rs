//! What the hub's own part has of a member: a Cluster, and an execution namespace with the Works for it.
//!
//! It makes both and takes both away: a finalizer keeps the Cluster until it has done so. Members outlive that part (`tombolo
//! uninstall --hub`), and then whoever leaves does it instead, or the Cluster would be on its way out for ever. A hub's part
//! that runs without being installed has done so before: it is told first.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt as _};
use serde_json::{Value, json};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::tombolo::{CLUSTER_FINALIZER, MANAGED_BY_LABEL, MANAGER, MEMBER_LABEL};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{is_absent, unless_gone};

use crate::installed::installed;
use crate::part::{INSTALLER, Part};
use crate::remove::remove_this;

/// A Cluster, and its execution namespace, if there is one.
struct Registration {
    cluster: Cluster,
    namespace: Option<Namespace>,
}

/// Tells the hub's own part, wherever it is, that the member leaves.
pub(crate) async fn withdraw(hub: &Client, member: &ClusterId) -> Result<(), Error> {
    match Registration::find(hub, member).await?.filter(Registration::is_ours) {
        Some(found) => remove_this(&Api::all(hub.clone()), &found.cluster).await,
        None => Ok(()),
    }
}

/// Does what is left of it, where no such part is installed. Returns whether anything was.
pub(crate) async fn finish(hub: &Client, member: &ClusterId) -> Result<bool, Error> {
    let Some(found) = Registration::find(hub, member).await? else { return Ok(false) };
    let Some(patch) = found.last_change() else { return Ok(false) };
    if installed(hub).await?.iter().any(|one| one.part == Part::Hub) {
        return Ok(false);
    }
    if let Some(namespace) = found.namespace.as_ref().filter(|one| is_made_by_us(one)) {
        remove_this(&Api::all(hub.clone()), namespace).await?;
    }
    let params = PatchParams { field_manager: Some(INSTALLER.to_owned()), ..PatchParams::default() };
    let clusters: Api<Cluster> = Api::all(hub.clone());
    unless_gone(clusters.patch(member.as_str(), &params, &Patch::Merge(&patch)).await)?;
    Ok(true)
}

impl Registration {
    async fn find(hub: &Client, member: &ClusterId) -> Result<Option<Self>, Error> {
        let Some(namespace) = names::execution_namespace(member) else { return Ok(None) };
        let cluster = match Api::<Cluster>::all(hub.clone()).get(member.as_str()).await {
            Err(error) if is_absent(&error) => return Ok(None),
            cluster => cluster?,
        };
        let namespace = Api::<Namespace>::all(hub.clone()).get_opt(&namespace).await?;
        Ok(Some(Self { cluster, namespace }))
    }

    /// Karmada's own Clusters may be there, too. One of ours from before it said so is known by its namespace.
    fn is_ours(&self) -> bool {
        let cluster = &self.cluster;
        let is_marked = cluster.labels().contains_key(MEMBER_LABEL) || has_our_finalizer(cluster);
        is_marked || self.namespace.as_ref().is_some_and(is_made_by_us)
    }

    /// What lets a Cluster go that is on its way out and waits for the hub's own part. Others may keep it for what is theirs.
    fn last_change(&self) -> Option<Value> {
        let cluster = &self.cluster;
        let waits = cluster.metadata.deletion_timestamp.is_some() && has_our_finalizer(cluster);
        let others: Vec<&String> =
            cluster.finalizers().iter().filter(|one| *one != CLUSTER_FINALIZER).collect();
        waits.then(
            || json!({"metadata": {"finalizers": others, "resourceVersion": cluster.resource_version()}}),
        )
    }
}

fn has_our_finalizer(cluster: &Cluster) -> bool {
    cluster.finalizers().iter().any(|name| name == CLUSTER_FINALIZER)
}

fn is_made_by_us(namespace: &Namespace) -> bool {
    namespace.labels().get(MANAGED_BY_LABEL).is_some_and(|by| by == MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(cluster: Value, namespace: Option<Value>) -> Registration {
        let cluster = json!({"metadata": cluster, "spec": {"syncMode": "Pull"}});
        let namespace =
            namespace.map(|metadata| serde_json::from_value(json!({"metadata": metadata})).unwrap());
        Registration { cluster: serde_json::from_value(cluster).unwrap(), namespace }
    }

    #[test]
    fn a_cluster_is_ours_if_it_or_its_namespace_says_so() {
        let made = |by: &str| Some(json!({"labels": {"app.kubernetes.io/managed-by": by}}));
        let cases = [
            (json!({"labels": {"tombolo.dev/member": "true"}}), None, true),
            (json!({"finalizers": ["tombolo.dev/cluster"]}), None, true),
            (json!({"finalizers": ["karmada.io/cluster-controller"]}), made("tombolo"), true),
            (json!({"finalizers": ["karmada.io/cluster-controller"]}), made("karmada"), false),
            (json!({}), None, false),
        ];
        for (cluster, namespace, expected) in cases {
            assert_eq!(registration(cluster.clone(), namespace).is_ours(), expected, "{cluster}");
        }
    }

    #[test]
    fn only_our_finalizer_is_taken_from_a_cluster_and_only_when_it_goes() {
        let change = |cluster: Value| {
            let patch = registration(cluster, None).last_change();
            patch.map(|patch| patch["metadata"]["finalizers"].clone())
        };
        let both = json!(["example.com/theirs", "tombolo.dev/cluster"]);
        let going = "2026-01-01T00:00:00Z";
        assert_eq!(
            change(json!({"finalizers": both, "deletionTimestamp": going})),
            Some(json!(["example.com/theirs"]))
        );
        assert_eq!(change(json!({"finalizers": both})), None);
        assert_eq!(change(json!({"finalizers": ["example.com/theirs"], "deletionTimestamp": going})), None);
    }
}
