//! What a node says about itself, and that it lives.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_runtime::{Clock, stamp};

use crate::lifecycle::LEASES;
use crate::plan::NodePlan;

/// How often a node says that it lives: several times before it is given up.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Who was heard so late may have been given up.
const LATE: Duration = Duration::from_secs(4);
const RETRY: Duration = Duration::from_millis(500);

/// Registers a node and renews its lease, for ever. After a silence it may have been given up, so it registers again. At
/// `port` it can be asked for what only it knows.
pub(super) async fn keep(client: &Client, plan: &NodePlan, port: Option<u16>, registered: impl FnOnce()) {
    let mut registered = Some(registered);
    loop {
        while let Err(error) = register(client, plan, port).await {
            tracing::debug!(node = plan.name(), %error, "a node could not be registered");
            tokio::time::sleep(RETRY).await;
        }
        if let Some(registered) = registered.take() {
            registered();
        }
        let mut begun = Instant::now();
        while renew(client, plan).await.inspect_err(|error| report(plan, error)).is_ok()
            && begun.elapsed() < LATE
        {
            tokio::time::sleep(HEARTBEAT).await;
            begun = Instant::now();
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn report(plan: &NodePlan, error: &kube::Error) {
    tracing::debug!(node = plan.name(), %error, "a node could not say that it lives");
}

async fn register(client: &Client, plan: &NodePlan, port: Option<u16>) -> Result<(), kube::Error> {
    let (name, now) = (plan.name(), stamp(Clock::wall().now()));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(&name, &parameters(), &Patch::Apply(node(plan))).await?;
    nodes.patch_status(&name, &parameters(), &Patch::Apply(status(plan, port, &now))).await.map(drop)
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

fn status(plan: &NodePlan, port: Option<u16>, now: &str) -> Value {
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "250"});
    let endpoints = port.map(|port| json!({"kubeletEndpoint": {"Port": port}}));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name()},
        "status": {
            "daemonEndpoints": endpoints.unwrap_or_else(|| json!({})),
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
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 8, "renewTime": now},
    })
}
