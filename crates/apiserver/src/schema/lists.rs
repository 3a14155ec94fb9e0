//! Lists that are sets or maps: no value, or no key, may occur twice.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::path;
use super::structural::{ListType, Schema};
use crate::invalid::FieldError;

impl Schema {
    /// Every list of `value` that is a set or map and holds something twice.
    pub(super) fn check_lists(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_node(self, value, "", &mut errors);
        errors
    }
}

fn check_node(schema: &Schema, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check_node(property, value, &path::child(at, name), errors);
                } else if let Some(others) = schema.additional.as_ref().and_then(|others| others.schema()) {
                    check_node(others, value, &path::key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            check_list(schema, items, at, errors);
            let Some(schema) = &schema.items else { return };
            for (i, item) in items.iter().enumerate() {
                check_node(schema, item, &path::index(at, i), errors);
            }
        }
        _ => {}
    }
}

fn check_list(schema: &Schema, items: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    let keys = match &schema.list_type {
        Some(ListType::Set) => items.to_vec(),
        Some(ListType::Map(names)) => {
            if let Some(at_item) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(path::index(at, at_item), items[at_item].clone(), detail));
                return;
            }
            items.iter().map(|item| key_of(item, names)).collect()
        }
        Some(ListType::Atomic) | None => return,
    };
    for i in second_occurrences(&keys) {
        errors.push(FieldError::duplicate(path::index(at, i), keys[i].clone()));
    }
}

/// The fields of `item` that tell it apart; absent ones are left out.
fn key_of(item: &Value, names: &[String]) -> Value {
    let fields = names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Where a value occurs for the second time; further occurrences are not reported.
fn second_occurrences(values: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let times = seen.entry(canonical(value)).or_default();
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}

pub(super) fn has_duplicates(values: &[Value]) -> bool {
    !second_occurrences(values).is_empty()
}

/// A text that two values share exactly when they are equal.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, String)> = fields.iter().map(|(k, v)| (k, canonical(v))).collect();
            fields.sort();
            format!("{{{}}}", json!(fields))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// The elements of a list before an update, found by key. Only lists of type map have elements that keep an identity.
pub(super) struct Correlated<'a> {
    names: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> Correlated<'a> {
    pub(super) fn new(list: &'a Schema, old: Option<&'a Value>) -> Self {
        let (Some(ListType::Map(names)), Some(Value::Array(items))) = (&list.list_type, old) else {
            return Self { names: &[], items: HashMap::new() };
        };
        // Of two elements with the same key the first one counts.
        let items = items.iter().rev().map(|item| (canonical(&key_of(item, names)), item)).collect();
        Self { names, items }
    }

    pub(super) fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&canonical(&key_of(item, self.names))).copied()
    }
}
