//! Which node a pod fits on.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use kube::ResourceExt;

use super::super::pod_state;

const NAME: &str = "default-scheduler";

/// Whether the pod is ours to place.
pub(super) fn is_waiting(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated && pod_state::node(pod).is_none() && pod_state::is_active(pod)
}

/// The node with the fewest pods among those that fit, the first by name of several; or why there is none.
pub(super) fn choose<N: Borrow<Node>>(
    pod: &Pod,
    nodes: &[N],
    load: &BTreeMap<String, usize>,
) -> Result<String, String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for node in nodes.iter().map(Borrow::borrow) {
        let name = node.name_any();
        let count = load.get(&name).copied().unwrap_or(0);
        match obstacle(pod, node, count) {
            None => fitting.push((count, name)),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    fitting.into_iter().min().map(|(_, name)| name).ok_or_else(|| refusal(nodes.len(), &reasons))
}

fn refusal(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut told: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    told.sort();
    format!("0/{nodes} nodes are available: {}.", told.join(", "))
}

/// What keeps the pod from the node.
fn obstacle(pod: &Pod, node: &Node, count: usize) -> Option<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let closed = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if closed && !is_tolerated(pod, &cordon) {
        return Some("node(s) were unschedulable".to_owned());
    }
    let repels = |taint: &&Taint| taint.effect != "PreferNoSchedule" && !is_tolerated(pod, taint);
    if let Some(taint) = taints.into_iter().flatten().find(repels) {
        let value = taint.value.clone().unwrap_or_default();
        return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
    }
    if !is_ready(node) {
        return Some("node(s) were not ready".to_owned());
    }
    if !is_selected(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    (count >= capacity(node)).then(|| "Too many pods".to_owned())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True")
}

fn is_selected(pod: &Pod, node: &Node) -> bool {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    wanted.into_iter().flatten().all(|(name, value)| node.labels().get(name) == Some(value))
}

/// How many pods the node takes; one that does not say takes any number.
fn capacity(node: &Node) -> usize {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|allocatable| allocatable.get("pods")?.0.parse().ok()).unwrap_or(usize::MAX)
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    tolerations.into_iter().flatten().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let effect = said(&toleration.effect).is_none_or(|effect| effect == taint.effect);
    let key = said(&toleration.key);
    let any_value = toleration.operator.as_deref() == Some("Exists");
    let value = any_value || said(&toleration.value) == said(&taint.value);
    match key {
        Some(key) => effect && key == taint.key && value,
        // Without a key only "exists" makes sense: it tolerates everything.
        None => effect && any_value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn node(name: &str, extra: Value) -> Node {
        let mut value = json!({
            "metadata": {"name": name, "labels": {"disk": name}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "3"}},
        });
        json_patch::merge(&mut value, &extra);
        from_value(value).unwrap()
    }

    fn pod(spec: Value) -> Pod {
        from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn place(spec: Value, nodes: &[Node], load: &[(&str, usize)]) -> Result<String, String> {
        let load = load.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        choose(&pod(spec), nodes, &load)
    }

    #[test]
    fn the_emptiest_node_that_fits_is_taken() {
        let nodes = [node("a", json!({})), node("b", json!({})), node("c", json!({}))];
        assert_eq!(place(json!({"containers": []}), &nodes, &[]).as_deref(), Ok("a"));
        assert_eq!(place(json!({"containers": []}), &nodes, &[("a", 1), ("b", 1)]).as_deref(), Ok("c"));
        let picky = json!({"containers": [], "nodeSelector": {"disk": "b"}});
        assert_eq!(place(picky.clone(), &nodes, &[("b", 2)]).as_deref(), Ok("b"));
        let full = place(picky, &nodes, &[("b", 3)]);
        assert_eq!(
            full.unwrap_err(),
            "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector."
        );
    }

    #[test]
    fn taints_cordons_and_unready_nodes_keep_pods_away() {
        let taint = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
        let gentle = json!({"spec": {"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}});
        let cordon = json!({"spec": {"unschedulable": true}});
        let down = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let tolerate = |toleration: Value| json!({"containers": [], "tolerations": [toleration]});
        let plain = || json!({"containers": []});
        let cases = [
            (&taint, plain(), false),
            (&taint, tolerate(json!({"key": "gpu", "value": "yes"})), true),
            (&taint, tolerate(json!({"key": "gpu", "value": "no"})), false),
            (&taint, tolerate(json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"})), false),
            (&taint, tolerate(json!({"operator": "Exists"})), true),
            (&gentle, plain(), true),
            (&cordon, plain(), false),
            (
                &cordon,
                tolerate(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
                true,
            ),
            (&down, plain(), false),
        ];
        for (place_number, (extra, spec, fits)) in cases.into_iter().enumerate() {
            let placed = place(spec, &[node("a", extra.clone())], &[]);
            assert_eq!(placed.is_ok(), fits, "case {place_number}: {placed:?}");
        }
        assert_eq!(place(plain(), &[], &[]).unwrap_err(), "no nodes available to schedule pods");
    }

    #[test]
    fn only_pods_that_wait_for_this_scheduler_are_placed() {
        let cases = [
            (json!({"containers": []}), true),
            (json!({"containers": [], "schedulerName": "other"}), false),
            (json!({"containers": [], "nodeName": "n"}), false),
            (json!({"containers": [], "schedulingGates": [{"name": "g"}]}), false),
        ];
        for (spec, expected) in cases {
            assert_eq!(is_waiting(&pod(spec.clone())), expected, "{spec}");
        }
    }
}
