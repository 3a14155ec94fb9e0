//! Label and field selectors: parsed from a query, matched against objects.

use serde_json::Value;

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

/// Parses a label selector; the error is the message for the client.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<LabelTerm>, String> {
    split_outside_parentheses(text)
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .map(|term| parse_label_term(term).map_err(|why| format!("unable to parse requirement: {why}")))
        .collect()
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth <= 0
    })
}

fn parse_label_term(term: &str) -> Result<LabelTerm, String> {
    if let Some(key) = term.strip_prefix('!') {
        return Ok(LabelTerm::Absent(label_key(key)?));
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let (key, values) = (label_key(key)?, vec![label_value(value)?]);
            return Ok(if negated { LabelTerm::NotIn(key, values) } else { LabelTerm::In(key, values) });
        }
    }
    for (operator, above) in [(">", true), ("<", false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let bound = value.trim().parse().map_err(|_| format!("found '{value}', expected: identifier"))?;
            let key = label_key(key)?;
            return Ok(if above { LabelTerm::Above(key, bound) } else { LabelTerm::Below(key, bound) });
        }
    }
    parse_set_term(term)
}

fn parse_set_term(term: &str) -> Result<LabelTerm, String> {
    let Some((key, rest)) = term.split_once(char::is_whitespace) else {
        return Ok(LabelTerm::Exists(label_key(term)?));
    };
    let rest = rest.trim_start();
    let (operator, values) =
        rest.split_at(rest.find(|c: char| c == '(' || c.is_whitespace()).unwrap_or(rest.len()));
    let values = values
        .trim()
        .strip_prefix('(')
        .and_then(|values| values.strip_suffix(')'))
        .ok_or_else(|| format!("found '{rest}', expected: 'in', 'notin', '=', '==', '!=', 'gt', 'lt'"))?;
    let values = values.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
    match operator {
        "in" => Ok(LabelTerm::In(label_key(key)?, values)),
        "notin" => Ok(LabelTerm::NotIn(label_key(key)?, values)),
        other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
    }
}

fn label_key(text: &str) -> Result<String, String> {
    let key = text.trim();
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
    let fits =
        is_label_text(name, 63) && !name.is_empty() && prefix.len() <= 253 && prefix.split('/').count() == 1;
    if fits {
        Ok(key.to_owned())
    } else {
        Err(format!(
            "key: Invalid value: {key:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        ))
    }
}

fn label_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    if is_label_text(value, 63) {
        return Ok(value.to_owned());
    }
    Err(format!(
        "values[0][key]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

fn is_label_text(text: &str, most: usize) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= most
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
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
            let value = unescape(value).ok_or_else(|| format!("invalid selector: {term:?}"))?;
            return Ok(FieldTerm { path: path.trim().to_owned(), value, negated });
        }
    }
    Err(format!("invalid selector: '{term}'; can't understand '{term}'"))
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.push(letters.next().filter(|next| "\\,=".contains(*next))?),
            '=' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
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
    fn a_selector_that_makes_no_sense_is_refused() {
        for text in ["a b", "a in b", "-a=b", "a=b c", "a in (b", "a=-", "a near (b)"] {
            assert!(parse_labels(text).is_err(), "{text}");
        }
        for text in ["metadata.name", "a=b=c"] {
            assert!(parse_fields(text).is_err(), "{text}");
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
