//! Which keywords a schema may use, and how the Kubernetes extensions have to be combined.

use serde_json::Value;

use super::jsonpath::JsonPath;
use super::path;
use super::structure::{branches, fields, flag, is_set, kind, missing_or_wrong, property_path};
use crate::invalid::{FieldError, Problem};

/// What surrounds a node and restricts it.
#[derive(Clone, Default)]
struct Scope {
    root: bool,
    /// Inside `metadata`, `kind` or `apiVersion` of a resource.
    meta: bool,
    /// Why a default may not stand here.
    no_default: Option<String>,
    /// The list or map whose elements have no counterpart in an old object.
    uncorrelatable: Option<String>,
}

/// Every misuse of a keyword at or below the schema at `at`.
pub(super) fn check_keywords(schema: &Value, at: &str) -> Vec<FieldError> {
    let mut found = Vec::new();
    check_node(schema, &Scope { root: true, ..Scope::default() }, at, &mut found);
    found
}

fn check_node(node: &Value, scope: &Scope, at: &str, found: &mut Vec<FieldError>) {
    check_standard(node, scope, at, found);
    check_below(node, scope, at, found);
    check_map_type(node, at, found);
    check_list_type(node, at, found);
    check_list_keys(node, at, found);
    check_rules(node, scope, at, found);
}

const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

fn check_standard(node: &Value, scope: &Scope, at: &str, found: &mut Vec<FieldError>) {
    let types = ["array", "boolean", "integer", "number", "object", "string"];
    let place = |key: &str| path::child(at, key);
    let kind = kind(node);
    if !kind.is_empty() && !types.contains(&kind) {
        found.push(FieldError::not_supported(place("type"), kind, &types));
    }
    if let Some(reason) =
        scope.no_default.as_ref().filter(|_| node.get("default").is_some_and(|v| !v.is_null()))
    {
        found.push(FieldError::forbidden(place("default"), format!("must not be set {reason}")));
    }
    for key in UNSUPPORTED {
        if node.get(key).is_some_and(is_set) {
            found.push(FieldError::forbidden(place(key), format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        found.push(FieldError::forbidden(place("type"), detail));
    }
    if node.get("items").is_some_and(Value::is_array) {
        found.push(FieldError::forbidden(place("items"), "items must be a schema object and not an array"));
    }
    if scope.meta && flag(node, "x-kubernetes-embedded-resource") {
        let place = place("x-kubernetes-embedded-resource");
        found.push(FieldError::forbidden(place, "must not be used inside of resource meta"));
    }
    if flag(node, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.push(FieldError::forbidden(place("uniqueItems"), detail));
    }
    if node.get("x-kubernetes-preserve-unknown-fields").is_some_and(|value| *value == false) {
        let place = place("x-kubernetes-preserve-unknown-fields");
        found.push(FieldError::invalid(place, false, "must be true or undefined"));
    }
}

fn check_below(node: &Value, scope: &Scope, at: &str, found: &mut Vec<FieldError>) {
    let inner = Scope { root: false, ..scope.clone() };
    if let Some(additional) = node.get("additionalProperties").filter(|value| !value.is_null()) {
        let place = path::child(at, "additionalProperties");
        if fields(node, "properties").next().is_some() && *additional != true {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.push(FieldError::forbidden(place.clone(), detail));
        }
        let mut inner = inner.clone();
        if inner.meta {
            inner.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        check_node(additional, &inner, &place, found);
    }
    for (name, property) in fields(node, "properties") {
        check_node(property, &property_scope(node, scope, name), &property_path(at, name), found);
    }
    if let Some(not) = node.get("not").filter(|not| !not.is_null()) {
        check_node(not, &inner, &path::child(at, "not"), found);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (i, branch) in branches(node, key).iter().enumerate() {
            check_node(branch, &inner, &path::index(&path::child(at, key), i), found);
        }
    }
    if let Some(items) = node.get("items").filter(|items| items.is_object()) {
        let mut inner = inner;
        if node.get("x-kubernetes-list-type").is_none_or(|kind| kind != "map") {
            inner.uncorrelatable.get_or_insert_with(|| at.to_owned());
        }
        check_node(items, &inner, &path::child(at, "items"), found);
    }
}

fn property_scope(node: &Value, scope: &Scope, name: &str) -> Scope {
    let mut inner = Scope { root: false, ..scope.clone() };
    let resource = scope.root || flag(node, "x-kubernetes-embedded-resource");
    if resource && super::pruning::META.contains(&name) {
        inner.meta = true;
        if scope.root {
            inner.no_default = Some(format!("in top-level {name}"));
        }
    }
    inner
}

fn check_map_type(node: &Value, at: &str, found: &mut Vec<FieldError>) {
    let Some(map_type) = node.get("x-kubernetes-map-type").and_then(Value::as_str) else { return };
    if kind(node) != "object" {
        let detail = "must be object if x-kubernetes-map-type is specified";
        found.push(missing_or_wrong(&path::child(at, "type"), kind(node), detail));
    }
    if !["atomic", "granular"].contains(&map_type) {
        found.push(unsupported(
            &path::child(at, "x-kubernetes-map-type"),
            map_type,
            "\"atomic\", \"granular\"",
        ));
    }
}

fn check_list_type(node: &Value, at: &str, found: &mut Vec<FieldError>) {
    let place = path::child(at, "x-kubernetes-list-type");
    let list_type = node.get("x-kubernetes-list-type").and_then(Value::as_str);
    if list_type.is_some() && kind(node) != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        found.push(missing_or_wrong(&path::child(at, "type"), kind(node), detail));
    } else if list_type == Some("set") {
        check_set_items(node, &path::child(at, "items"), found);
    }
    if let Some(other) = list_type.filter(|name| !["atomic", "set", "map"].contains(name)) {
        found.push(unsupported(&place, other, "\"atomic\", \"set\", \"map\""));
    }
    if !branches(node, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        found.push(missing_or_wrong(&place, list_type.unwrap_or_default(), detail));
    }
}

fn check_set_items(node: &Value, at: &str, found: &mut Vec<FieldError>) {
    let Some(items) = node.get("items").filter(|items| items.is_object()) else { return };
    let atomic = |key: &str| items.get(key).and_then(Value::as_str);
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = atomic("x-kubernetes-list-type");
    let shown = list_type.map_or(Value::Null, Value::from);
    match kind(items) {
        "array" if list_type.is_some_and(|kind| kind != "atomic") => {
            found.push(FieldError::invalid(path::child(at, "x-kubernetes-list-type"), shown, detail));
        }
        "object" if atomic("x-kubernetes-map-type") != Some("atomic") => {
            found.push(FieldError::invalid(path::child(at, "x-kubernetes-map-type"), shown, detail));
        }
        _ => {}
    }
}

fn check_list_keys(node: &Value, at: &str, found: &mut Vec<FieldError>) {
    let list_type = node.get("x-kubernetes-list-type").and_then(Value::as_str).unwrap_or_default();
    let items = node.get("items").filter(|items| items.is_object());
    if list_type == "map" {
        check_keys_exist(node, items, at, found);
    }
    let Some(items) = items.filter(|_| matches!(list_type, "map" | "set")) else { return };
    let items_at = path::child(at, "items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        found.push(FieldError::forbidden(path::child(&items_at, "nullable"), detail));
    }
    if list_type == "map" {
        check_keys_present(node, items, &items_at, found);
    }
}

fn check_keys_exist(node: &Value, items: Option<&Value>, at: &str, found: &mut Vec<FieldError>) {
    let keys = branches(node, "x-kubernetes-list-map-keys");
    let place = path::child(at, "x-kubernetes-list-map-keys");
    let items_at = path::child(at, "items");
    if keys.is_empty() {
        found.push(FieldError::required(place.clone(), "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = items else {
        found.push(FieldError::required(items_at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if kind(items) != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        found.push(FieldError::invalid(path::child(&items_at, "type"), kind(items), detail));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let property = items.get("properties").and_then(|properties| properties.get(name));
        match property.map(kind) {
            Some("array" | "object") => {
                let place = path::child(&property_path(&items_at, name), "type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                found.push(FieldError::invalid(place, "object", detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                found.push(FieldError::invalid(place.clone(), keys.to_vec(), detail));
            }
        }
        if keys[..i].contains(key) {
            found.push(FieldError::invalid(
                place.clone(),
                keys.to_vec(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// A key that may be absent would make two elements the same.
fn check_keys_present(node: &Value, items: &Value, items_at: &str, found: &mut Vec<FieldError>) {
    for key in branches(node, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let place = property_path(items_at, name);
        let has_default = property.get("default").is_some_and(|value| !value.is_null());
        if !branches(items, "required").contains(key) && !has_default {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            found.push(FieldError::required(path::child(&place, "default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            found.push(FieldError::forbidden(path::child(&place, "nullable"), detail));
        }
    }
}

const REASONS: [&str; 4] =
    ["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"];

fn check_rules(node: &Value, scope: &Scope, at: &str, found: &mut Vec<FieldError>) {
    for (i, rule) in branches(node, "x-kubernetes-validations").iter().enumerate() {
        let at = path::index(&path::child(at, "x-kubernetes-validations"), i);
        check_rule(rule, &at, found);
        check_field_path(rule, node, &path::child(&at, "fieldPath"), found);
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        if let Some(list) = scope.uncorrelatable.as_ref().filter(|_| text.contains("oldSelf")) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            found.push(FieldError::invalid(path::child(&at, "rule"), text, detail));
        }
        if !text.contains("oldSelf")
            && let Some(optional) = rule.get("optionalOldSelf").filter(|value| !value.is_null())
        {
            let detail = "may not be set if oldSelf is not used in rule";
            found.push(FieldError::invalid(path::child(&at, "optionalOldSelf"), optional.clone(), detail));
        }
    }
}

fn check_rule(rule: &Value, at: &str, found: &mut Vec<FieldError>) {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let place = |key: &str| path::child(at, key);
    let message = text("message");
    if text("rule").trim().is_empty() {
        found.push(FieldError::required(place("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        found.push(FieldError::invalid(place("message"), message, "must be non-empty if specified"));
    } else if breaks(message.trim()) {
        found.push(FieldError::invalid(place("message"), message, "must not contain line breaks"));
    } else if breaks(text("rule").trim()) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        found.push(FieldError::required(place("message"), detail));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        found.push(FieldError::required(place("messageExpression"), detail));
    }
    if let Some(reason) =
        rule.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason))
    {
        found.push(FieldError::not_supported(place("reason"), reason, &REASONS));
    }
}

/// `fieldPath` names a field of the node that the rule stands at.
fn check_field_path(rule: &Value, node: &Value, at: &str, found: &mut Vec<FieldError>) {
    let text = rule.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        return;
    }
    let mut wrong = |detail: &str| found.push(FieldError::invalid(at, text, detail));
    if text.trim().is_empty() {
        wrong("must be non-empty if specified");
    }
    if text.contains(['\n', '\r']) {
        wrong("must not contain line breaks");
    }
    let path = JsonPath::parse(text).ok();
    if path.and_then(|path| find_field(&path.fields()?, node).map(drop)).is_none() {
        wrong("must be a valid path");
    }
}

/// The schema of a field inside `node`.
pub(super) fn find_field<'a>(names: &[&str], node: &'a Value) -> Option<&'a Value> {
    names.iter().try_fold(node, |node, name| match node.get("properties") {
        Some(properties) => properties.get(name),
        None => node.get("additionalProperties").filter(|additional| additional.is_object()),
    })
}

fn unsupported(place: &str, value: &str, supported: &str) -> FieldError {
    FieldError::new(place, Problem::NotSupported(value.into()), format!("supported values: {supported}"))
}
