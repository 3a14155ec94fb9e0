//! Reading and writing fields of a JSON object by their dotted path.
//!
//! Kubernetes' own server works on typed structs, where an absent field, `null` and (mostly) an empty value mean the
//! same. These functions keep that reading: what is absent or has another type reads as empty, never as a panic, and
//! a write through something that is no object is no write.

use serde_json::{Map, Value};

/// The value at `path`; `null` counts as absent.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path.split('.').try_fold(object, |value, key| value.get(key))?;
    (!found.is_null()).then_some(found)
}

/// The string at `path`, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at `path`, or zero.
pub(crate) fn number(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether `true` stands at `path`.
pub(crate) fn flag(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at `path`, or an empty one.
pub(crate) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The strings in the list at `path`; an element of another type reads as an empty string.
pub(crate) fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    list(object, path).iter().map(|element| element.as_str().unwrap_or_default()).collect()
}

/// The members of the map at `path`, in the order of their keys.
pub(crate) fn members<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(object, path).and_then(Value::as_object).into_iter().flatten()
}

/// The value of `key`, which may contain dots, in the map of strings at `path`.
pub(crate) fn member<'a>(object: &'a Value, path: &str, key: &str) -> Option<&'a str> {
    at(object, path)?.get(key)?.as_str()
}

/// Whether a typed server could not tell this value from an absent one.
pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Bool(flag)) => !flag,
    }
}

/// Whether two values are the same to a typed server, for which empty members are absent ones.
///
/// Recurses as deep as the values are nested, which the server limits when it reads them.
pub(crate) fn is_alike(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| is_alike(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| a.contains_key(key) || is_empty(Some(value)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(left, right)| is_alike(Some(left), Some(right)))
        }
        _ => left == right || is_empty(left) && is_empty(right),
    }
}

/// The object at `path`, created where it is missing; nothing where something else is in the way.
pub(crate) fn section<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let found = path
        .split('.')
        .try_fold(object, |value, key| open(value).map(|map| map.entry(key).or_insert(Value::Null)))?;
    open(found)
}

/// The elements of the list at `path`, to be changed in place.
pub(crate) fn list_mut<'a>(object: &'a mut Value, path: &str) -> &'a mut [Value] {
    let found = path.split('.').try_fold(object, |value, key| value.get_mut(key));
    found.and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// Puts `value` at `path`.
pub(crate) fn set(object: &mut Value, path: &str, value: impl Into<Value>) {
    if let Some((map, key)) = parent(object, path) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Puts `value` at `path` when nothing, `null`, an empty string or zero stands there.
pub(crate) fn fill(object: &mut Value, path: &str, value: impl Into<Value>) {
    let empty = match at(object, path) {
        None => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    };
    if empty {
        set(object, path, value);
    }
}

/// Puts `value` at `path` when nothing or `null` stands there: the default of an optional field.
pub(crate) fn fill_absent(object: &mut Value, path: &str, value: impl Into<Value>) {
    if at(object, path).is_none() {
        set(object, path, value);
    }
}

/// Takes away what stands at `path`.
pub(crate) fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (parent.split('.').try_fold(object, |value, key| value.get_mut(key))?, key),
        None => (object, path),
    };
    parent.as_object_mut()?.remove(key)
}

/// Makes `path` in `to` what it is in `from`, absent included.
pub(crate) fn carry(from: &Value, to: &mut Value, path: &str) {
    match at(from, path) {
        Some(value) => set(to, path, value.clone()),
        None => drop(remove(to, path)),
    }
}

fn parent<'a, 'p>(object: &'a mut Value, path: &'p str) -> Option<(&'a mut Map<String, Value>, &'p str)> {
    match path.rsplit_once('.') {
        Some((parent, key)) => Some((section(object, parent)?, key)),
        None => Some((open(object)?, path)),
    }
}

fn open(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_null_and_mistyped_fields_read_as_empty() {
        let object = json!({"a": {"b": null, "c": 7}, "d": "text"});
        assert_eq!(at(&object, "a.b"), None);
        assert_eq!(text(&object, "a.c"), "");
        assert_eq!(number(&object, "d"), 0);
        assert!(list(&object, "d.e.f").is_empty());
        assert_eq!(members(&object, "d").count(), 0);
    }

    #[test]
    fn writing_creates_the_way_but_never_breaks_through_a_scalar() {
        let mut object = json!({"scalar": 1, "empty": null});
        set(&mut object, "a.b.c", 3);
        set(&mut object, "scalar.x", 3);
        set(&mut object, "empty.x", 4);
        assert_eq!(object, json!({"scalar": 1, "empty": {"x": 4}, "a": {"b": {"c": 3}}}));
    }

    #[test]
    fn defaults_respect_what_is_there() {
        let mut object = json!({"given": "x", "blank": "", "zero": 0, "flag": false});
        for path in ["given", "blank", "zero", "flag", "new"] {
            fill(&mut object, path, "default");
        }
        let expected =
            json!({"given": "x", "blank": "default", "zero": "default", "flag": false, "new": "default"});
        assert_eq!(object, expected);
        fill_absent(&mut object, "optional", "");
        fill_absent(&mut object, "optional", "late");
        assert_eq!(object["optional"], "");
    }

    #[test]
    fn empty_members_make_no_difference() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1, "b": null, "c": [], "d": ""}), true),
            (json!({"b": {}, "a": [{"x": 0}]}), json!({"a": [{}]}), true),
            (json!({"a": 1}), json!({}), false),
            (json!({}), json!({"a": [1]}), false),
            (json!([1]), json!([1, null]), false),
        ];
        for (left, right, expected) in cases {
            assert_eq!(is_alike(Some(&left), Some(&right)), expected, "{left} {right}");
            assert_eq!(is_alike(Some(&right), Some(&left)), expected, "{right} {left}");
        }
    }

    #[test]
    fn carrying_copies_absence_too() {
        let from = json!({"a": 1});
        let mut to = json!({"a": 2, "b": 3});
        carry(&from, &mut to, "a");
        carry(&from, &mut to, "b");
        assert_eq!(to, json!({"a": 1}));
    }
}
