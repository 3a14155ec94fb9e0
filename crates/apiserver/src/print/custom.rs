//! Cells of custom resources, whose columns a definition declares by path and type.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, age};

/// The columns of a custom resource whose definition declares none.
pub(crate) const NAME_AND_AGE: &[Column] = &[Column::NAME, Column { kind: "date", ..Column::AGE }];

/// The cell for what a column's path has found, of which only the first counts.
///
/// Nothing found is `null`, and so is a value that is not of the column's type; dates become ages.
pub(crate) fn custom(kind: &str, found: &[&Value], now: Timestamp) -> Value {
    let Some(value) = found.first().filter(|value| !value.is_null()) else { return Value::Null };
    match kind {
        "string" => text(value).into(),
        "integer" => whole(value),
        "number" if value.is_number() => (*value).clone(),
        "boolean" if value.is_boolean() => (*value).clone(),
        "date" => value.as_str().map_or(Value::Null, |time| date(time, now).into()),
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn whole(value: &Value) -> Value {
    match (value.as_i64(), value.as_f64()) {
        (Some(number), _) => number.into(),
        // Cuts off the fraction and saturates, which is all that can be done for a column of whole numbers.
        (None, Some(number)) => (number as i64).into(),
        (None, None) => Value::Null,
    }
}

fn date(time: &str, now: Timestamp) -> String {
    match (time, time.parse()) {
        ("" | "null", _) => "<unknown>".to_owned(),
        (_, Ok(then)) => age::elapsed(then, now),
        (_, Err(_)) => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let now = "2026-11-15T10:00:00Z".parse().expect("a time");
        let cases = [
            ("string", json!("a"), json!("a")),
            ("string", json!(7), json!("7")),
            ("string", json!(["a", 1]), json!("[\"a\",1]")),
            ("integer", json!(7), json!(7)),
            ("integer", json!(7.9), json!(7)),
            ("integer", json!("7"), json!(null)),
            ("number", json!(7.5), json!(7.5)),
            ("boolean", json!(true), json!(true)),
            ("boolean", json!("true"), json!(null)),
            ("date", json!("2026-11-15T09:00:00Z"), json!("60m")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("string", json!(null), json!(null)),
        ];
        for (kind, value, expected) in cases {
            assert_eq!(custom(kind, &[&value], now), expected, "{kind} {value}");
        }
        assert_eq!(custom("string", &[], now), json!(null));
        assert_eq!(custom("string", &[&json!("a"), &json!("b")], now), json!("a"));
    }
}
