//! What a version shows besides its schema: printer columns, the scale subresource and selectable fields.

use serde_json::Value;

use super::jsonpath::JsonPath;
use super::keywords::find_field;
use super::path;
use super::structure::{kind, text};
use crate::invalid::{FieldError, Problem};

pub(super) fn check_scale(scale: &Value, at: &str, found: &mut Vec<FieldError>) {
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

pub(super) fn check_column(column: &Value, at: &str, found: &mut Vec<FieldError>) {
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

pub(super) fn check_selectable_fields(
    selectable: &[Value],
    schema: &Value,
    at: &str,
    found: &mut Vec<FieldError>,
) {
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
        let problem = Problem::TooMany { actual: seen.len(), most: MAX_SELECTABLE_FIELDS };
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
