//! One step of a field path, in the notation of `FieldsV1`.
//!
//! `f:name` is a field, `k:{"name":"x"}` the list element with that key, `v:"x"` the element of a set, `i:0` a position.
//! Elements are kept in this notation, with the fields of a key sorted: equal steps are equal strings.

use std::borrow::Cow;

use serde_json::Value;

pub(super) fn field(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text
}

/// The name of the field that this element is.
pub(super) fn field_name(element: &str) -> Option<&str> {
    element.strip_prefix("f:")
}

pub(super) fn is_key(element: &str) -> bool {
    element.starts_with("k:")
}

pub(super) fn set_value(value: &Value) -> String {
    format!("v:{value}")
}

pub(super) fn key(mut fields: Vec<(&str, &Value)>) -> String {
    fields.sort_by_key(|(name, _)| *name);
    let mut text = String::with_capacity(48);
    text.push_str("k:{");
    for (position, (name, value)) in fields.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(&quoted(name));
        text.push(':');
        match value {
            Value::String(value) => text.push_str(&quoted(value)),
            other => text.push_str(&other.to_string()),
        }
    }
    text.push('}');
    text
}

/// A JSON string; nearly all need no escaping.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        return format!("\"{text}\"").into();
    }
    Value::from(text).to_string().into()
}

/// The canonical form of an element that somebody else wrote; `None` when it is of no kind we know.
pub(super) fn canonical(element: &str) -> Result<Option<String>, String> {
    let (kind, rest) =
        element.split_at_checked(2).ok_or_else(|| format!("not a path element: {element:?}"))?;
    let parsed = || serde_json::from_str::<Value>(rest).map_err(|error| format!("{element:?}: {error}"));
    match kind {
        "f:" => Ok(Some(element.to_owned())),
        "v:" => Ok(Some(set_value(&parsed()?))),
        "i:" => match rest.parse::<i64>() {
            Ok(position) => Ok(Some(format!("i:{position}"))),
            Err(error) => Err(format!("{element:?}: {error}")),
        },
        "k:" => match parsed()? {
            Value::Object(fields) => {
                Ok(Some(key(fields.iter().map(|(name, value)| (name.as_str(), value)).collect())))
            }
            _ => Err(format!("{element:?}: a key is an object")),
        },
        _ if kind.ends_with(':') => Ok(None),
        _ => Err(format!("{element:?}: missing colon")),
    }
}

/// An element as people read it: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
pub(super) fn shown(element: &str) -> String {
    match element.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("v:", value)) => format!("[={value}]"),
        Some(("i:", position)) => format!("[{position}]"),
        Some(("k:", fields)) => match serde_json::from_str::<Value>(fields) {
            Ok(Value::Object(fields)) => {
                let mut parts: Vec<_> =
                    fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                parts.sort();
                format!("[{}]", parts.join(","))
            }
            _ => format!("[{fields}]"),
        },
        _ => element.to_owned(),
    }
}
