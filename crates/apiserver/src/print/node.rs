//! The table of nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::plain::text_or;
use super::{Column, Printer, age, plain};
use crate::rules::field;

pub(super) const PRINTERS: &[Printer] = &[Printer {
    group: "",
    kind: "Node",
    columns: &[
        Column::NAME,
        Column::text("Status", "Whether the node is ready and takes new pods."),
        Column::text("Roles", "What the node is there for."),
        Column::AGE,
        Column::text("Version", "The version of the node agent."),
        Column::text("Internal-IP", "The address inside the cluster.").wide(),
        Column::text("External-IP", "The address outside the cluster.").wide(),
        Column::text("OS-Image", "The operating system.").wide(),
        Column::text("Kernel-Version", "The version of the kernel.").wide(),
        Column::text("Container-Runtime", "What runs the containers.").wide(),
    ],
    cells,
}];

fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        plain::name(node),
        status(node).into(),
        roles(node).into(),
        age::of(node, now),
        field::text(node, "status.nodeInfo.kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        text_or(node, "status.nodeInfo.osImage", "<unknown>"),
        kernel(node).into(),
        text_or(node, "status.nodeInfo.containerRuntimeVersion", "<unknown>"),
    ]
}

fn status(node: &Value) -> String {
    let mut conditions = field::list(node, "status.conditions").iter();
    let ready = conditions.rfind(|condition| field::text(condition, "type") == "Ready");
    let status = match ready.map(|condition| field::text(condition, "status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let suffix = if field::flag(node, "spec.unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{suffix}")
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = field::members(node, "metadata.labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let mut addresses = field::list(node, "status.addresses").iter();
    let found = addresses.find(|address| field::text(address, "type") == kind);
    found.map_or("<none>", |address| field::text(address, "address"))
}

fn kernel(node: &Value) -> String {
    let version = match field::text(node, "status.nodeInfo.kernelVersion") {
        "" => "<unknown>",
        version => version,
    };
    match field::text(node, "status.nodeInfo.architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}
