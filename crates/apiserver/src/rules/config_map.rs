//! ConfigMaps: maps whose keys become file names, and which may be sealed.

use serde_json::Value;

use super::{field, metadata, names};
use crate::invalid::{FieldError, Problem};

/// The most that all values of a ConfigMap or Secret may hold together: one mebibyte.
pub(super) const MOST_BYTES: usize = 1024 * 1024;

const SEALED: &str = "field is immutable when `immutable` is set";

/// Everything that is wrong with a ConfigMap. Metadata is judged elsewhere.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut wrong = old.map(|old| sealed(new, old, &["data", "binaryData"])).unwrap_or_default();
    let mut bytes = 0;
    for path in ["data", "binaryData"] {
        for (key, value) in field::members(new, path) {
            wrong.extend(metadata::complaints(&format!("{path}[{key}]"), key, names::config_key(key)));
            if path == "data" && new.get("binaryData").is_some_and(|data| data.get(key).is_some()) {
                let detail = "duplicate of key present in binaryData";
                wrong.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), detail));
            }
            let length = value.as_str().map_or(0, str::len);
            bytes += if path == "data" { length } else { decoded_length(length) };
        }
    }
    if bytes > MOST_BYTES {
        wrong.push(FieldError::new("", Problem::TooLong(MOST_BYTES), ""));
    }
    wrong
}

/// What changes although the stored object is sealed.
pub(super) fn sealed(new: &Value, old: &Value, paths: &[&str]) -> Vec<FieldError> {
    if !field::flag(old, "immutable") {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    if !field::flag(new, "immutable") {
        wrong.push(FieldError::forbidden("immutable", SEALED));
    }
    for path in paths {
        if field::at(new, path) != field::at(old, path) {
            wrong.push(FieldError::forbidden(*path, SEALED));
        }
    }
    wrong
}

/// How many bytes a base64 text of this length stands for, up to its padding.
pub(super) fn decoded_length(length: usize) -> usize {
    length / 4 * 3
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let sealed = json!({"immutable": true, "data": {"a": "1"}});
        let cases = [
            (json!({"data": {"a.b-c_D": "x"}}), None, vec![]),
            (
                json!({"data": {"a": ""}, "binaryData": {"a": ""}}),
                None,
                vec!["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
            ),
            (
                json!({"data": {"..a": ""}}),
                None,
                vec!["data[..a]: Invalid value: \"..a\": must not start with '..'"],
            ),
            (
                json!({"data": {"a": "x".repeat(MOST_BYTES + 1)}}),
                None,
                vec!["Too long: may not be more than 1048576 bytes"],
            ),
            (json!({"immutable": true, "data": {"a": "1"}}), Some(&sealed), vec![]),
            (
                json!({"data": {"a": "2"}}),
                Some(&sealed),
                vec![
                    "immutable: Forbidden: field is immutable when `immutable` is set",
                    "data: Forbidden: field is immutable when `immutable` is set",
                ],
            ),
        ];
        for (new, old, expected) in cases {
            let wrong: Vec<_> = validate(&new, old).iter().map(ToString::to_string).collect();
            assert_eq!(wrong, expected);
        }
    }
}
