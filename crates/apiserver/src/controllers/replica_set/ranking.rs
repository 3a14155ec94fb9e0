//! Which pod goes first when there are too many.
//!
//! The least is lost by deleting pods that do not serve yet, then those that cost least by annotation, then those on
//! crowded nodes, then the youngest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::pod_state;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts pods so that those to delete come first.
pub(super) fn sort(pods: &mut [&Pod]) {
    let mut on_node: BTreeMap<String, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod_state::node(pod)) {
        *on_node.entry(node.to_owned()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let crowd = pod_state::node(pod).and_then(|node| on_node.get(node)).copied().unwrap_or(0);
        (
            (pod_state::node(pod).is_some(), stage(pod), pod_state::is_ready(pod), cost(pod)),
            Reverse(crowd),
            Reverse(pod_state::ready_since(pod).unwrap_or(Timestamp::MIN)),
            Reverse(restarts(pod)),
            Reverse(pod.metadata.creation_timestamp.clone()),
            pod.name_any(),
        )
    });
}

fn stage(pod: &Pod) -> u8 {
    match pod_state::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn cost(pod: &Pod) -> i32 {
    pod.annotations().get(COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|container| container.restart_count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn pod(name: &str, extra: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": name, "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]},
        });
        json_patch::merge(&mut pod, &extra);
        from_value(pod).unwrap()
    }

    #[test]
    fn each_reason_outweighs_those_after_it() {
        let restarted = json!([{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 4}]);
        let fresh =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"}]);
        let ordered = [
            pod(
                "unbound",
                json!({"spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": null}}),
            ),
            pod("pending", json!({"status": {"phase": "Pending"}})),
            pod("not-ready", json!({"status": {"conditions": null}})),
            pod("cheap", json!({"metadata": {"annotations": {COST: "-1"}}})),
            pod("crowded-1", json!({"spec": {"nodeName": "n"}})),
            pod("crowded-2", json!({"spec": {"nodeName": "n"}})),
            pod("fresh", json!({"status": {"conditions": fresh}})),
            pod("restarted", json!({"status": {"containerStatuses": restarted}})),
            pod("young", json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:30Z"}})),
            pod("by-name", json!({})),
            pod("dear", json!({"metadata": {"annotations": {COST: "5"}}})),
        ];
        let mut pods: Vec<&Pod> = ordered.iter().rev().collect();
        sort(&mut pods);
        let names: Vec<String> = pods.iter().map(|pod| pod.name_any()).collect();
        let expected: Vec<String> = ordered.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, expected);
    }
}
