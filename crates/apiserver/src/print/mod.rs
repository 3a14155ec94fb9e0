//! Tables as the server prints them for `kubectl get`.
//!
//! A client that asks for a Table gets columns and cells from the server, so that old clients can show new kinds. The
//! columns, their order and their texts are what people and scripts have learnt to read; columns with a priority above
//! zero appear with `-o wide` only, but are always sent.

mod age;
mod cluster;
mod column;
mod custom;
mod event;
mod network;
mod node;
mod plain;
mod pod;
mod rbac;
mod service;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use column::Column;
pub(crate) use custom::{NAME_AND_AGE, custom};

/// How one kind is printed.
struct Printer {
    group: &'static str,
    kind: &'static str,
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// The kinds with columns of their own.
static PRINTERS: &[&[Printer]] = &[
    cluster::PRINTERS,
    event::PRINTERS,
    network::PRINTERS,
    node::PRINTERS,
    plain::PRINTERS,
    pod::PRINTERS,
    rbac::PRINTERS,
    service::PRINTERS,
    storage::PRINTERS,
    workloads::PRINTERS,
];

/// The columns of a built-in kind.
pub(crate) fn columns(group: &str, kind: &str) -> &'static [Column] {
    printer(group, kind).map_or(plain::NAME_AND_CREATION, |printer| printer.columns)
}

/// The cells of one object, as many as [`columns`] has columns.
pub(crate) fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    printer(group, kind)
        .map_or_else(|| plain::name_and_creation(object), |printer| (printer.cells)(object, now))
}

/// The conditions of an object's row: whether a pod has run to its end.
pub(crate) fn conditions(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    if (group, kind) == ("", "Pod") { pod::conditions(object) } else { Vec::new() }
}

fn printer(group: &str, kind: &str) -> Option<&'static Printer> {
    let mut all = PRINTERS.iter().copied().flatten();
    all.find(|printer| printer.group == group && printer.kind == kind)
}

#[cfg(test)]
mod tests;
