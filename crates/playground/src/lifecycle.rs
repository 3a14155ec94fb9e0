//! A stand-in for the node lifecycle controller: a node that does not say any more that it lives is not ready, and neither
//! are its pods.
//!
//! What counts is whether a lease changes while this looks, not what time it bears: after a break of the API server all
//! nodes get the same chance to say something.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_runtime::{Clock, stamp, unless_gone};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// A node that is silent for so long is not ready: several heartbeats.
const SILENCE: Duration = Duration::from_secs(8);
/// Where nodes keep their leases.
pub(crate) const LEASES: &str = "kube-node-lease";

/// The last change of each node's lease, and when it was seen.
type Seen = BTreeMap<String, (Option<MicroTime>, Instant)>;

/// Looks after all nodes of a cluster, for ever.
pub(crate) async fn run(client: Client) {
    let mut seen = Seen::new();
    loop {
        if let Err(error) = look(&client, &mut seen).await {
            tracing::debug!(%error, "nodes could not be looked at");
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(client: &Client, seen: &mut Seen) -> Result<(), kube::Error> {
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES).list(&ListParams::default()).await?;
    let renewed = leases.items.into_iter().map(|lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        (lease.name_any(), renewed)
    });
    let renewed: BTreeMap<String, Option<MicroTime>> = renewed.collect();
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    seen.retain(|name, _| nodes.items.iter().any(|node| node.name_any() == *name));
    for node in &nodes.items {
        let name = node.name_any();
        let lease = renewed.get(&name).cloned().flatten();
        if is_silent(seen, &name, lease, Instant::now()) && is_ready(node) {
            give_up(client, &name).await?;
        }
    }
    Ok(())
}

/// Whether the lease of a node has not changed for too long.
fn is_silent(seen: &mut Seen, name: &str, lease: Option<MicroTime>, now: Instant) -> bool {
    match seen.get(name) {
        Some((known, since)) if *known == lease => now.duration_since(*since) >= SILENCE,
        _ => {
            seen.insert(name.to_owned(), (lease, now));
            false
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True")
}

async fn give_up(client: &Client, name: &str) -> Result<(), kube::Error> {
    let parameters =
        PatchParams { field_manager: Some("node-lifecycle".to_owned()), ..PatchParams::default() };
    let pods: Api<Pod> = Api::all(client.clone());
    let bound = ListParams::default().fields(&format!("spec.nodeName={name}"));
    for pod in pods.list(&bound).await?.items {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let patch = Patch::Strategic(not_ready("False", "NodeNotReady", "the node does not answer"));
        unless_gone(api.patch_status(&pod.name_any(), &parameters, &patch).await)?;
    }
    let patch =
        Patch::Strategic(not_ready("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."));
    let nodes: Api<Node> = Api::all(client.clone());
    unless_gone(nodes.patch_status(name, &parameters, &patch).await)
}

fn not_ready(status: &str, reason: &str, message: &str) -> Value {
    let now = stamp(Clock::wall().now());
    json!({"status": {"conditions": [
        {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_that_stands_still_while_it_is_watched_is_silence() {
        let at = |second| Some(MicroTime(jiff::Timestamp::from_second(second).unwrap()));
        let (mut seen, start) = (Seen::new(), Instant::now());
        let mut silent =
            |lease, after| is_silent(&mut seen, "node1", lease, start + Duration::from_secs(after));
        assert!(!silent(at(1), 0), "an old lease that is new to us");
        assert!(!silent(at(1), 7));
        assert!(silent(at(1), 8));
        assert!(!silent(at(2), 9), "it lives again");
        assert!(!silent(at(2), 16));
        assert!(silent(at(2), 17));
        assert!(!silent(None, 18), "a lease that was taken away is a change, too");
    }
}
