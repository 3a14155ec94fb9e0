//! Checking an object against its schema.
//!
//! The walk follows the API server's: type, junctors, string, format, number, list, enum, object, in this order, so that
//! messages come out alike. On an update, parts that did not change are not held against the writer (ratcheting).

use serde_json::{Map, Value};

use super::lists;
use super::numbers;
use super::path;
use super::structural::{Additional, Schema, Type};
use super::verdict::{Verdict, invalid, nowhere, wrong_type};
use crate::invalid::{FieldError, Problem};

impl Schema {
    /// Everything that is wrong with `value`. `old` is the object before an update: rules compare with it, and errors in
    /// parts that it already had are let through.
    pub(crate) fn validate(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.check(value, old, "").into_errors();
        errors.extend(self.check_embedded(value));
        if old.is_none_or(|old| self.check_lists(old).is_empty()) {
            errors.extend(self.check_lists(value));
        }
        if !self.has_rules() {
            return errors;
        }
        if errors.iter().any(blocks_rules) {
            errors.push(FieldError::invalid(path::NOWHERE, Value::Null, RULES_NOT_CHECKED));
        } else {
            errors.extend(self.check_rules(value, old));
        }
        errors
    }

    pub(super) fn check(&self, value: &Value, old: Option<&Value>, at: &str) -> Verdict {
        let mut verdict = Verdict::default();
        if old == Some(value) {
            return verdict;
        }
        if value.is_null() {
            verdict.merge(self.check_null(at));
            verdict.merge(self.check_options(value, at));
            return verdict;
        }
        if !self.types().is_empty() || self.limits.format.is_some() {
            verdict.apply(self.check_type(value, at));
        }
        verdict.apply(self.check_junctors(value, at));
        match value {
            Value::String(text) => self.check_text(&mut verdict, text, at),
            Value::Number(number) => verdict.apply(self.check_number(number, at)),
            Value::Array(items) => verdict.apply(self.check_items(items, old, at)),
            _ => {}
        }
        verdict.apply(self.check_options(value, at));
        if let Value::Object(fields) = value {
            verdict.apply(self.check_fields(fields, old, at));
        }
        verdict.matches += 1;
        verdict
    }

    fn check_null(&self, at: &str) -> Verdict {
        if self.types().is_empty() || self.nullable {
            return Verdict::matched();
        }
        wrong_type(at, &self.type_names(), "null").into()
    }

    fn check_type(&self, value: &Value, at: &str) -> Verdict {
        let (found, found_format) = describe(value);
        let allowed = self.types();
        let numeric = allowed.iter().any(|kind| matches!(kind, Type::Number | Type::Integer));
        let fits = allowed.contains(&found)
            || (found == Type::Integer && allowed.contains(&Type::Number))
            || (found == Type::Number && allowed.contains(&Type::Integer) && stands_for_integer(value));
        if let Some(format) = &self.limits.format {
            let textual = matches!(found, Type::String | Type::Array);
            if !textual && !fits {
                return wrong_type(at, format.name(), found_format).into();
            }
            // The API server leaves strings and, oddly, lists to the format check.
            if textual && !numeric {
                return Verdict::matched();
            }
        }
        if fits { Verdict::matched() } else { wrong_type(at, &self.type_names(), found.name()).into() }
    }

    fn type_names(&self) -> String {
        self.types().iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
    }

    fn check_text(&self, verdict: &mut Verdict, text: &str, at: &str) {
        verdict.apply(self.check_length(text, at).map(Verdict::from).unwrap_or_default());
        let Some(format) = self.limits.format.as_ref().filter(|format| format.is_textual()) else { return };
        let mut found = Verdict::default();
        if !format.accepts(text) {
            found.push(wrong_type(at, format.name(), text));
        }
        verdict.apply(found);
    }

    /// Only the first complaint about a string is reported.
    fn check_length(&self, text: &str, at: &str) -> Option<FieldError> {
        let limits = &self.limits;
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            return Some(FieldError::new(path::field(at), Problem::TooLong(size(most)), ""));
        }
        if let Some(least) = limits.min_length.filter(|least| length < *least) {
            return Some(invalid(at, text, format_args!("should be at least {least} chars long")));
        }
        let pattern = limits.pattern.as_ref().filter(|pattern| !pattern.matches(text))?;
        Some(invalid(at, text, format_args!("should match '{}'", pattern.source())))
    }

    fn check_options(&self, value: &Value, at: &str) -> Verdict {
        let options = &self.limits.options;
        if options.is_empty() || options.iter().any(|option| same_option(option, value)) {
            return Verdict::default();
        }
        let names = options.iter().map(|option| match option {
            Value::String(name) => format!("{name:?}"),
            other => format!("{:?}", other.to_string()),
        });
        let detail = format!("supported values: {}", names.collect::<Vec<_>>().join(", "));
        FieldError::new(path::field(at), Problem::NotSupported(numbers::shown(value)), detail).into()
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>, at: &str) -> Verdict {
        let mut verdict = Verdict::matched();
        if let Some(schema) = &self.items {
            let old = lists::Correlated::new(self, old);
            for (i, item) in items.iter().enumerate() {
                verdict.merge(schema.check(item, old.find(item), &path::index(at, i)));
            }
        }
        let limits = &self.limits;
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = limits.min_items.filter(|least| count < *least) {
            verdict.push(invalid(at, count, format_args!("should have at least {least} items")));
        }
        if let Some(most) = limits.max_items.filter(|most| count > *most) {
            verdict.push(too_many(at, items.len(), most));
        }
        if limits.unique_items && lists::has_duplicates(items) {
            verdict.push(invalid(at, "", "shouldn't contain duplicates"));
        }
        verdict
    }

    fn check_fields(&self, fields: &Map<String, Value>, old: Option<&Value>, at: &str) -> Verdict {
        let mut verdict = Verdict::default();
        let limits = &self.limits;
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(least) = limits.min_properties.filter(|least| count < *least) {
            verdict.push(invalid(at, count, format_args!("should have at least {least} properties")));
        }
        if let Some(most) = limits.max_properties.filter(|most| count > *most) {
            verdict.push(too_many(at, fields.len(), most));
        }
        self.check_additional(&mut verdict, fields, old, at);
        for (name, schema) in &self.properties {
            let Some(value) = fields.get(name) else { continue };
            let old = old.and_then(|old| old.get(name)).filter(|_| !(at.is_empty() && is_type_meta(name)));
            verdict.merge(schema.check(value, old, &path::child(at, name)));
        }
        let missing = limits.required.iter().filter(|name| !fields.contains_key(*name));
        verdict.errors.extend(missing.map(|name| FieldError::required(path::child(at, name), "")));
        verdict
    }

    fn check_additional(
        &self,
        verdict: &mut Verdict,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        at: &str,
    ) {
        let others = fields.iter().filter(|(name, _)| !self.properties.contains_key(*name));
        match &self.additional {
            None | Some(Additional::Any) => {}
            Some(Additional::Forbidden) => verdict.errors.extend(others.map(|(name, _)| {
                let detail = format!("{at}.{name} in body is a forbidden property");
                FieldError::invalid(path::field(at), name.as_str(), detail)
            })),
            Some(Additional::Matching(schema)) => {
                for (name, value) in others {
                    let old = old.and_then(|old| old.get(name));
                    verdict.merge(schema.check(value, old, &format!("{at}.{name}")));
                }
            }
        }
    }

    fn check_junctors(&self, value: &Value, at: &str) -> Verdict {
        let mut verdict = Verdict::matched();
        let junctors = &self.junctors;
        if !junctors.any_of.is_empty() {
            check_any_of(&mut verdict, &junctors.any_of, value, at);
        }
        if !junctors.one_of.is_empty() {
            check_one_of(&mut verdict, &junctors.one_of, value, at);
        }
        if !junctors.all_of.is_empty() {
            check_all_of(&mut verdict, &junctors.all_of, value, at);
        }
        if junctors.not.as_ref().is_some_and(|not| not.check(value, None, at).is_valid()) {
            verdict.push(nowhere(format!("{at:?} must not validate the schema (not)")));
        }
        verdict
    }
}

fn check_any_of(verdict: &mut Verdict, branches: &[Schema], value: &Value, at: &str) {
    let mut best: Option<Verdict> = None;
    for branch in branches {
        let found = branch.check(value, None, at);
        if found.is_valid() {
            return verdict.merge(found);
        }
        keep_best(&mut best, found);
    }
    verdict.push(nowhere(format!("{at:?} must validate at least one schema (anyOf)")));
    verdict.merge(best.unwrap_or_default());
}

fn check_one_of(verdict: &mut Verdict, branches: &[Schema], value: &Value, at: &str) {
    let mut best: Option<Verdict> = None;
    let mut valid: Vec<Verdict> = Vec::new();
    for branch in branches {
        let found = branch.check(value, None, at);
        if found.is_valid() {
            valid.push(found);
        } else if valid.is_empty() {
            keep_best(&mut best, found);
        }
    }
    let found = match valid.len() {
        0 => "Found none valid".to_owned(),
        1 => return valid.into_iter().for_each(|found| verdict.merge(found)),
        many => format!("Found {many} valid alternatives"),
    };
    verdict.push(nowhere(format!("{at:?} must validate one and only one schema (oneOf). {found}")));
    if valid.is_empty() {
        verdict.merge(best.unwrap_or_default());
    }
}

fn check_all_of(verdict: &mut Verdict, branches: &[Schema], value: &Value, at: &str) {
    let found: Vec<Verdict> = branches.iter().map(|branch| branch.check(value, None, at)).collect();
    let valid = found.iter().filter(|found| found.is_valid()).count();
    found.into_iter().for_each(|found| verdict.merge(found));
    if valid < branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        verdict.push(nowhere(format!("{at:?} must validate all the schemas (allOf){none}")));
    }
}

fn keep_best(best: &mut Option<Verdict>, found: Verdict) {
    if best.as_ref().is_none_or(|best| found.matches > best.matches) {
        *best = Some(found);
    }
}

/// The JSON type of a value, and the format that the API server gives it.
fn describe(value: &Value) -> (Type, &'static str) {
    match value {
        Value::Bool(_) => (Type::Boolean, ""),
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
        Value::String(_) | Value::Null => (Type::String, ""),
    }
}

fn stands_for_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(numbers::is_whole)
}

/// Options compare by value: `1` and `1.0` are the same number.
fn same_option(option: &Value, value: &Value) -> bool {
    match (option, value) {
        (Value::Null, _) => false,
        (Value::Number(option), Value::Number(value)) => option == value || option.as_f64() == value.as_f64(),
        (option, value) => option == value,
    }
}

fn too_many(at: &str, actual: usize, most: i64) -> FieldError {
    FieldError::new(path::field(at), Problem::TooMany { actual, most: size(most) }, "")
}

fn size(limit: i64) -> usize {
    usize::try_from(limit).unwrap_or(0)
}

fn is_type_meta(name: &str) -> bool {
    name == "kind" || name == "apiVersion"
}

const RULES_NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; \
                                 correct the existing errors to complete validation";

/// Rules are written for objects of the right shape, so they do not run on others.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.problem,
        Problem::NotSupported(_)
            | Problem::Required
            | Problem::TooLong(_)
            | Problem::TooMany { .. }
            | Problem::TypeInvalid(_)
    )
}
