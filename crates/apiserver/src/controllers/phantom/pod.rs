//! What a pod on a phantom node says about itself.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::pod_state;
use super::node;

/// The status to merge into the pod's; nothing when it is right already. A pod is brought up once: whoever changes its
/// readiness afterwards, such as a test, is left alone.
pub(super) fn status(pod: &Pod, node: &Node, address: impl FnOnce() -> Option<Ipv4Addr>) -> Option<Value> {
    if pod_state::phase(pod) == "Pending" {
        return start(pod, node, address);
    }
    gates(pod).map(|ready| json!({"conditions": [ready]}))
}

fn start(pod: &Pod, node: &Node, address: impl FnOnce() -> Option<Ipv4Addr>) -> Option<Value> {
    let host = node::own_address(node);
    let shares_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let address = if shares_host { host?.to_owned() } else { address()?.to_string() };
    let since = since(pod);
    let mut conditions: Vec<Value> = ["PodReadyToStartContainers", "Initialized", "ContainersReady"]
        .map(|kind| condition(kind, true, &since))
        .to_vec();
    conditions.push(condition("Ready", are_gates_open(pod), &since));
    let spec = pod.spec.as_ref()?;
    let containers: Vec<Value> =
        spec.containers.iter().map(|container| running(pod, container, &since)).collect();
    let mut status = json!({
        "phase": "Running",
        "startTime": since,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": containers,
    });
    if let Some(host) = host {
        status["hostIP"] = json!(host);
        status["hostIPs"] = json!([{"ip": host}]);
    }
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if !init.is_empty() {
        let statuses: Vec<Value> = init.iter().map(|container| initialised(pod, container, &since)).collect();
        status["initContainerStatuses"] = statuses.into();
    }
    Some(status)
}

/// Nobody looks at a clock: the pod started when it was bound.
fn since(pod: &Pod) -> Option<Time> {
    let bound =
        pod_state::condition(pod, "PodScheduled").and_then(|bound| bound.last_transition_time.clone());
    bound.or_else(|| pod.metadata.creation_timestamp.clone())
}

fn condition(kind: &str, is_true: bool, since: &Option<Time>) -> Value {
    let status = if is_true { "True" } else { "False" };
    let mut value = json!({"type": kind, "status": status, "lastTransitionTime": since});
    if !is_true {
        value["reason"] = json!("ReadinessGatesNotReady");
    }
    value
}

fn running(pod: &Pod, container: &Container, since: &Option<Time>) -> Value {
    status_of(pod, container, json!({"running": {"startedAt": since}}))
}

/// Those that go on restarting are sidecars; the others have done their work.
fn initialised(pod: &Pod, container: &Container, since: &Option<Time>) -> Value {
    if container.restart_policy.as_deref() == Some("Always") {
        return running(pod, container, since);
    }
    let end = json!({"exitCode": 0, "reason": "Completed", "startedAt": since, "finishedAt": since});
    let mut status = status_of(pod, container, json!({"terminated": end}));
    status["started"] = json!(false);
    status
}

fn status_of(pod: &Pod, container: &Container, state: Value) -> Value {
    let image = container.image.clone().unwrap_or_default();
    json!({
        "name": container.name,
        "image": image,
        "imageID": format!("phantom://{image}"),
        "containerID": format!("phantom://{}/{}", pod.uid().unwrap_or_default(), container.name),
        "ready": true,
        "started": true,
        "restartCount": 0,
        "state": state,
    })
}

fn are_gates_open(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    gates.into_iter().flatten().all(|gate| {
        pod_state::condition(pod, &gate.condition_type).is_some_and(|found| found.status == "True")
    })
}

/// Readiness follows the gates of pods that have any.
fn gates(pod: &Pod) -> Option<Value> {
    let gates = pod.spec.as_ref()?.readiness_gates.as_ref().filter(|gates| !gates.is_empty())?;
    let open = are_gates_open(pod);
    if open == pod_state::is_ready(pod) || pod_state::phase(pod) != "Running" {
        return None;
    }
    let turned = gates.iter().filter_map(|gate| pod_state::condition(pod, &gate.condition_type));
    let since = turned.filter_map(|found| found.last_transition_time.clone()).max().or_else(|| since(pod));
    let mut ready = condition("Ready", open, &since);
    if open {
        // A merge keeps what is not mentioned.
        ready["reason"] = Value::Null;
    }
    Some(ready)
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn pod(extra: Value) -> Pod {
        let mut value = json!({
            "metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "example"}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
        });
        json_patch::merge(&mut value, &extra);
        from_value(value).unwrap()
    }

    fn phantom() -> Node {
        let mut node = node::node(1);
        node.status = Some(from_value(node::status(&node, 1)).unwrap());
        node
    }

    fn check(extra: Value) -> Option<Value> {
        status(&pod(extra), &phantom(), || Some(Ipv4Addr::new(10, 244, 1, 2)))
    }

    fn ready(status: &Value) -> &str {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().find(|found| found["type"] == "Ready").unwrap()["status"].as_str().unwrap()
    }

    #[test]
    fn a_bound_pod_runs_at_once() {
        let status = check(json!({})).unwrap();
        assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &json!("10.244.1.2")));
        assert_eq!((&status["hostIP"], ready(&status)), (&json!("172.18.0.2"), "True"));
        assert_eq!(status["startTime"], "2026-01-01T00:00:05Z");
        assert_eq!(status["containerStatuses"][0]["state"]["running"]["startedAt"], "2026-01-01T00:00:05Z");
        let host = check(json!({"spec": {"hostNetwork": true}})).unwrap();
        assert_eq!(host["podIP"], "172.18.0.2");
    }

    #[test]
    fn a_running_pod_is_left_alone() {
        let unready = json!([{"type": "Ready", "status": "False"}]);
        assert_eq!(check(json!({"status": {"phase": "Running", "conditions": unready}})), None);
        assert_eq!(check(json!({"status": {"phase": "Succeeded"}})), None);
    }

    #[test]
    fn gates_hold_readiness_back() {
        let gates = json!([{"conditionType": "example.com/ok"}]);
        let status = check(json!({"spec": {"readinessGates": gates}})).unwrap();
        assert_eq!(ready(&status), "False");
        let conditions =
            json!([{"type": "Ready", "status": "False"}, {"type": "example.com/ok", "status": "True"}]);
        let open = json!({"spec": {"readinessGates": gates}, "status": {"phase": "Running", "conditions": conditions}});
        assert_eq!(ready(&check(open).unwrap()), "True");
    }

    #[test]
    fn a_pod_waits_when_the_node_has_no_address_left() {
        assert_eq!(status(&pod(json!({})), &phantom(), || None), None);
    }
}
