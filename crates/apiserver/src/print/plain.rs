//! Kinds whose tables need no thought, and the table of kinds that have none of their own.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Printer, age};
use crate::rules::field;

/// The columns of a kind without a printer.
pub(super) const NAME_AND_CREATION: &[Column] =
    &[Column::NAME, Column::date("Created At", "The time at which the object was created.")];

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "Namespace",
        columns: &[Column::NAME, Column::text("Status", "The phase of the namespace."), Column::AGE],
        cells: |object, now| row(object, now, [field::text(object, "status.phase").into()]),
    },
    Printer {
        group: "",
        kind: "ConfigMap",
        columns: &[Column::NAME, Column::text("Data", "The number of entries."), Column::AGE],
        cells: |object, now| row(object, now, [(count(object, "data") + count(object, "binaryData")).into()]),
    },
    Printer {
        group: "",
        kind: "Secret",
        columns: &[
            Column::NAME,
            Column::text("Type", "The type of the secret."),
            Column::text("Data", "The number of entries."),
            Column::AGE,
        ],
        cells: |object, now| {
            row(object, now, [field::text(object, "type").into(), count(object, "data").into()])
        },
    },
    Printer {
        group: "",
        kind: "ServiceAccount",
        columns: &[Column::NAME, Column::AGE],
        cells: |object, now| row(object, now, []),
    },
    Printer {
        group: "coordination.k8s.io",
        kind: "Lease",
        columns: &[Column::NAME, Column::text("Holder", "The identity of the holder."), Column::AGE],
        cells: |object, now| row(object, now, [field::text(object, "spec.holderIdentity").into()]),
    },
];

/// The name, then `middle`, then the age.
pub(super) fn row<const N: usize>(object: &Value, now: Timestamp, middle: [Value; N]) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(middle);
    cells.push(age::of(object, now));
    cells
}

pub(super) fn name(object: &Value) -> Value {
    field::text(object, "metadata.name").into()
}

/// The text at `path`, or `otherwise` when there is none.
pub(super) fn text_or(object: &Value, path: &str, otherwise: &str) -> Value {
    match field::text(object, path) {
        "" => otherwise.into(),
        text => text.into(),
    }
}

/// Labels as `a=1,b=2`, or `<none>`.
pub(super) fn labels(object: &Value, path: &str) -> Value {
    let pairs: Vec<_> = field::members(object, path)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",").into() }
}

/// At most three of `all`, and how many more there are.
pub(super) fn first_three(all: &[String]) -> String {
    match all.get(..3) {
        Some(three) if all.len() > 3 => format!("{} + {} more...", three.join(","), all.len() - 3),
        _ => all.join(","),
    }
}

pub(super) fn name_and_creation(object: &Value) -> Vec<Value> {
    vec![name(object), field::text(object, "metadata.creationTimestamp").into()]
}

fn count(object: &Value, path: &str) -> usize {
    field::members(object, path).count()
}
