//! Events have two APIs over the same objects: core/v1, which is stored, and `events.k8s.io/v1`.

use serde_json::Value;

use crate::object;

/// A field in core/v1 and its name in events.k8s.io/v1.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(crate) fn to_core(event: &mut Value) {
    rename(event, "v1", |(core, modern)| (modern, core));
}

pub(crate) fn from_core(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |pair| pair);
}

fn rename(
    event: &mut Value,
    api_version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let fields = object::fields(event);
    fields.insert("apiVersion".into(), api_version.into());
    for (from, to) in RENAMED.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_views_show_the_same_event() {
        let core = json!({"apiVersion": "v1", "message": "m", "involvedObject": {"name": "x"}, "count": 2});
        let mut value = core.clone();
        from_core(&mut value);
        assert_eq!(value["note"], "m");
        assert_eq!(value["regarding"]["name"], "x");
        to_core(&mut value);
        assert_eq!(value, core);
    }
}
