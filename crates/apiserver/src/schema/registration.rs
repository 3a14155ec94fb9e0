//! What a CustomResourceDefinition has to satisfy before its resource is served.
//!
//! A part that is the same in all versions is reported where the API server keeps it internally, once for the whole
//! definition (`spec.validation` rather than `spec.versions[0].schema`).

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::keywords::check_keywords;
use super::names::{dns_label, dns_subdomain};
use super::path;
use super::structural::Schema;
use super::structure::{branches, check_structure, flag, text};
use super::surfaces::{check_column, check_scale, check_selectable_fields};
use crate::invalid::FieldError;

/// A version with the paths under which its parts are reported.
struct Place<'a> {
    version: &'a Value,
    at: String,
    schema: String,
    /// Whether all versions have the same schema, so that it is compiled only once.
    shared: bool,
    subresources: String,
    columns: String,
    selectable_fields: String,
}

fn versions(crd: &Value) -> Vec<Place<'_>> {
    let versions = branches(&crd["spec"], "versions");
    let shared = |key: &str| versions.iter().all(|version| version[key] == versions[0][key]);
    let place = |key: &str, at: &str, alone: &str, top: &str| {
        if shared(key) { format!("spec.{top}") } else { format!("{at}.{alone}") }
    };
    let same = |key: &str, at: &str| place(key, at, key, key);
    let places = versions.iter().enumerate().map(|(i, version)| {
        let at = path::index("spec.versions", i);
        Place {
            version,
            schema: place("schema", &at, "schema.openAPIV3Schema", "validation.openAPIV3Schema"),
            shared: shared("schema"),
            subresources: same("subresources", &at),
            columns: same("additionalPrinterColumns", &at),
            selectable_fields: same("selectableFields", &at),
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
    for place in &versions(crd) {
        check_version(place, &mut found);
        let known = schemas.first().filter(|_| place.shared).cloned();
        schemas.extend(known.or_else(|| check_schema(place, &mut found).map(Arc::new)));
    }
    check_versions(branches(spec, "versions"), &mut found);
    check_names(&spec["names"], &mut found);
    check_conversion(&spec["conversion"], &mut found);
    check_approval(crd, &mut found);
    if flag(spec, "preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        found.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    if found.is_empty() { Ok(schemas) } else { Err(once(found)) }
}

/// Without the errors that every version repeats about a part they share.
fn once(errors: Vec<FieldError>) -> Vec<FieldError> {
    let mut seen = HashSet::new();
    errors.into_iter().filter(|error| seen.insert(error.to_string())).collect()
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
    check_scale(&version["subresources"]["scale"], &path::child(&place.subresources, "scale"), found);
    for (i, column) in branches(version, "additionalPrinterColumns").iter().enumerate() {
        check_column(column, &path::index(&place.columns, i), found);
    }
    let schema = &version["schema"]["openAPIV3Schema"];
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

fn check_schema(place: &Place<'_>, found: &mut Vec<FieldError>) -> Option<Schema> {
    let schema = &place.version["schema"]["openAPIV3Schema"];
    let at = &place.schema;
    if !schema.is_object() {
        found.push(FieldError::required(path::child(&place.at, "schema.openAPIV3Schema"), ""));
        return None;
    }
    let before = found.len();
    if place.version["subresources"]["status"].is_object() {
        check_root(schema, at, found);
    }
    if flag(schema, "nullable") {
        found.push(FieldError::forbidden(path::child(at, "nullable"), "nullable cannot be true at the root"));
    }
    found.extend(check_structure(schema, at));
    found.extend(check_keywords(schema, at));
    if found.len() > before {
        return None;
    }
    let schema = Schema::parse(schema, at).map_err(|errors| found.extend(errors)).ok()?;
    check_defaults(&schema, at, found);
    Some(schema)
}

fn check_root(schema: &Value, at: &str, found: &mut Vec<FieldError>) {
    let other = schema.as_object().and_then(|node| node.keys().find(|key| !AT_ROOT.contains(&key.as_str())));
    if let Some(key) = other {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum \
                      MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                      ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the \
                      schema if the status subresource is enabled";
        found.push(FieldError::invalid(at, key.as_str(), detail));
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
    if !reserved.iter().any(protected) {
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
