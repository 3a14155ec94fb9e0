//! Leaving: what [`crate::place()`] and [`Membership`](crate::Membership) made is taken back.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Error, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tombolo_api::about::{CLUSTER_ID_PROPERTY, CLUSTER_SET_PROPERTY, ClusterProperty};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::tombolo::MANAGED_BY_LABEL;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{is_absent, unless_gone};

use crate::join::REPLICAS_ANNOTATION;
use crate::membership::{CONFIG_MAP, HUB_SECRET};
use crate::part::{INSTALLER, Part};
use crate::place;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What became of a place at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is gone, and all that its member said there.
    Taken,
    /// There was none.
    NotThere,
    /// A namespace has the name that it would have, and is not the member's: it was left alone.
    Foreign,
    /// Its namespace did not go in time.
    Lingers,
}

/// Takes the place of a member away. Everything that it said at the hub goes with its namespace; others notice.
pub async fn take_place(hub: &Client, member: &ClusterId, patience: Duration) -> Result<Place, Error> {
    let namespace = names::hub_namespace(member);
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.clone());
    let binding = place::binding(&namespace);
    let Some(found) = namespaces.get_opt(&namespace).await? else {
        // Who removed the namespace by hand left this behind.
        let left = bindings.get_opt(&binding).await?.is_some_and(|one| is_ours(&one));
        if !left {
            return Ok(Place::NotThere);
        }
        remove(&bindings, &binding).await?;
        return Ok(Place::Taken);
    };
    if place::resident(&found).as_ref() != Some(member) {
        return Ok(Place::Foreign);
    }
    // The account first: an agent that still runs could not say anything any more.
    remove(&bindings, &binding).await?;
    if names::execution_namespace(member).is_some() {
        remove(&Api::<Cluster>::all(hub.clone()), member.as_str()).await?;
    }
    // This namespace and none that has its name by now.
    let only = Preconditions { uid: found.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    gone_already(namespaces.delete(&namespace, &params).await)?;
    let deadline = Instant::now() + patience;
    while namespaces.get_opt(&namespace).await?.is_some_and(|one| one.uid() == found.uid()) {
        if Instant::now() > deadline {
            return Ok(Place::Lingers);
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(Place::Taken)
}

/// Ends the agents that `tombolo install` started; those that run elsewhere are for somebody else to end. Returns whether
/// none works any more: the lease that they compete for is given back, or nobody renews it.
pub async fn stop_agents(member: &Client, namespace: &str) -> Result<bool, Error> {
    scale_down(&Api::namespaced(member.clone(), namespace)).await?;
    let leases: Api<Lease> = Api::namespaced(member.clone(), namespace);
    let mut seen: Option<(Option<LeaseSpec>, Instant)> = None;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let lease = leases.get_opt(&Part::Member.object_name()).await?.and_then(|lease| lease.spec);
        let holder = lease.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        let duration = lease.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        if holder.is_empty() {
            return Ok(true);
        }
        let duration = Duration::from_secs(u64::try_from(duration).unwrap_or_default());
        match &seen {
            Some((before, since)) if *before == lease && since.elapsed() > duration => return Ok(true),
            Some((before, _)) if *before == lease => {}
            _ => seen = Some((lease, Instant::now())),
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Ends the pods, and remembers how many there were for when the cluster comes back.
async fn scale_down(deployments: &Api<Deployment>) -> Result<(), Error> {
    let name = Part::Member.object_name();
    let Some(found) = deployments.get_opt(&name).await? else { return Ok(()) };
    let count = found.spec.replicas.unwrap_or(1);
    if count == 0 {
        return Ok(());
    }
    let none = json!({
        "metadata": {"annotations": {REPLICAS_ANNOTATION: count.to_string()}},
        "spec": {"replicas": 0},
    });
    let params = PatchParams { field_manager: Some(INSTALLER.to_owned()), ..PatchParams::default() };
    unless_gone(deployments.patch(&name, &params, &Patch::Merge(none)).await)
}

/// The cluster is nobody's member any more: what [`crate::Membership`] left in it goes, as far as it is ours.
pub async fn forget(member: &Client, namespace: &str) -> Result<(), Error> {
    remove(&Api::<Secret>::namespaced(member.clone(), namespace), HUB_SECRET).await?;
    remove(&Api::<ConfigMap>::namespaced(member.clone(), namespace), CONFIG_MAP).await?;
    let properties: Api<ClusterProperty> = Api::all(member.clone());
    // Its name last: whoever has to do this again is asked for it.
    for name in [CLUSTER_SET_PROPERTY, CLUSTER_ID_PROPERTY] {
        let found = match properties.get(name).await {
            Err(error) if is_absent(&error) => continue,
            found => found?,
        };
        if is_ours(&found) {
            remove(&properties, name).await?;
        }
    }
    Ok(())
}

/// Deletes an object; what is not there is gone already, whatever its kind.
async fn remove<K>(api: &Api<K>, name: &str) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    gone_already(api.delete(name, &DeleteParams::default()).await)
}

fn gone_already<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if is_absent(&error) => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Whether a command of ours made it.
fn is_ours<K: Resource>(object: &K) -> bool {
    object.labels().get(MANAGED_BY_LABEL).is_some_and(|by| by == INSTALLER)
}
