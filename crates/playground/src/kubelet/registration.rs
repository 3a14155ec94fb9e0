//! What a node says about itself, and that it lives.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tombolo_runtime::{Clock, stamp};

use crate::plan::NodePlan;

/// How often a node says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);
/// Where nodes keep their leases.
const LEASES: &str = "kube-node-lease";

/// Registers a node and renews its lease, for ever. What a node says about itself does not change while it lives.
pub(super) async fn keep(client: &Client, plan: &NodePlan, registered: impl FnOnce()) {
    while let Err(error) = register(client, plan).await {
        tracing::debug!(node = plan.name(), %error, "a node could not be registered");
        tokio::time::sleep(RETRY).await;
    }
    registered();
    loop {
        let pause = match renew(client, plan).await {
            Ok(()) => HEARTBEAT,
            Err(error) => {
                tracing::debug!(node = plan.name(), %error, "a node could not say that it lives");
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn register(client: &Client, plan: &NodePlan) -> Result<(), kube::Error> {
    let (name, now) = (plan.name(), stamp(Clock::wall().now()));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(&name, &parameters(), &Patch::Apply(node(plan))).await?;
    nodes.patch_status(&name, &parameters(), &Patch::Apply(status(plan, &now))).await.map(drop)
}

async fn renew(client: &Client, plan: &NodePlan) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    leases.patch(&plan.name(), &parameters(), &Patch::Apply(lease(&plan.name()))).await.map(drop)
}

fn parameters() -> PatchParams {
    PatchParams::apply("kubelet").force()
}

fn node(plan: &NodePlan) -> Value {
    let pods = plan.pods().to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name(), "labels": {
            "kubernetes.io/hostname": plan.name(),
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": plan.zone(),
            "topology.kubernetes.io/region": plan.region(),
        }},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
    })
}

fn status(plan: &NodePlan, now: &str) -> Value {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "250"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name()},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": plan.address()},
                {"type": "Hostname", "address": plan.name()},
            ],
            "nodeInfo": {
                "architecture": std::env::consts::ARCH,
                "bootID": "",
                "containerRuntimeVersion": "tombolo://playground",
                "kernelVersion": kernel(),
                "kubeProxyVersion": "",
                "kubeletVersion": "tombolo",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "playground",
                "systemUUID": "",
            },
            "capacity": room,
            "allocatable": room,
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "pods are processes in network namespaces",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
        },
    })
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn lease(name: &str) -> Value {
    let now = format!("{:.6}", Clock::wall().now());
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    })
}
