//! Leaving: what [`crate::place()`] and [`Membership`](crate::Membership) made is taken back.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, Error, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tombolo_api::about::{CLUSTER_ID_PROPERTY, CLUSTER_SET_PROPERTY, ClusterProperty};
use tombolo_api::tombolo::MANAGED_BY_LABEL;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{is_absent, unless_gone};

use crate::join::REPLICAS_ANNOTATION;
use crate::membership::{CONFIG_MAP, HUB_SECRET};
use crate::part::{INSTALLER, Part};
use crate::remove::remove_this;
use crate::{place, registration, turn};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long agents may take to end: pods have 30 s for it.
const STOPPING: Duration = Duration::from_secs(60);
/// Whoever stands by looks every two seconds whether the lease was given back.
const HANDOVER: Duration = Duration::from_secs(3);

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

/// Takes the place of a member away, and what a join of it left that died. Everything that it said at the hub goes with its
/// namespace; others notice.
pub async fn take_place(hub: &Client, member: &ClusterId, patience: Duration) -> Result<Place, Error> {
    turn::forget(hub, member).await?;
    let namespace = names::hub_namespace(member);
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.clone());
    let binding = place::binding(&namespace);
    let Some(found) = namespaces.get_opt(&namespace).await? else {
        // Who removed the namespace by hand left this behind, and whoever left before may have been interrupted.
        let left = bindings.get_opt(&binding).await?.is_some_and(|one| is_ours(&one));
        if left {
            remove(&bindings, &binding).await?;
        }
        let was_registered = registration::finish(hub, member).await?;
        return Ok(if left || was_registered { Place::Taken } else { Place::NotThere });
    };
    if place::resident(&found).as_ref() != Some(member) {
        return Ok(Place::Foreign);
    }
    // The account first: an agent that still runs could not say anything any more.
    remove(&bindings, &binding).await?;
    registration::withdraw(hub, member).await?;
    remove_this(&namespaces, &found).await?;
    let deadline = Instant::now() + patience;
    while namespaces.get_opt(&namespace).await?.is_some_and(|one| one.uid() == found.uid()) {
        if Instant::now() > deadline {
            return Ok(Place::Lingers);
        }
        sleep(LOOK_EVERY).await;
    }
    registration::finish(hub, member).await?;
    Ok(Place::Taken)
}

/// Ends the agents that `tombolo install` started; those that run elsewhere are for somebody else to end. Returns who is
/// still at work after a while, if anybody is: a pod, or the one that holds the lease they all compete for.
///
/// An empty lease alone says little: one agent gives it back, and the next takes it. So no pod may be left that could, and
/// the lease has to stay as it is.
pub async fn stop_agents(member: &Client, namespace: &str) -> Result<Option<String>, Error> {
    let deployments: Api<Deployment> = Api::namespaced(member.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(member.clone(), namespace);
    let leases: Api<Lease> = Api::namespaced(member.clone(), namespace);
    scale_down(&deployments).await?;
    let mut seen = LeaseSeen::default();
    let deadline = Instant::now() + STOPPING;
    loop {
        let running = running(&deployments, &pods).await?;
        let lease = leases.get_opt(&Part::Member.object_name()).await?.and_then(|lease| lease.spec);
        let holder = seen.holder(lease, Instant::now());
        let Some(at_work) = running.or(holder) else { return Ok(None) };
        if Instant::now() > deadline {
            return Ok(Some(at_work));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What still runs of the Deployment, where anything runs its pods. Those on their way out count until they are gone.
async fn running(deployments: &Api<Deployment>, pods: &Api<Pod>) -> Result<Option<String>, Error> {
    let name = Part::Member.object_name();
    let Some(found) = deployments.get_opt(&name).await? else { return Ok(None) };
    if is_scaling(&found) {
        return Ok(Some(format!("deployment/{name}, which has pods")));
    }
    let labels: Vec<String> =
        Part::Member.selector().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let found = pods.list(&ListParams::default().labels(&labels.join(","))).await?.items;
    Ok(found.iter().find(|pod| !has_ended(pod)).map(|pod| format!("pod/{}", pod.name_any())))
}

/// Whether somebody has looked at the Deployment before and has not brought it to an end yet.
fn is_scaling(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let Some(observed) = status.observed_generation else { return false };
    deployment.metadata.generation.is_some_and(|wanted| observed < wanted) || status.replicas.unwrap_or(0) > 0
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The lease as it was seen last, and since when it has been like that.
#[derive(Debug, Default)]
struct LeaseSeen(Option<(LeaseSpec, Instant)>);

impl LeaseSeen {
    /// Who may be at work, as far as the lease tells. One that was given back may be taken by who stands by; one that is
    /// held and not renewed is that of a dead agent.
    fn holder(&mut self, lease: Option<LeaseSpec>, now: Instant) -> Option<String> {
        let lease = lease?;
        let holder = lease.holder_identity.clone().unwrap_or_default();
        let duration = u64::try_from(lease.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        let patience = if holder.is_empty() { HANDOVER } else { Duration::from_secs(duration) };
        if self.0.as_ref().is_none_or(|(before, _)| *before != lease) {
            self.0 = Some((lease, now));
        }
        let since = self.0.as_ref().map_or(now, |(_, since)| *since);
        if now.duration_since(since) > patience {
            return None;
        }
        Some(match holder.is_empty() {
            true => "whoever takes the lease next".to_owned(),
            false => format!("{holder}, which holds the lease"),
        })
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
    match api.delete(name, &DeleteParams::default()).await {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a command of ours made it.
fn is_ours<K: Resource>(object: &K) -> bool {
    object.labels().get(MANAGED_BY_LABEL).is_some_and(|by| by == INSTALLER)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;

    fn lease(holder: &str, renewals: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(renewals),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_that_was_given_back_has_to_stay_so() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut seen = LeaseSeen::default();
        assert_eq!(seen.holder(None, start), None, "nobody ever led");
        assert!(seen.holder(Some(lease("", 1)), start).is_some());
        let taken = seen.holder(Some(lease("standby", 2)), after(2));
        assert!(taken.is_some_and(|who| who.contains("standby")));
        assert!(seen.holder(Some(lease("", 2)), after(4)).is_some(), "given back once more");
        assert_eq!(seen.holder(Some(lease("", 2)), after(8)), None);
    }

    #[test]
    fn a_lease_that_nobody_renews_is_that_of_a_dead_agent() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut seen = LeaseSeen::default();
        for second in [0, 10] {
            assert!(seen.holder(Some(lease("dead", 1)), after(second)).is_some());
        }
        assert!(seen.holder(Some(lease("dead", 2)), after(12)).is_some(), "renewed");
        assert!(seen.holder(Some(lease("dead", 2)), after(26)).is_some());
        assert_eq!(seen.holder(Some(lease("dead", 2)), after(28)), None);
    }

    #[test]
    fn a_deployment_is_at_rest_when_its_end_was_noticed_and_nothing_is_left_or_nobody_looks_after_it() {
        let deployment = |status: Option<(i64, i32)>| {
            let mut one = Deployment::default();
            one.metadata.generation = Some(3);
            one.status = status.map(|(observed, replicas)| DeploymentStatus {
                observed_generation: Some(observed),
                replicas: Some(replicas),
                ..DeploymentStatus::default()
            });
            one
        };
        assert!(!is_scaling(&deployment(None)));
        assert!(!is_scaling(&deployment(Some((3, 0)))));
        assert!(is_scaling(&deployment(Some((2, 0)))));
        assert!(is_scaling(&deployment(Some((3, 1)))));
    }
}
