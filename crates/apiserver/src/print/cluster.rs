//! Tables of what administrators of a cluster define: budgets, quotas, priorities, custom kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::plain::{self, row};
use super::{Column, Printer};
use crate::rules::field;

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "policy",
        kind: "PodDisruptionBudget",
        columns: &[
            Column::NAME,
            Column::text("Min Available", "How many pods have to stay."),
            Column::text("Max Unavailable", "How many pods may be missing."),
            Column::number("Allowed Disruptions", "How many pods may be evicted now."),
            Column::AGE,
        ],
        cells: budget,
    },
    Printer {
        group: "",
        kind: "ResourceQuota",
        columns: &[
            Column::NAME,
            Column::text("Request", "What may be requested, and how much of it is."),
            Column::text("Limit", "What limits may add up to, and what they do."),
            Column::AGE,
        ],
        cells: quota,
    },
    Printer {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        columns: &[
            Column::NAME,
            Column::number("Value", "The priority of pods of this class."),
            Column::flag("Global-Default", "Whether pods without a class are of this one."),
            Column::AGE,
            Column::text("PreemptionPolicy", "Whether pods of this class push others away."),
        ],
        cells: priority,
    },
    Printer {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        columns: &[
            Column::NAME,
            Column::text("Scope", "Whether objects live in namespaces."),
            Column::text("Versions", "The versions that are served."),
            Column::date("Created At", "The time at which the object was created."),
            Column::text("Group", "The API group.").wide(),
            Column::text("Kind", "The kind of the objects.").wide(),
            Column::text("ShortNames", "Names for people in a hurry.").wide(),
            Column::flag("Established", "Whether the kind is served.").wide(),
        ],
        cells: definition,
    },
];

fn budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let count = |path: &str| match field::at(budget, path) {
        Some(Value::String(percentage)) => percentage.clone().into(),
        Some(number) => number.to_string().into(),
        None => "N/A".into(),
    };
    let allowed = field::number(budget, "status.disruptionsAllowed").into();
    row(budget, now, [count("spec.minAvailable"), count("spec.maxUnavailable"), allowed])
}

fn quota(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in field::members(quota, "status.hard") {
        let used = field::member(quota, "status.used", resource).unwrap_or("0");
        let text = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { &mut limits } else { &mut requests }.push(text);
    }
    row(quota, now, [requests.join(", ").into(), limits.join(", ").into()])
}

fn priority(class: &Value, now: Timestamp) -> Vec<Value> {
    let value = field::number(class, "value").into();
    let mut cells = row(class, now, [value, field::flag(class, "globalDefault").into()]);
    cells.push(field::text(class, "preemptionPolicy").into());
    cells
}

fn definition(definition: &Value, _: Timestamp) -> Vec<Value> {
    let mut conditions = field::list(definition, "status.conditions").iter();
    let is_established = conditions.any(|condition| {
        field::text(condition, "type") == "Established" && field::text(condition, "status") == "True"
    });
    vec![
        plain::name(definition),
        field::text(definition, "spec.scope").into(),
        versions(definition).into(),
        field::text(definition, "metadata.creationTimestamp").into(),
        field::text(definition, "spec.group").into(),
        field::text(definition, "spec.names.kind").into(),
        field::texts(definition, "spec.names.shortNames").join(",").into(),
        is_established.into(),
    ]
}

fn versions(definition: &Value) -> String {
    let served =
        field::list(definition, "spec.versions").iter().filter(|version| field::flag(version, "served"));
    let mut names: Vec<_> = served
        .map(|version| {
            let suffix = if field::flag(version, "storage") { "(storage)" } else { "" };
            format!("{}{suffix}", field::text(version, "name"))
        })
        .collect();
    names.sort();
    names.join(",")
}
