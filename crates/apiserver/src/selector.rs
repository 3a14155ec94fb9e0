//! Label and field selectors: parsed from a query, matched against objects.

mod labels;

use serde_json::Value;

pub(crate) use self::labels::parse_labels;
use crate::object;

/// What a list or watch is limited to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    pub(crate) labels: Vec<LabelTerm>,
    pub(crate) fields: Vec<FieldTerm>,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LabelTerm {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Above(String, i64),
    Below(String, i64),
}

/// One requirement on a field, named by its dotted path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldTerm {
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) negated: bool,
}

impl Selector {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|term| term.matches(object))
            && self.fields.iter().all(|term| term.matches(object))
    }
}

impl LabelTerm {
    fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object::label(object, key);
        let number = |key: &str| label(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => label(key).is_some_and(|value| values.iter().any(|one| one == value)),
            Self::NotIn(key, values) => {
                !label(key).is_some_and(|value| values.iter().any(|one| one == value))
            }
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
            Self::Above(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

impl FieldTerm {
    fn matches(&self, object: &Value) -> bool {
        (field(object, &self.path) == self.value) != self.negated
    }
}

/// A field as selectors compare it: absent is empty, or false for flags.
fn field(object: &Value, path: &str) -> String {
    match path.split('.').try_fold(object, |value, key| value.get(key)) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if path == "spec.unschedulable" => "false".to_owned(),
        // Where an event comes from: the component of the old field, or of the new one.
        Some(Value::Object(source)) if path == "source" => match source.get("component") {
            Some(Value::String(component)) if !component.is_empty() => component.clone(),
            _ => field(object, "reportingComponent"),
        },
        Some(Value::Null) | None if path == "source" => field(object, "reportingComponent"),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Parses a field selector; the error is the message for the client.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<FieldTerm>, String> {
    split_unescaped(text)
        .into_iter()
        .filter(|term| !term.trim().is_empty())
        .map(|term| parse_field_term(&term))
        .collect()
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ',' => terms.push(String::new()),
            '\\' => {
                let last = terms.last_mut().expect("starts with one");
                last.push('\\');
                last.extend(letters.next());
            }
            other => terms.last_mut().expect("starts with one").push(other),
        }
    }
    terms
}

fn parse_field_term(term: &str) -> Result<FieldTerm, String> {
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((path, value)) = term.split_once(operator) {
            let value = unescape(value).map_err(|why| format!("invalid field selector: {why}"))?;
            return Ok(FieldTerm { path: path.trim().to_owned(), value, negated });
        }
    }
    Err(format!("invalid selector: '{term}'; can't understand '{term}'"))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid escape sequence: \\{other}"));
                }
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(letter))),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_match_as_kubernetes_defines_them() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front", "level": "5"}}});
        let cases = [
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("app in (web),tier in (front,back)", true),
            ("other notin (x)", true),
            ("other!=x", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("level>4,level<6", true),
            ("level>5", false),
            ("", true),
        ];
        for (text, expected) in cases {
            let labels = parse_labels(text).unwrap();
            assert_eq!(Selector { labels, fields: vec![] }.matches(&object), expected, "{text}");
        }
    }

    #[test]
    fn a_field_selector_that_makes_no_sense_is_refused() {
        let cases = [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_fields(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn field_selectors_read_dotted_paths() {
        let object = json!({"metadata": {"name": "a,b"}, "spec": {"nodeName": "n"}});
        let cases = [
            (r"metadata.name=a\,b", true),
            ("spec.nodeName!=n", false),
            ("status.phase=", true),
            ("spec.unschedulable=false", true),
        ];
        for (text, expected) in cases {
            let fields = parse_fields(text).unwrap();
            assert_eq!(Selector { labels: vec![], fields }.matches(&object), expected, "{text}");
        }
    }
}
