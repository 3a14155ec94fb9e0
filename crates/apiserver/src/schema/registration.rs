//! What a CustomResourceDefinition has to satisfy before its resource is served.
//!
//! A part that is the same in all versions is reported where the API server keeps it internally, once for the whole
//! definition (`spec.validation` rather than `spec.versions[0].schema`).

use std::sync::Arc;

use serde_json::Value;

use super::jsonpath::JsonPath;
use super::keywords::{check_keywords, find_field};
use super::names::{dns_label, dns_subdomain};
use super::path;
use super::structural::Schema;
use super::structure::{branches, check_structure, flag, kind};
use crate::invalid::FieldError;

/// A version with the paths under which its parts are reported.
pub(super) struct Place<'a> {
    pub(super) version: &'a Value,
    pub(super) schema: String,
    at: String,
    subresources: String,
    columns: String,
    selectable_fields: String,
    /// Whether an earlier version has the same parts, which are reported only once.
    repeated: bool,
}

pub(super) fn versions(crd: &Value) -> Vec<Place<'_>> {
    let versions = branches(&crd["spec"], "versions");
    let shared = |key: &str| versions.iter().all(|version| version[key] == versions[0][key]);
    let place = |shared: bool, at: &str, alone: &str, top: &str| {
        if shared { format!("spec.{top}") } else { format!("{at}.{alone}") }
    };
    let (schemas, subresources) = (shared("schema"), shared("subresources"));
    let (columns, selectable) = (shared("additionalPrinterColumns"), shared("selectableFields"));
    let whole = schemas && subresources && columns && selectable;
    let places = versions.iter().enumerate().map(|(i, version)| {
        let at = path::index("spec.versions", i);
        Place {
            version,
            schema: place(schemas, &at, "schema.openAPIV3Schema", "validation.openAPIV3Schema"),
            subresources: place(subresources, &at, "subresources", "subresources"),
            columns: place(columns, &at, "additionalPrinterColumns", "additionalPrinterColumns"),
            selectable_fields: place(selectable, &at, "selectableFields", "selectableFields"),
            repeated: whole && i > 0,
            at,
        }
    });
    places.collect()
}

/// The schemas of a completed definition's versions, or everything that keeps it from being registered.
pub(super) fn check(crd: &Value) -> Result<Vec<Arc<Schema>>, Vec<FieldError>> {
    let mut found = Vec::new();
    let mut schemas: Vec<Arc<Schema>> = Vec::new();
    let spec = &crd["spec"];
    check_name(crd, &mut found);
    check_group(text(spec, "group"), &mut found);
    check_scope(text(spec, "scope"), &mut found);
    let places = versions(crd);
    for place in &places {
        check_version(place, &mut found);
        let schema = schemas.last().filter(|_| place.repeated).cloned();
        schemas.extend(schema.or_else(|| check_schema(place, &mut found)));
    }
    check_versions(branches(spec, "versions"), &mut found);
    check_names(&spec["names"], &mut found);
    check_conversion(&spec["conversion"], &mut found);
    check_approval(crd, &mut found);
    if flag(spec, "preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        found.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    if found.is_empty() { Ok(schemas) } else { Err(found) }
}

fn check_name(crd: &Value, found: &mut Vec<FieldError>) {
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let spec = &crd["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    if name.is_empty() {
        found.push(FieldError::required("metadata.name", "name or generateName is required"));
        return;
    }
    if let Some(detail) = dns_subdomain(name) {
        found.push(FieldError::invalid("metadata.name", name, detail));
    }
    if name != wanted {
        found.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
}

fn check_group(group: &str, found: &mut Vec<FieldError>) {
    let error = if group.is_empty() {
        Some(FieldError::required("spec.group", ""))
    } else if let Some(detail) = dns_subdomain(group) {
        Some(FieldError::invalid("spec.group", group, detail))
    } else if !group.contains('.') {
        Some(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"))
    } else {
        None
    };
    found.extend(error);
}

fn check_scope(scope: &str, found: &mut Vec<FieldError>) {
    match scope {
        "Namespaced" | "Cluster" => {}
        "" => found.push(FieldError::required("spec.scope", "")),
        other => found.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
}

fn check_versions(versions: &[Value], found: &mut Vec<FieldError>) {
    let names: Vec<&str> = versions.iter().map(|version| text(version, "name")).collect();
    let mut wrong = |detail: &str| found.push(FieldError::invalid("spec.versions", names.clone(), detail));
    if (1..names.len()).any(|i| names[..i].contains(&names[i])) {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    if !versions.is_empty() && !versions.iter().any(|version| flag(version, "served")) {
        wrong("must have at least one version marked as served");
    }
}

fn check_version(place: &Place<'_>, found: &mut Vec<FieldError>) {
    let version = place.version;
    if let Some(detail) = dns_label(text(version, "name")) {
        found.push(FieldError::invalid(path::child(&place.at, "name"), text(version, "name"), detail));
    }
    check_deprecation(version, &path::child(&place.at, "deprecationWarning"), found);
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        let at = path::child(&place.at, "schema.openAPIV3Schema");
        found.push(FieldError::required(at, ""));
        return;
    }
    if place.repeated {
        return;
    }
    check_schema(schema, version["subresources"]["status"].is_object(), &place.schema, found);
    check_scale(&version["subresources"]["scale"], &path::child(&place.subresources, "scale"), found);
    for (i, column) in branches(version, "additionalPrinterColumns").iter().enumerate() {
        check_column(column, &path::index(&place.columns, i), found);
    }
    check_selectable_fields(branches(version, "selectableFields"), schema, &place.selectable_fields, found);
}

fn check_deprecation(version: &Value, at: &str, found: &mut Vec<FieldError>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let detail = if !flag(version, "deprecated") {
        "can only be set for deprecated versions"
    } else if warning.len() > 256 {
        "must be <= 256 characters long"
    } else if warning.is_empty() {
        "must not be an empty string"
    } else if warning.contains(char::is_control) {
        "must only contain printable UTF-8 characters"
    } else {
        return;
    };
    found.push(FieldError::invalid(at, warning, detail));
}

/// Keywords that the root of a schema may have next to a status subresource.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

fn check_schema(schema: &Value, status: bool, at: &str, found: &mut Vec<FieldError>) {
    let before = found.len();
    let other =
        schema.as_object().and_then(|schema| schema.keys().find(|key| !AT_ROOT.contains(&key.as_str())));
    if let Some(key) = other.filter(|_| status) {
        let detail = format!(
            "only {} fields are allowed at the root of the schema if the status subresource is enabled",
            AT_ROOT.join(", ")
        );
        found.push(FieldError::invalid(at, key.as_str(), detail));
    }
    if flag(schema, "nullable") {
        found.push(FieldError::forbidden(path::child(at, "nullable"), "nullable cannot be true at the root"));
    }
    found.extend(check_structure(schema, at));
    found.extend(check_keywords(schema, at));
    if found.len() > before {
        return;
    }
    match Schema::parse(schema, at) {
        Ok(schema) => check_defaults(&schema, at, found),
        Err(errors) => found.extend(errors),
    }
}

/// Defaults are values of the schema themselves.
fn check_defaults(schema: &Schema, at: &str, found: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        check_default(schema, default, &path::child(at, "default"), found);
    }
    if let Some(items) = &schema.items {
        check_defaults(items, &path::child(at, "items"), found);
    }
    for (name, property) in &schema.properties {
        check_defaults(property, &super::structure::property_path(at, name), found);
    }
}

fn check_default(schema: &Schema, default: &Value, at: &str, found: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    schema.prune(&mut pruned);
    if pruned != *default {
        found.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
    }
    for mut error in schema.validate(default, None) {
        error.field =
            if error.field == path::NOWHERE { at.to_owned() } else { path::child(at, &error.field) };
        found.push(error);
    }
}

fn check_scale(scale: &Value, at: &str, found: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    let paths: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (key, prefixes, detail) in paths {
        let place = path::child(at, key);
        let text = text(scale, key);
        if text.is_empty() {
            found.extend((key != "labelSelectorPath").then(|| FieldError::required(place, "")));
        } else if let Some(error) = check_path(text, &place) {
            found.push(error);
        } else if !prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            found.push(FieldError::invalid(place, text, detail));
        }
    }
}

fn check_path(text: &str, at: &str) -> Option<FieldError> {
    if !text.starts_with('.') {
        return Some(FieldError::invalid(at, text, "must be a simple json path starting with ."));
    }
    JsonPath::parse(text).err().map(|error| FieldError::invalid(at, text, error.to_string()))
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn check_column(column: &Value, at: &str, found: &mut Vec<FieldError>) {
    if text(column, "name").is_empty() {
        found.push(FieldError::required(path::child(at, "name"), ""));
    }
    let kind = kind(column);
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        found.push(FieldError::required(path::child(at, "type"), detail));
    } else if !COLUMN_TYPES.contains(&kind) {
        found.push(FieldError::invalid(path::child(at, "type"), kind, detail));
    }
    let format = text(column, "format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        found.push(FieldError::invalid(path::child(at, "format"), format, detail));
    }
    // The API server spells this field as in its older versions.
    let place = path::child(at, "JSONPath");
    match text(column, "jsonPath") {
        "" => found.push(FieldError::required(place, "")),
        path => found.extend(check_path(path, &place)),
    }
}

const MAX_SELECTABLE_FIELDS: usize = 8;

fn check_selectable_fields(selectable: &[Value], schema: &Value, at: &str, found: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (i, field) in selectable.iter().enumerate() {
        let place = path::child(&path::index(at, i), "jsonPath");
        let text = text(field, "jsonPath");
        if text.is_empty() {
            found.push(FieldError::required(place, ""));
            continue;
        }
        match find_selectable(text, schema) {
            Err(reason) => {
                found.push(FieldError::invalid(place, text, format!("is an invalid path: {reason}")));
                continue;
            }
            Ok(node) => check_selectable(text, node, &place, found),
        }
        if seen.contains(&text) {
            found.push(FieldError::duplicate(place, text));
        } else {
            seen.push(text);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        let problem = crate::invalid::Problem::TooMany { actual: seen.len(), most: MAX_SELECTABLE_FIELDS };
        found.push(FieldError::new(at, problem, ""));
    }
}

fn check_selectable(text: &str, node: &Value, place: &str, found: &mut Vec<FieldError>) {
    if text == ".metadata" || text.starts_with(".metadata.") {
        found.push(FieldError::invalid(place, text, "must not point to fields in metadata"));
    }
    if !["string", "boolean", "integer"].contains(&kind(node)) {
        let detail = "must point to a field of type string, boolean or integer. \
                      Enum string fields and strings with formats are allowed.";
        found.push(FieldError::invalid(place, text, detail));
    }
}

/// The schema of the field at `text`, which may consist of field names only.
fn find_selectable<'a>(text: &str, schema: &'a Value) -> Result<&'a Value, String> {
    if text.contains('[') {
        return Err("array notation is not allowed".to_owned());
    }
    let Some(names) = text.strip_prefix('.') else {
        return Err(format!("expected [ or . but got: {text}"));
    };
    let names: Vec<&str> = names.split('.').collect();
    find_field(&names, schema).ok_or_else(|| "does not refer to a valid field".to_owned())
}

fn check_names(names: &Value, found: &mut Vec<FieldError>) {
    let at = "spec.names";
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, key);
        let mixed = key == "kind" || key == "listKind";
        if name.is_empty() {
            found.push(FieldError::required(path::child(at, key), ""));
        } else if !mixed && let Some(detail) = dns_label(name) {
            found.push(FieldError::invalid(path::child(at, key), name, detail));
        } else if mixed && let Some(detail) = dns_label(&name.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {detail}");
            found.push(FieldError::invalid(path::child(at, key), name, detail));
        }
    }
    for key in ["shortNames", "categories"] {
        for (i, name) in branches(names, key).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let place = path::index(&path::child(at, key), i);
            found.extend(dns_label(name).map(|detail| FieldError::invalid(place, name, detail)));
        }
    }
    let list_kind = text(names, "listKind");
    if !list_kind.is_empty() && list_kind == text(names, "kind") {
        let detail = "kind and listKind may not be the same";
        found.push(FieldError::invalid(path::child(at, "listKind"), list_kind, detail));
    }
}

/// There are no conversion webhooks here, so only the trivial conversion can be registered.
fn check_conversion(conversion: &Value, found: &mut Vec<FieldError>) {
    let at = "spec.conversion";
    match text(conversion, "strategy") {
        "None" => {}
        "" => found.push(FieldError::required(path::child(at, "strategy"), "")),
        other => found.push(FieldError::not_supported(path::child(at, "strategy"), other, &["None"])),
    }
    if conversion.get("webhook").is_some_and(|webhook| !webhook.is_null()) {
        let detail = "should not be set when strategy is not set to Webhook";
        found.push(FieldError::forbidden(path::child(at, "webhookClientConfig"), detail));
    }
}

const APPROVAL: &str = "api-approved.kubernetes.io";
const POLICY: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Groups of the Kubernetes community are reserved for APIs that went through its review.
fn check_approval(crd: &Value, found: &mut Vec<FieldError>) {
    let group = text(&crd["spec"], "group");
    let reserved = ["k8s.io", "kubernetes.io"];
    let protected =
        |name: &&str| group == *name || group.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    if !reserved.iter().any(|name| protected(name)) {
        return;
    }
    let approval =
        crd.pointer("/metadata/annotations").and_then(|all| all.get(APPROVAL)).and_then(Value::as_str);
    let at = path::key("metadata.annotations", APPROVAL);
    match approval.unwrap_or_default() {
        "" => {
            let detail = format!("protected groups must have approval annotation {APPROVAL:?}, {POLICY}");
            found.push(FieldError::required(at, detail));
        }
        reason if reason.starts_with("unapproved") || is_url(reason) => {}
        other => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
                 \"unapproved\", {POLICY}"
            );
            found.push(FieldError::invalid(at, other, detail));
        }
    }
}

fn is_url(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    host.is_some_and(|host| !host.is_empty()) && super::address::is_uri(text)
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node.get(key).and_then(Value::as_str).unwrap_or_default()
}
