//! The directives of a patch: their names, and values without them.

use serde_json::Value;

use super::Fields;

pub(super) const PATCH: &str = "$patch";
pub(super) const RETAIN: &str = "$retainKeys";
pub(super) const ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The value that a patch sets where there was none: without directives, `null`s and what only carries a `$patch`.
pub(super) fn cleaned(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(cleaned_fields(fields))),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(cleaned).collect())),
        scalar => Some(scalar.clone()),
    }
}

pub(super) fn cleaned_fields(fields: &Fields) -> Fields {
    let kept = fields.iter().filter(|(name, value)| !is_directive(name) && !value.is_null());
    kept.filter_map(|(name, value)| Some((name.clone(), cleaned(value)?))).collect()
}

fn is_directive(name: &str) -> bool {
    name == PATCH || name == RETAIN || name.starts_with(ORDER) || name.starts_with(DELETE_FROM)
}

/// A value as the messages of a real server show it, e.g. `map[name:x ports:[80 443]]`.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => shown_fields(fields),
        scalar => scalar.to_string(),
    }
}

pub(super) fn shown_fields(fields: &Fields) -> String {
    let mut parts: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{}", shown(value))).collect();
    parts.sort();
    format!("map[{}]", parts.join(" "))
}
