//! Reading and writing the few fields that every Kubernetes object has.
//!
//! Objects are plain JSON values here; what is absent or of another type reads as nothing, never as a panic.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The string at `path`, or nothing.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The value at `path`, or nothing.
pub(crate) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

pub(crate) fn meta_text<'a>(object: &'a Value, field: &str) -> &'a str {
    meta(object, field).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    meta_text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    meta_text(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    meta_text(object, "uid")
}

pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    meta(object, "labels")?.get(key)?.as_str()
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    meta(object, "deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

/// The strings of `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    meta(object, "finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The object as a map; anything else becomes an empty one first.
pub(crate) fn fields(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("made an object above")
}

/// A field that is an object, made when it is not there.
pub(crate) fn section<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    fields(fields(object).entry(field).or_insert(Value::Null))
}

pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    section(object, "metadata")
}

/// Gives `field` the value it has in `from`, also when it has none there.
pub(crate) fn carry(from: &Map<String, Value>, into: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => into.insert(field.to_owned(), value.clone()),
        None => into.remove(field),
    };
}

/// The `metadata` of an object that is known to have one.
pub(crate) fn metadata_of(object: &Value) -> &Map<String, Value> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// Whether nesting is deeper than any honest client sends; guards everything that walks an object.
pub(crate) fn is_too_deep(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|item| is_too_deep(item, left - 1)),
        Value::Object(map) => left == 0 || map.values().any(|item| is_too_deep(item, left - 1)),
        _ => false,
    }
}

/// Whether two maps are the same in all but one field.
pub(crate) fn is_same_but(one: &Value, other: &Value, field: &str) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    let all = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter().all(|(key, value)| key == field || other.get(key) == Some(value))
    };
    all(one, other) && other.keys().all(|key| key == field || one.contains_key(key))
}

/// A field that is null is a field that is not there.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
