//! Pods: what they get, what they may be, and how they come to a node.
//!
//! The spec of a pod is nearly frozen once it exists. The node in particular is chosen through `pods/binding`, by
//! [`bind`], and not by writing the field.

mod defaults;
mod quality;
mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use defaults::{default, default_spec};
pub(crate) use validation::{validate, validate_spec};

use super::field;

/// Makes a new pod pending, in the name of the default account unless another one is given.
pub(crate) fn prepare_create(pod: &mut Value) {
    let account = match field::text(pod, "spec.serviceAccountName") {
        "" => "default",
        name => name,
    };
    let account = account.to_owned();
    field::set(pod, "spec.serviceAccountName", account.clone());
    field::set(pod, "spec.serviceAccount", account);
    let quality = quality::class(pod);
    field::set(pod, "status", json!({"phase": "Pending", "qosClass": quality}));
}

/// Keeps what the client did not mean to change: the status, and the account the pod was admitted with.
pub(crate) fn prepare_update(old: &Value, new: &mut Value) {
    field::carry(old, new, "status");
    for path in ["spec.serviceAccountName", "spec.serviceAccount"] {
        if field::text(new, path).is_empty() {
            field::carry(old, new, path);
        }
    }
}

/// Puts the pod on a node. The error is the reason of the conflict.
pub(crate) fn bind(pod: &mut Value, node: &str, now: Timestamp) -> Result<(), String> {
    let name = field::text(pod, "metadata.name");
    if field::at(pod, "metadata.deletionTimestamp").is_some() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let current = field::text(pod, "spec.nodeName");
    if !current.is_empty() {
        return Err(format!("pod {name} is already assigned to node {current:?}"));
    }
    if !field::list(pod, "spec.schedulingGates").is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    field::set(pod, "spec.nodeName", node);
    field::remove(pod, "status.nominatedNodeName");
    mark_scheduled(pod, now);
    Ok(())
}

fn mark_scheduled(pod: &mut Value, now: Timestamp) {
    let generation = field::at(pod, "metadata.generation").cloned();
    let mut conditions = field::list(pod, "status.conditions").to_vec();
    let stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp});
    scheduled["lastProbeTime"] = Value::Null;
    if let Some(generation) = generation {
        scheduled["observedGeneration"] = generation;
    }
    match conditions.iter_mut().find(|condition| field::text(condition, "type") == "PodScheduled") {
        Some(condition) if field::text(condition, "status") == "True" => {}
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
    field::set(pod, "status.conditions", conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pod_is_pending_and_has_an_account() {
        let mut pod =
            json!({"spec": {"containers": [{"name": "a", "image": "b"}]}, "status": {"phase": "Running"}});
        prepare_create(&mut pod);
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["serviceAccount"], "default");
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn a_pod_is_bound_once() {
        let now: Timestamp = "2026-11-15T10:00:00.5Z".parse().expect("a time");
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, {"type": "Ready"}]}});
        assert_eq!(bind(&mut pod, "node-1", now), Ok(()));
        assert_eq!(pod["spec"]["nodeName"], "node-1");
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": "2026-11-15T10:00:00Z"});
        assert_eq!(pod["status"]["conditions"], json!([scheduled, {"type": "Ready"}]));
        assert_eq!(
            bind(&mut pod, "node-2", now),
            Err("pod p is already assigned to node \"node-1\"".to_owned())
        );
    }

    #[test]
    fn a_pod_on_its_way_out_is_not_bound() {
        let mut pod = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let why = bind(&mut pod, "n", Timestamp::UNIX_EPOCH);
        assert_eq!(why, Err("pod p is being deleted, cannot be assigned to a host".to_owned()));
    }
}
