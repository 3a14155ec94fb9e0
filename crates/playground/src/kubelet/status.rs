//! What a pod says about itself: from what is known of its containers to its status. Pure.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tombolo_runtime::stamp;

/// What is known of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerState {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) life: Life,
    /// How it ended the last time.
    pub(super) before: Option<End>,
    pub(super) restarts: u32,
    /// Its readiness probe says so, or it has none.
    pub(super) ready: bool,
    /// Its startup probe has succeeded, or it has none.
    pub(super) started: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Waiting { reason: &'static str, message: String },
    Running { since: Timestamp },
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) code: i32,
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
}

impl ContainerState {
    pub(super) fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            life: Life::Waiting { reason: "ContainerCreating", message: String::new() },
            before: None,
            restarts: 0,
            ready: false,
            started: false,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.life, Life::Running { .. })
    }
}

/// What is known of a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodState {
    pub(super) address: Option<Ipv4Addr>,
    pub(super) host: Ipv4Addr,
    pub(super) since: Timestamp,
    pub(super) init: Vec<ContainerState>,
    pub(super) containers: Vec<ContainerState>,
    /// All init containers have done their work.
    pub(super) initialized: bool,
}

/// Where a pod is in its life. Containers that will be started again are waiting, not ended.
pub(super) fn phase(state: &PodState) -> &'static str {
    let failed = |found: &ContainerState| matches!(found.life, Life::Ended(end) if end.code != 0);
    if state.init.iter().any(failed) {
        return "Failed";
    }
    let ended = |found: &ContainerState| matches!(found.life, Life::Ended(_));
    if state.initialized && !state.containers.is_empty() && state.containers.iter().all(ended) {
        return if state.containers.iter().any(failed) { "Failed" } else { "Succeeded" };
    }
    let begun = |found: &ContainerState| found.is_running() || found.restarts > 0 || ended(found);
    if state.initialized && state.containers.iter().any(begun) { "Running" } else { "Pending" }
}

/// The status to merge into the pod's. Times of conditions that do not change stay as they are.
pub(super) fn status(pod: &Pod, state: &PodState, now: Timestamp) -> Value {
    let ready =
        phase(state) == "Running" && state.containers.iter().all(|found| found.is_running() && found.ready);
    let conditions = [
        ("PodReadyToStartContainers", state.address.is_some(), "NoSandbox"),
        ("Initialized", state.initialized, "ContainersNotInitialized"),
        ("ContainersReady", ready, "ContainersNotReady"),
        (
            "Ready",
            ready && are_gates_open(pod),
            if ready { "ReadinessGatesNotReady" } else { "ContainersNotReady" },
        ),
    ];
    let conditions = conditions.map(|(kind, holds, reason)| condition(pod, kind, holds, reason, now));
    let shown =
        |all: &[ContainerState]| -> Vec<Value> { all.iter().map(|found| container(pod, found)).collect() };
    let mut status = json!({
        "phase": phase(state),
        "startTime": stamp(state.since),
        "hostIP": state.host,
        "hostIPs": [{"ip": state.host}],
        "conditions": conditions,
        "containerStatuses": shown(&state.containers),
    });
    if !state.init.is_empty() {
        status["initContainerStatuses"] = shown(&state.init).into();
    }
    if let Some(address) = state.address {
        status["podIP"] = json!(address);
        status["podIPs"] = json!([{"ip": address}]);
    }
    status
}

fn condition(pod: &Pod, kind: &str, holds: bool, reason: &str, now: Timestamp) -> Value {
    let status = if holds { "True" } else { "False" };
    let known = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let known = known.into_iter().flatten().find(|found| found.type_ == kind && found.status == status);
    let since = known.and_then(|found| found.last_transition_time.clone());
    let since = since.map_or_else(|| json!(stamp(now)), |since| json!(since));
    // A merge keeps what is not mentioned.
    let reason = if holds { Value::Null } else { json!(reason) };
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since})
}

fn are_gates_open(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    gates.into_iter().flatten().all(|gate| {
        let found = conditions.into_iter().flatten().find(|found| found.type_ == gate.condition_type);
        found.is_some_and(|found| found.status == "True")
    })
}

fn container(pod: &Pod, state: &ContainerState) -> Value {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let life = match &state.life {
        Life::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        Life::Running { since } => json!({"running": {"startedAt": stamp(*since)}}),
        Life::Ended(end) => json!({"terminated": ended(end)}),
    };
    let before = state.before.as_ref().map_or_else(|| json!({}), |end| json!({"terminated": ended(end)}));
    json!({
        "name": state.name,
        "image": state.image,
        "imageID": format!("tombolo://{}", state.image),
        "containerID": format!("tombolo://{uid}/{}/{}", state.name, state.restarts),
        "ready": state.ready && state.is_running(),
        "started": state.started && state.is_running(),
        "restartCount": state.restarts,
        "state": life,
        "lastState": before,
    })
}

fn ended(end: &End) -> Value {
    let reason = if end.code == 0 { "Completed" } else { "Error" };
    json!({"exitCode": end.code, "reason": reason, "startedAt": stamp(end.since), "finishedAt": stamp(end.at)})
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn state(lives: &[Life]) -> PodState {
        let container = |(place, life): (usize, &Life)| ContainerState {
            life: life.clone(),
            ready: true,
            started: true,
            ..ContainerState::new(&format!("c{place}"), "tombolo/echo")
        };
        PodState {
            address: Some([10, 1, 1, 2].into()),
            host: [172, 20, 1, 11].into(),
            since: NOW,
            init: Vec::new(),
            containers: lives.iter().enumerate().map(container).collect(),
            initialized: true,
        }
    }

    fn ready(pod: Value, state: &PodState) -> String {
        let pod: Pod = from_value(pod).unwrap();
        let status = status(&pod, state, NOW);
        let all = status["conditions"].as_array().unwrap();
        all.iter().find(|found| found["type"] == "Ready").unwrap()["status"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_phase_follows_the_containers() {
        let running = Life::Running { since: NOW };
        let waiting = Life::Waiting { reason: "ContainerCreating", message: String::new() };
        let end = |code| Life::Ended(End { code, since: NOW, at: NOW });
        let cases: [(&[Life], &str); 7] = [
            (std::slice::from_ref(&waiting), "Pending"),
            (&[running.clone(), waiting.clone()], "Running"),
            (std::slice::from_ref(&running), "Running"),
            (&[end(0)], "Succeeded"),
            (&[end(0), end(1)], "Failed"),
            (&[end(0), running.clone()], "Running"),
            (&[], "Pending"),
        ];
        for (lives, expected) in cases {
            assert_eq!(phase(&state(lives)), expected, "{lives:?}");
        }
        let again = PodState {
            containers: vec![ContainerState {
                restarts: 1,
                life: waiting,
                ..state(&[end(1)]).containers[0].clone()
            }],
            ..state(&[])
        };
        assert_eq!(phase(&again), "Running", "a container that starts again has begun");
    }

    #[test]
    fn a_pod_is_ready_when_all_of_it_is() {
        let running = Life::Running { since: NOW };
        let mut both = state(&[running.clone(), running]);
        assert_eq!(ready(json!({}), &both), "True");
        let gate =
            json!({"spec": {"containers": [], "readinessGates": [{"conditionType": "example.com/ok"}]}});
        assert_eq!(ready(gate, &both), "False");
        both.containers[1].ready = false;
        assert_eq!(ready(json!({}), &both), "False");
    }

    #[test]
    fn conditions_that_stay_keep_their_time() {
        let known = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
        let pod: Pod = from_value(known).unwrap();
        let told = status(&pod, &state(&[Life::Running { since: NOW }]), NOW);
        assert_eq!(told["conditions"][3]["lastTransitionTime"], "2020-01-01T00:00:00Z");
        assert_eq!(told["conditions"][2]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }
}
