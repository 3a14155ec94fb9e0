//! Resources inside of resources (`x-kubernetes-embedded-resource`): they, too, need a type.

use serde_json::{Map, Value};

use super::names::dns_label;
use super::path;
use super::structural::Schema;
use crate::invalid::FieldError;

impl Schema {
    /// What is wrong with the type of resources that `value` embeds. The object's own type is not looked at.
    pub(super) fn check_embedded(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_node(self, value, "", &mut errors);
        errors
    }
}

fn check_node(schema: &Schema, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                check_type(fields, at, errors);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check_node(property, value, &path::child(at, name), errors);
                } else if let Some(others) = schema.additional.as_ref().and_then(|others| others.schema()) {
                    check_node(others, value, &path::key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (i, item) in items.iter().enumerate() {
                check_node(schema, item, &path::index(at, i), errors);
            }
        }
        _ => {}
    }
}

fn check_type(fields: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for (name, check) in
        [("apiVersion", check_api_version as fn(&str) -> Option<String>), ("kind", check_kind)]
    {
        let place = path::child(at, name);
        let error = match fields.get(name) {
            None => Some(FieldError::required(place, "")),
            Some(Value::String(text)) if text.is_empty() => {
                Some(FieldError::invalid(place, "", "must not be empty"))
            }
            Some(Value::String(text)) => {
                check(text).map(|detail| FieldError::invalid(place, text.as_str(), detail))
            }
            Some(other) => Some(FieldError::invalid(place, other.clone(), "must be a string")),
        };
        errors.extend(error);
    }
}

fn check_api_version(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn check_kind(text: &str) -> Option<String> {
    let wrong = dns_label(&text.to_lowercase())?;
    Some(format!("may have mixed case, but should otherwise match: {wrong}"))
}
