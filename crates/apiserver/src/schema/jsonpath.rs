//! The JSONPath of printer columns, scale subresources and selectable fields.
//!
//! Supported are fields (`.a`, `['a']`, `\.` for a dot in a name), indices and slices (`[0]`, `[-1]`, `[-1:]`), wildcards
//! (`[*]`, `.*`) and filters (`[?(@.type=="Ready")]`, also `!=` and bare existence). Anything else is a parse error, never
//! a silent mismatch.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: JsonPath,
    /// Whether the value has to be equal (`true`) or different; without it, it only has to exist.
    wanted: Option<(bool, Value)>,
}

/// Why a text is not a path that is understood here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonPathError {
    #[error("must start with '.' or '[', but {0:?} does not")]
    Start(String),
    #[error("has an empty field name")]
    EmptyName,
    #[error("recursive descent ('..') is not supported")]
    RecursiveDescent,
    #[error("has a bracket without an end: {0:?}")]
    OpenBracket(String),
    #[error("does not support {0:?} in brackets")]
    Bracket(String),
    #[error("does not support the filter {0:?}")]
    Filter(String),
}

impl JsonPath {
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        parse(text, true)
    }

    /// Every value the path leads to, in order. Missing fields lead nowhere.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }

    /// The names of the fields on the way, when the path consists of nothing else.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None })
            .collect()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => at(items, *index).into_iter().collect(),
            (Self::Slice(from, to), Value::Array(items)) => slice(items, *from, *to).iter().collect(),
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (Self::Filter(filter), Value::Array(items)) => {
                items.iter().filter(|item| filter.holds(item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let found = self.path.find(item);
        match &self.wanted {
            None => !found.is_empty(),
            Some((equal, wanted)) => found.first().is_some_and(|found| same(found, wanted) == *equal),
        }
    }
}

fn same(found: &Value, wanted: &Value) -> bool {
    found == wanted || (found.is_number() && found.as_f64() == wanted.as_f64())
}

fn at(items: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    let place = if index < 0 { items.len().checked_sub(distance)? } else { distance };
    items.get(place)
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> &[Value] {
    let place = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 { items.len().saturating_sub(distance) } else { distance.min(items.len()) }
    };
    let (from, to) = (from.map_or(0, place), to.map_or(items.len(), place));
    items.get(from..to).unwrap_or(&[])
}

fn parse(text: &str, filters: bool) -> Result<JsonPath, JsonPathError> {
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut steps = Vec::new();
    if rest == "." {
        return Ok(JsonPath { steps });
    }
    if rest.is_empty() && text.is_empty() {
        return Err(JsonPathError::EmptyName);
    }
    while !rest.is_empty() {
        let step = if let Some(after) = rest.strip_prefix('.') {
            take_name(after, &mut rest)?
        } else if let Some(after) = rest.strip_prefix('[') {
            let inner = take_bracket(after, &mut rest)?;
            parse_bracket(inner, filters)?
        } else {
            return Err(JsonPathError::Start(rest.to_owned()));
        };
        steps.extend(step);
    }
    Ok(JsonPath { steps })
}

/// Reads a name up to the next dot or bracket; `.[0]` is the same as `[0]`.
fn take_name<'a>(text: &'a str, rest: &mut &'a str) -> Result<Option<Step>, JsonPathError> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let end = loop {
        match chars.next() {
            None => break text.len(),
            Some((at, '.' | '[')) => break at,
            Some((_, '\\')) => name.extend(chars.next().map(|(_, char)| char)),
            Some((_, char)) => name.push(char),
        }
    };
    *rest = &text[end..];
    match name.as_str() {
        "" if rest.starts_with('[') => Ok(None),
        "" if rest.starts_with('.') => Err(JsonPathError::RecursiveDescent),
        "" => Err(JsonPathError::EmptyName),
        "*" => Ok(Some(Step::All)),
        _ => Ok(Some(Step::Field(name))),
    }
}

/// Reads up to the closing bracket; brackets nest in filters, and quoted ones do not count.
fn take_bracket<'a>(text: &'a str, rest: &mut &'a str) -> Result<&'a str, JsonPathError> {
    let mut quote = None;
    let mut open = 1_usize;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(end), _) if char == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(char),
            (None, '[') => open += 1,
            (None, ']') if open > 1 => open -= 1,
            (None, ']') => {
                *rest = &text[at + 1..];
                return Ok(text[..at].trim());
            }
            (None, _) => {}
        }
    }
    Err(JsonPathError::OpenBracket(text.to_owned()))
}

fn parse_bracket(inner: &str, filters: bool) -> Result<Option<Step>, JsonPathError> {
    let unsupported = || JsonPathError::Bracket(inner.to_owned());
    if let Some(filter) = inner.strip_prefix('?') {
        let body = filter.trim().strip_prefix('(').and_then(|body| body.strip_suffix(')'));
        return match body {
            Some(body) if filters => parse_filter(body.trim()).map(Step::Filter).map(Some),
            _ => Err(JsonPathError::Filter(filter.to_owned())),
        };
    }
    if inner == "*" {
        return Ok(Some(Step::All));
    }
    if let Some(name) = unquote(inner) {
        return if name.is_empty() { Err(JsonPathError::EmptyName) } else { Ok(Some(Step::Field(name))) };
    }
    if let Some((from, to)) = inner.split_once(':') {
        let (from, to) = bound(from).zip(bound(to)).ok_or_else(unsupported)?;
        return Ok(Some(Step::Slice(from, to)));
    }
    inner.parse().map(|index| Some(Step::Index(index))).map_err(|_| unsupported())
}

/// One end of a slice; may be left out.
fn bound(text: &str) -> Option<Option<i64>> {
    let text = text.trim();
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

fn parse_filter(body: &str) -> Result<Filter, JsonPathError> {
    let unsupported = || JsonPathError::Filter(body.to_owned());
    let (left, wanted) = match find_operator(body) {
        Some((at, equal)) => {
            let literal = parse_literal(body[at + 2..].trim()).ok_or_else(unsupported)?;
            (body[..at].trim(), Some((equal, literal)))
        }
        None => (body, None),
    };
    let path = left.strip_prefix('@').ok_or_else(unsupported)?;
    if path.contains(['<', '>', '=', '!', '&', '|', ' ']) {
        return Err(unsupported());
    }
    let path = if path.is_empty() { JsonPath { steps: Vec::new() } } else { parse(path, false)? };
    Ok(Filter { path, wanted })
}

/// Where `==` or `!=` stands outside of quotes, and which of them it is.
fn find_operator(body: &str) -> Option<(usize, bool)> {
    let mut quote = None;
    for (at, char) in body.char_indices() {
        match quote {
            Some(end) if char == end => quote = None,
            Some(_) => {}
            None if char == '\'' || char == '"' => quote = Some(char),
            None if body[at..].starts_with("==") => return Some((at, true)),
            None if body[at..].starts_with("!=") => return Some((at, false)),
            None => {}
        }
    }
    None
}

fn parse_literal(text: &str) -> Option<Value> {
    if let Some(string) = unquote(text) {
        return Some(Value::String(string));
    }
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_number() || value.is_boolean())
}

/// The inside of a quoted string, with its escapes resolved.
fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|char| matches!(char, '\'' | '"'))?;
    let inner = text.get(1..)?.strip_suffix(quote)?;
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.push(chars.next()?),
            char if char == quote => return None,
            char => out.push(char),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(path: &str, expected: Value) {
        let value = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "x-y": true, "ports": [{"n": "a", "p": 1}, {"n": "b", "p": 2.0}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "it's [odd]", "status": "False", "nested": {"ok": true}},
            ]},
        });
        let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(json!(path.find(&value)), expected, "{path:?}");
    }

    #[test]
    fn paths_lead_to_their_values() {
        check(".spec.replicas", json!([3]));
        check("$.spec.replicas", json!([3]));
        check(".spec.missing.deeper", json!([]));
        check(r".spec.a\.b", json!(["dotted"]));
        check(".spec['a.b']", json!(["dotted"]));
        check(".spec[\"x-y\"]", json!([true]));
        check(".spec.ports[0].n", json!(["a"]));
        check(".spec.ports[-1].n", json!(["b"]));
        check(".spec.ports[7].n", json!([]));
        check(".spec.ports[-7]", json!([]));
        check(".spec.ports[-1:].n", json!(["b"]));
        check(".spec.ports[0:1].n", json!(["a"]));
        check(".spec.ports[2:1].n", json!([]));
        check(".spec.ports[*].n", json!(["a", "b"]));
        check(".spec.ports.[*].p", json!([1, 2.0]));
        check(".spec.ports[?(@.p==2)].n", json!(["b"]));
        check(".spec.ports[?(@.p != 2)].n", json!(["a"]));
        check(".status.conditions[?(@.type==\"Ready\")].status", json!(["True"]));
        check(".status.conditions[?(@.type=='Ready')].status", json!(["True"]));
        check(r".status.conditions[?(@.type=='it\'s [odd]')].status", json!(["False"]));
        check(".status.conditions[?(@.nested.ok==true)].status", json!(["False"]));
        check(".status.conditions[?(@.nested)].status", json!(["False"]));
        check(".status.conditions[?(@['type']=='Ready')].status", json!(["True"]));
    }

    #[test]
    fn the_lone_dot_is_the_whole_value() {
        assert_eq!(JsonPath::parse(".").map(|path| path.find(&json!(1)).len()), Ok(1));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let cases = [
            ("", JsonPathError::EmptyName),
            ("spec.x", JsonPathError::Start("spec.x".into())),
            (".spec..x", JsonPathError::RecursiveDescent),
            (".spec.", JsonPathError::EmptyName),
            (".spec[0", JsonPathError::OpenBracket("0".into())),
            (".spec['x]", JsonPathError::OpenBracket("'x]".into())),
            (".spec[a]", JsonPathError::Bracket("a".into())),
            (".spec['a','b']", JsonPathError::Bracket("'a','b'".into())),
            (".spec[0]x", JsonPathError::Start("x".into())),
            (".spec[?(@.a>1)]", JsonPathError::Filter("@.a>1".into())),
            (".spec[?(a==1)]", JsonPathError::Filter("a==1".into())),
            (".spec[?(@.a==b)]", JsonPathError::Filter("@.a==b".into())),
            (".spec[?(@[?(@.a)])]", JsonPathError::Filter("(@.a)".into())),
        ];
        for (path, error) in cases {
            assert_eq!(JsonPath::parse(path), Err(error), "{path}");
        }
    }

    #[test]
    fn plain_paths_know_their_fields() {
        assert_eq!(
            JsonPath::parse(".spec.x").ok().and_then(|p| p.fields().map(|f| f.join("/"))),
            Some("spec/x".into())
        );
        assert_eq!(JsonPath::parse(".spec[0]").ok().and_then(|p| p.fields().map(|f| f.len())), None);
    }

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in r#"[.\[\]?(@)'"=!a-c0-9:*\\$ é-]{0,24}"#) {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&json!({"a": [{"b": 1}], "b": {"c": "x"}}));
            }
        }
    }
}
