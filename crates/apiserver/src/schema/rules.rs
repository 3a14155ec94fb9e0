//! `x-kubernetes-validations`: rules in CEL.
//!
//! Each node with rules is compiled on its own, without the rules below it. The walk over the object is therefore ours,
//! which matters for `oldSelf`: only elements of lists of type map have a counterpart in the old object.

use std::error::Error;
use std::fmt;

use kube_cel::{CompilationError, ErrorKind, ValidationError};
use serde_json::{Map, Value, json};

use super::expression::{Expressions, too_complex};
use super::lists::Correlated;
use super::numbers;
use super::path;
use super::structural::{Additional, Schema};
use crate::invalid::{FieldError, Problem};

/// The rules of one node.
pub(super) struct Rules {
    rules: Vec<Rule>,
    expressions: Expressions,
}

impl fmt::Debug for Rules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.rules.iter().map(|rule| &rule.expression)).finish()
    }
}

struct Rule {
    /// What errors call the rule: its message if it has one.
    title: String,
    /// As compiled.
    expression: String,
    message: String,
    reason: Option<String>,
    field: String,
    compares: bool,
}

/// Longer results of a `messageExpression` are ignored.
const MAX_MESSAGE: usize = 5 * 1024;

impl Rules {
    /// Compiles the rules of the schema node `raw`, if it has any.
    pub(super) fn compile(raw: &Value, at: &str) -> Result<Option<Self>, Vec<FieldError>> {
        let at = path::child(at, "x-kubernetes-validations");
        let rules = match raw.get("x-kubernetes-validations") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(rules)) if rules.is_empty() => return Ok(None),
            Some(Value::Array(rules)) => rules,
            Some(other) => return Err(vec![FieldError::invalid(at, other.clone(), "must be a list")]),
        };
        refuse_complex(rules, &at)?;
        let mut node = shape(raw);
        node["x-kubernetes-validations"] = rules.iter().map(rewritten).collect();
        let expressions = Expressions::compile(&node).map_err(|reason| {
            vec![FieldError::invalid(at.clone(), rules.clone(), format!("compilation failed: {reason}"))]
        })?;
        let results = expressions.compiled().validations.iter().zip(rules).enumerate();
        let errors: Vec<FieldError> = results
            .filter_map(|(i, (result, rule))| {
                Some(compile_error(result.as_ref().err()?, rule, &path::index(&at, i)))
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let rules = rules.iter().zip(&expressions.compiled().validations);
        let rules =
            rules.map(|(raw, result)| Rule::new(raw, result.as_ref().is_ok_and(|r| r.is_transition_rule)));
        Ok(Some(Self { rules: rules.collect(), expressions }))
    }

    fn evaluate(&self, value: &Value, old: Option<&Value>, at: &str) -> Vec<FieldError> {
        let Some(failures) = self.expressions.evaluate(value, old) else {
            let detail = "a validation rule could not be evaluated";
            return vec![FieldError::invalid(path::field(at), type_name(value), detail)];
        };
        // Failures come in the order of the rules, which tells apart rules that read the same.
        let mut rules = self.rules.iter();
        let unchanged = old == Some(value);
        failures
            .into_iter()
            .filter_map(|failure| {
                let rule = rules.find(|rule| rule.expression == failure.rule)?;
                (rule.compares || !unchanged).then(|| rule.error(failure, value, at))
            })
            .collect()
    }
}

impl Rule {
    fn new(raw: &Value, compares: bool) -> Self {
        let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let (rule, message) = (text("rule"), text("message"));
        Self {
            title: if message.is_empty() { rule.clone() } else { message.clone() },
            message: if message.is_empty() { format!("failed rule: {rule}") } else { message },
            expression: rewritten(raw)["rule"].as_str().unwrap_or_default().to_owned(),
            reason: raw.get("reason").and_then(Value::as_str).map(str::to_owned),
            field: text("fieldPath"),
            compares,
        }
    }

    fn error(&self, failure: ValidationError, value: &Value, at: &str) -> FieldError {
        if failure.kind != ErrorKind::ValidationFailure {
            let cause = failure.source().map_or_else(|| failure.message.clone(), ToString::to_string);
            let detail = format!("{} evaluating rule: {}", uncapitalized(&cause), self.title);
            return FieldError::invalid(path::field(at), type_name(value), detail);
        }
        let field = path::field(&join(at, &self.field));
        let message = self.usable(failure.message);
        match self.reason.as_deref() {
            Some("FieldValueRequired") => FieldError::required(field, message),
            Some("FieldValueForbidden") => FieldError::forbidden(field, message),
            Some("FieldValueDuplicate") => FieldError::new(field, Problem::Duplicate(shown(value)), ""),
            _ => FieldError::invalid(field, shown(value), message),
        }
    }

    /// The computed message, or the fixed one where that says nothing or too much.
    fn usable(&self, computed: String) -> String {
        let message = computed.trim();
        let usable = !message.is_empty() && message.len() <= MAX_MESSAGE && !message.contains('\n');
        if usable { message.to_owned() } else { self.message.clone() }
    }
}

impl Schema {
    pub(super) fn has_rules(&self) -> bool {
        self.ruled
    }

    pub(super) fn check_rules(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_node(self, value, old, "", &mut errors);
        errors
    }
}

fn check_node(schema: &Schema, value: &Value, old: Option<&Value>, at: &str, errors: &mut Vec<FieldError>) {
    if !schema.ruled || value.is_null() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    if let Some(rules) = &schema.rules {
        errors.extend(rules.evaluate(value, old, at));
    }
    match value {
        Value::Object(fields) => check_fields(schema, fields, old, at, errors),
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else { return };
            let old = Correlated::new(schema, old);
            for (i, item) in items.iter().enumerate() {
                check_node(item_schema, item, old.find(item), &path::index(at, i), errors);
            }
        }
        _ => {}
    }
}

fn check_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    for (name, value) in fields {
        let old = old.and_then(|old| old.get(name));
        if let Some(property) = schema.properties.get(name) {
            check_node(property, value, old, &path::child(at, name), errors);
        } else if let Some(Additional::Matching(others)) = &schema.additional {
            check_node(others, value, old, &path::key(at, name), errors);
        }
    }
}

/// The keywords of a schema that decide how values look to CEL, and nothing else.
fn shape(raw: &Value) -> Value {
    let mut out = Map::new();
    for key in ["type", "format", "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"] {
        out.extend(raw.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    if let Some(Value::Object(properties)) = raw.get("properties") {
        let properties: Map<String, Value> = properties.iter().map(|(k, v)| (k.clone(), shape(v))).collect();
        out.insert("properties".to_owned(), properties.into());
    }
    for key in ["items", "additionalProperties"] {
        if let Some(value) = raw.get(key) {
            out.insert(key.to_owned(), if value.is_object() { shape(value) } else { value.clone() });
        }
    }
    Value::Object(out)
}

/// A rule with `optionalOldSelf` sees `oldSelf` as an optional, which the engine binds to null or to the plain value.
fn rewritten(raw: &Value) -> Value {
    let mut rule = raw.clone();
    if raw["optionalOldSelf"] == json!(true) {
        for key in ["rule", "messageExpression"] {
            if let Some(text) = raw[key].as_str() {
                rule[key] = wrap_old_self(text).into();
            }
        }
    }
    rule
}

fn wrap_old_self(expression: &str) -> String {
    const WRAPPED: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";
    let mut out = String::with_capacity(expression.len() + WRAPPED.len());
    let mut quote: Option<char> = None;
    let mut rest = expression;
    let mut previous = ' ';
    while let Some(char) = rest.chars().next() {
        let after = rest.strip_prefix("oldSelf").filter(|after| !after.starts_with(is_word));
        if let Some(after) = after.filter(|_| quote.is_none() && !is_word(previous) && previous != '.') {
            out.push_str(WRAPPED);
            (rest, previous) = (after, 'f');
            continue;
        }
        match quote {
            Some(end) if char == end && previous != '\\' => quote = None,
            None if char == '\'' || char == '"' => quote = Some(char),
            _ => {}
        }
        out.push(char);
        (rest, previous) = (&rest[char.len_utf8()..], char);
    }
    out
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

fn refuse_complex(rules: &[Value], at: &str) -> Result<(), Vec<FieldError>> {
    let keys = rules
        .iter()
        .enumerate()
        .flat_map(|(i, rule)| ["rule", "messageExpression"].map(|key| (i, rule, key)));
    let errors: Vec<FieldError> = keys
        .filter_map(|(i, rule, key)| {
            let reason = too_complex(rule.get(key)?.as_str()?)?;
            Some(FieldError::invalid(
                path::child(&path::index(at, i), key),
                "",
                format!("compilation failed: {reason}"),
            ))
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn compile_error(error: &CompilationError, rule: &Value, at: &str) -> FieldError {
    use CompilationError as E;
    let (key, detail) = match error {
        E::Parse { source, .. } => ("rule", format!("compilation failed: {source}")),
        E::MessageExpressionParse { source, .. } => {
            ("messageExpression", format!("messageExpression compilation failed: {source}"))
        }
        other => ("rule", other.to_string()),
    };
    FieldError::invalid(path::child(at, key), rule.clone(), detail)
}

fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// `fieldPath` below the node: `.a.b` or `['a']`.
fn join(at: &str, field: &str) -> String {
    let field = field.replace("['", ".").replace("']", "");
    let field = field.trim_start_matches('.');
    if field.is_empty() { at.to_owned() } else { path::child(at, field) }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null => "null",
    }
}

/// Scalars are shown as they are; of objects and lists only the type is.
fn shown(value: &Value) -> Value {
    match value {
        Value::Object(_) | Value::Array(_) => type_name(value).into(),
        scalar => numbers::shown(scalar),
    }
}
