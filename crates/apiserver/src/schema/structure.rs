//! Whether a schema is structural: every value has a declared type, and junctors only narrow what is declared.
//!
//! That is what makes pruning and defaulting well defined, so definitions without it are refused.

use serde_json::{Map, Value};

use super::path;
use crate::invalid::FieldError;

/// Where a node stands; messages differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Every violation below the schema at `at`, sorted.
pub(super) fn check_structure(schema: &Value, at: &str) -> Vec<FieldError> {
    let mut found = Vec::new();
    check_node(schema, Level::Root, at, &mut found);
    check_declared(schema, schema, at, at, &mut found);
    found.sort_by_cached_key(ToString::to_string);
    found
}

fn check_node(node: &Value, level: Level, at: &str, found: &mut Vec<FieldError>) {
    let items = node.get("items").filter(|items| items.is_object());
    if kind(node) == "array" && node.get("items").is_none_or(Value::is_null) {
        found.push(FieldError::required(path::child(at, "items"), "must be specified"));
    }
    if let Some(items) = items {
        check_node(items, Level::Item, &path::child(at, "items"), found);
    }
    for (name, property) in fields(node, "properties") {
        check_node(property, Level::Field, &property_path(at, name), found);
    }
    if let Some(additional) = node.get("additionalProperties").filter(|value| !value.is_null()) {
        let place = path::child(at, "additionalProperties");
        if level == Level::Root {
            found.push(FieldError::forbidden(place.clone(), "must not be used at the root"));
        }
        if additional.is_object() {
            check_node(additional, Level::Field, &place, found);
        }
    }
    check_extensions(node, at, found);
    check_junctors(node, declares_int_or_string(node), at, found);
    check_type(node, level, at, found);
    check_meta(node, level, at, found);
}

fn check_extensions(node: &Value, at: &str, found: &mut Vec<FieldError>) {
    if !flag(node, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(node, key) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            found.push(FieldError::invalid(path::child(at, key), true, detail));
        }
    }
}

fn check_type(node: &Value, level: Level, at: &str, found: &mut Vec<FieldError>) {
    let place = path::child(at, "type");
    let kind = kind(node);
    let embedded = flag(node, "x-kubernetes-embedded-resource");
    let open = flag(node, "x-kubernetes-int-or-string") || flag(node, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        found.push(missing_or_wrong(&place, kind, detail));
    } else if kind.is_empty() && !open {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(FieldError::required(place.clone(), detail));
    }
    if embedded && node.get("additionalProperties").is_some_and(|value| !value.is_null()) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        found.push(FieldError::forbidden(path::child(at, "additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(FieldError::invalid(place, kind, "must be object at the root"));
    }
}

/// Type and metadata of a resource are given; a schema may repeat them but not change them.
fn check_meta(node: &Value, level: Level, at: &str, found: &mut Vec<FieldError>) {
    let embedded = flag(node, "x-kubernetes-embedded-resource");
    let resource = level == Level::Root || embedded;
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = node.pointer(&format!("/properties/{name}")) else { continue };
        if resource && kind(property) != wanted {
            let place = path::child(&property_path(at, name), "type");
            found.push(FieldError::invalid(place, kind(property), format!("must be {wanted}")));
        }
    }
    if let Some(metadata) = node.pointer("/properties/metadata").filter(|_| level == Level::Root)
        && !is_bare_metadata(metadata)
    {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        found.push(FieldError::forbidden(property_path(at, "metadata"), detail));
    }
    let empty = fields(node, "properties").next().is_none();
    if embedded && empty && !flag(node, "x-kubernetes-preserve-unknown-fields") {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(FieldError::required(path::child(at, "properties"), detail));
    }
}

fn is_bare_metadata(metadata: &Value) -> bool {
    let plain = metadata
        .as_object()
        .is_some_and(|node| node.keys().all(|key| matches!(key.as_str(), "type" | "default" | "properties")));
    plain && fields(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName")
}

/// `skip` is set where `anyOf` merely spells out `x-kubernetes-int-or-string`.
fn check_junctors(node: &Value, skip: bool, at: &str, found: &mut Vec<FieldError>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip {
            continue;
        }
        for (i, branch) in branches(node, key).iter().enumerate() {
            let skip = key == "allOf" && i == 0 && declares_int_or_string(branch);
            check_branch(branch, skip, &path::index(&path::child(at, key), i), found);
        }
    }
    if let Some(not) = node.get("not").filter(|not| !not.is_null()) {
        check_branch(not, false, &path::child(at, "not"), found);
    }
}

const FORBIDDEN_IN_BRANCHES: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

fn check_branch(branch: &Value, skip: bool, at: &str, found: &mut Vec<FieldError>) {
    check_junctors(branch, skip, at, found);
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        check_branch(items, false, &path::child(at, "items"), found);
    }
    for (name, property) in fields(branch, "properties") {
        check_branch(property, false, &property_path(at, name), found);
    }
    for (key, detail) in FORBIDDEN_IN_BRANCHES {
        if branch.get(key).is_some_and(is_set) {
            found.push(FieldError::forbidden(path::child(at, key), detail));
        }
    }
    if branch.get("additionalProperties").is_some_and(|value| value.is_object() || *value == true) {
        let place = path::child(at, "additionalProperties");
        found.push(FieldError::forbidden(place, "must be undefined to be structural"));
    }
    if branch.get("x-kubernetes-validations").is_some_and(is_set) {
        let place = path::child(at, "x-kubernetes-validations");
        found.push(FieldError::forbidden(place, "must be empty to be structural"));
    }
    if branch.pointer("/properties/metadata").is_some() {
        found.push(FieldError::forbidden(
            property_path(at, "metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// Whatever a junctor of `branch` names has to be declared in the structural part `node`.
fn check_declared(branch: &Value, node: &Value, at: &str, branch_at: &str, found: &mut Vec<FieldError>) {
    let one = branch.get("not").filter(|not| !not.is_null()).map(|not| (path::child(branch_at, "not"), not));
    let many = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let place = path::child(branch_at, key);
        branches(branch, key).iter().enumerate().map(move |(i, branch)| (path::index(&place, i), branch))
    });
    for (place, branch) in one.into_iter().chain(many) {
        check_branch_declared(branch, node, at, &place, found);
    }
}

fn check_branch_declared(
    branch: &Value,
    node: &Value,
    at: &str,
    branch_at: &str,
    found: &mut Vec<FieldError>,
) {
    check_declared(branch, node, at, branch_at, found);
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        let (place, branch_place) = (path::child(at, "items"), path::child(branch_at, "items"));
        match node.get("items") {
            Some(declared) => check_branch_declared(items, declared, &place, &branch_place, found),
            None => {
                found.push(FieldError::required(place, format!("because it is defined in {branch_place}")))
            }
        }
    }
    for (name, property) in fields(branch, "properties") {
        let (place, branch_place) = (property_path(at, name), property_path(branch_at, name));
        match node.get("properties").and_then(|properties| properties.get(name)) {
            Some(declared) => check_branch_declared(property, declared, &place, &branch_place, found),
            None => {
                found.push(FieldError::required(place, format!("because it is defined in {branch_place}")))
            }
        }
    }
}

fn declares_int_or_string(node: &Value) -> bool {
    let branches = branches(node, "anyOf");
    let only = |branch: &Value, name: &str| {
        branch
            .as_object()
            .is_some_and(|branch| branch.len() == 1 && branch.get("type").is_some_and(|kind| kind == name))
    };
    matches!(branches, [first, second] if only(first, "integer") && only(second, "string"))
}

pub(super) fn missing_or_wrong(place: &str, kind: &str, detail: &str) -> FieldError {
    if kind.is_empty() {
        FieldError::required(place, detail)
    } else {
        FieldError::invalid(place, kind, detail)
    }
}

pub(super) fn property_path(at: &str, name: &str) -> String {
    path::key(&path::child(at, "properties"), name)
}

pub(super) fn kind(node: &Value) -> &str {
    text(node, "type")
}

/// A string of a JSON object; empty where there is none.
pub(super) fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(node: &Value, key: &str) -> bool {
    node.get(key).is_some_and(|value| *value == true)
}

pub(super) fn fields<'a>(
    node: &'a Value,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    node.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

pub(super) fn branches<'a>(node: &'a Value, key: &str) -> &'a [Value] {
    node.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a keyword says anything: empty text, empty lists and `false` do not.
pub(super) fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
