//! The table of events, which does not begin with a name: what happened matters, not what it is filed under.
//!
//! The same events are read through two API groups with different field names; both print alike.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Printer, age, plain};
use crate::rules::field;

const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "The time since it last happened."),
    Column::text("Type", "Whether it is normal."),
    Column::text("Reason", "Why it happened, in one word."),
    Column::text("Object", "What it happened to."),
    Column::text("Subobject", "The part of the object.").wide(),
    Column::text("Source", "Who reported it.").wide(),
    Column::text("Message", "What happened."),
    Column::text("First Seen", "The time since it first happened.").wide(),
    Column::text("Count", "How often it happened.").wide(),
    Column { priority: 1, ..Column::NAME },
];

pub(super) const PRINTERS: &[Printer] = &[
    Printer { group: "", kind: "Event", columns: COLUMNS, cells },
    Printer { group: "events.k8s.io", kind: "Event", columns: COLUMNS, cells },
];

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = first_seen(event, now);
    vec![
        last_seen(event, &first, now).into(),
        field::text(event, "type").into(),
        field::text(event, "reason").into(),
        target(event).into(),
        either(event, "involvedObject.fieldPath", "regarding.fieldPath").into(),
        source(event).into(),
        either(event, "message", "note").trim().into(),
        first.into(),
        count(event).into(),
        plain::name(event),
    ]
}

fn either<'a>(event: &'a Value, path: &str, other: &str) -> &'a str {
    match field::text(event, path) {
        "" => field::text(event, other),
        text => text,
    }
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    let paths = ["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"];
    let then = paths.iter().find_map(|path| age::time(event, path));
    then.map_or_else(|| "<unknown>".to_owned(), |then| age::elapsed(then, now))
}

fn last_seen(event: &Value, first: &str, now: Timestamp) -> String {
    if field::at(event, "series").is_some() {
        return age::since(event, "series.lastObservedTime", now);
    }
    let then = ["lastTimestamp", "deprecatedLastTimestamp"].iter().find_map(|path| age::time(event, path));
    then.map_or_else(|| first.to_owned(), |then| age::elapsed(then, now))
}

fn target(event: &Value) -> String {
    let kind = either(event, "involvedObject.kind", "regarding.kind").to_lowercase();
    match either(event, "involvedObject.name", "regarding.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let old = |key: &str| either(event, &format!("source.{key}"), &format!("deprecatedSource.{key}"));
    let component = match old("component") {
        "" => either(event, "reportingComponent", "reportingController"),
        component => component,
    };
    let host = match old("host") {
        "" => field::text(event, "reportingInstance"),
        host => host,
    };
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

/// An event that has no count happened once.
fn count(event: &Value) -> i64 {
    if field::at(event, "series").is_some() {
        return field::number(event, "series.count");
    }
    let counts = ["count", "deprecatedCount"].map(|path| field::number(event, path));
    counts.into_iter().find(|count| *count != 0).unwrap_or(1)
}
