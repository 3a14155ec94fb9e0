//! How objects are shown: whole, metadata only, or as rows of a table for `kubectl get`.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use http::header::ACCEPT;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::query::Query;
use crate::object;
use crate::operation::present;
use crate::print;
use crate::registry::{Resource, View};
use crate::status::Status;
use crate::store::{Encoded, Page, Stored};

/// The form a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presentation {
    Object,
    Metadata,
    Table(RowObject),
}

/// What a table row carries besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowObject {
    None,
    Metadata,
    Whole,
}

impl Presentation {
    /// Reads the `Accept` header. A client that only wants protobuf gets JSON: all of them understand it.
    pub(super) fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Self, Status> {
        let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let accept: Vec<&str> = accept.flat_map(|value| value.split(',')).map(str::trim).collect();
        if accept.is_empty() || accept == [""] {
            return Ok(Self::Object);
        }
        let found = accept.iter().find_map(|range| acceptable(range));
        match found {
            Some(Self::Table(_)) => Ok(Self::Table(row_object(query)?)),
            Some(form) => Ok(form),
            None => Err(Status::not_acceptable(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }

    /// One object.
    pub(super) fn one(self, resource: &Resource, stored: &Stored, now: Timestamp, columns: bool) -> Bytes {
        match self {
            Self::Object => object_bytes(resource, stored),
            Self::Metadata => encode(&metadata_only(&shown(resource, stored))),
            Self::Table(rows) => {
                let row = row(resource, stored, now, rows);
                let version = object::meta(&stored.value, "resourceVersion").cloned().unwrap_or_default();
                encode(&table(resource, json!({"resourceVersion": version}), vec![row], columns))
            }
        }
    }

    /// A list.
    pub(super) fn list(self, resource: &Resource, page: &Page, now: Timestamp, selected: bool) -> Bytes {
        let mut metadata = list_metadata(page, selected);
        match self {
            Self::Object => {
                // Lists of custom resources have no type that could leave it out.
                if resource.is_custom() && page.next.is_none() {
                    metadata["continue"] = "".into();
                }
                let (kind, version) = (&resource.list_kind, &resource.api_version());
                concatenate(kind, version, &metadata, &page.items, |out, stored| {
                    put_item(out, resource, stored);
                })
            }
            Self::Metadata => {
                let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                // A list that was never begun is none, in Go.
                if page.items.is_empty() {
                    let metadata = &metadata;
                    return encode(
                        &json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": null}),
                    );
                }
                concatenate(kind, version, &metadata, &page.items, |out, stored| {
                    out.put_slice(&encode(&metadata_only(&shown(resource, stored))));
                })
            }
            Self::Table(rows) => {
                let rows = page.items.iter().map(|stored| row(resource, stored, now, rows)).collect();
                encode(&table(resource, metadata, rows, true))
            }
        }
    }
}

fn acceptable(range: &str) -> Option<Presentation> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let form = parts.find_map(|part| part.strip_prefix("as=")).unwrap_or_default();
    match (kind, form) {
        ("application/json", "Table") => Some(Presentation::Table(RowObject::Metadata)),
        ("application/json", "PartialObjectMetadata" | "PartialObjectMetadataList") => {
            Some(Presentation::Metadata)
        }
        ("application/json" | "application/yaml" | "application/*" | "*/*", "") => Some(Presentation::Object),
        ("application/vnd.kubernetes.protobuf", "") => Some(Presentation::Object),
        ("application/vnd.kubernetes.protobuf", "PartialObjectMetadata" | "PartialObjectMetadataList") => {
            Some(Presentation::Metadata)
        }
        _ => None,
    }
}

fn row_object(query: &Query) -> Result<RowObject, Status> {
    match query.text("includeObject") {
        "" | "Metadata" => Ok(RowObject::Metadata),
        "None" => Ok(RowObject::None),
        "Object" => Ok(RowObject::Whole),
        other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
    }
}

/// The object as this version shows it, encoded; mostly just the bytes that are stored.
pub(super) fn object_bytes(resource: &Resource, stored: &Stored) -> Bytes {
    if is_shown_as_stored(resource, stored) {
        return stored.encoded.whole().clone();
    }
    encode(&present(resource, &stored.value))
}

/// The same as an item of a list: of built-in types these do not say what they are.
fn put_item(out: &mut BytesMut, resource: &Resource, stored: &Stored) {
    if resource.is_custom() {
        out.put_slice(&object_bytes(resource, stored));
        return;
    }
    out.put_u8(b'{');
    if is_shown_as_stored(resource, stored) {
        out.put_slice(stored.encoded.rest());
    } else {
        out.put_slice(Encoded::new(&present(resource, &stored.value)).rest());
    }
}

pub(super) fn is_shown_as_stored(resource: &Resource, stored: &Stored) -> bool {
    let text = |path: &[&str]| object::text(&stored.value, path);
    match resource.view {
        View::Stored => !(resource.is("", "services") && text(&["spec", "type"]) == Some("ExternalName")),
        View::Renamed => text(&["apiVersion"]).is_some_and(|named| named == resource.api_version()),
        View::Events => false,
    }
}

fn shown(resource: &Resource, stored: &Stored) -> Value {
    present(resource, &stored.value)
}

fn metadata_only(value: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": value.get("metadata").cloned().unwrap_or_default(),
    })
}

fn list_metadata(page: &Page, selected: bool) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = next.encode().into();
        if !selected {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    metadata
}

fn concatenate(
    kind: &str,
    api_version: &str,
    metadata: &Value,
    items: &[Arc<Stored>],
    put: impl Fn(&mut BytesMut, &Stored),
) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(
        format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
            .as_bytes(),
    );
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        put(&mut out, item);
    }
    out.put_slice(b"]}");
    out.freeze()
}

fn table(resource: &Resource, metadata: Value, rows: Vec<Value>, columns: bool) -> Value {
    let columns = if columns { columns_of(resource) } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn row(resource: &Resource, stored: &Stored, now: Timestamp, with: RowObject) -> Value {
    let value = shown(resource, stored);
    let mut row = json!({"cells": cells_of(resource, &value, now)});
    let conditions = print::conditions(&resource.group, &resource.kind, &value);
    if !conditions.is_empty() {
        row["conditions"] = conditions.into();
    }
    match with {
        RowObject::None => {}
        RowObject::Metadata => row["object"] = metadata_only(&value),
        RowObject::Whole => row["object"] = value,
    }
    row
}

fn columns_of(resource: &Resource) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace."});
    let custom = resource.custom_version().filter(|version| !version.columns.is_empty());
    let Some(version) = custom else {
        let columns = match resource.is_custom() {
            true => print::NAME_AND_AGE,
            false => print::columns(&resource.group, &resource.kind),
        };
        return columns.iter().map(print::Column::definition).collect();
    };
    let own = version.columns.iter().map(|column| {
        json!({"name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority})
    });
    std::iter::once(name).chain(own).collect()
}

fn cells_of(resource: &Resource, value: &Value, now: Timestamp) -> Vec<Value> {
    let Some(version) = resource.custom_version() else {
        return print::cells(&resource.group, &resource.kind, value, now);
    };
    let own =
        version.columns.iter().map(|column| print::custom(&column.kind, &column.json_path.find(value), now));
    let mut cells: Vec<Value> = std::iter::once(object::name(value).into()).chain(own).collect();
    if version.columns.is_empty() {
        let created: Vec<&Value> = object::meta(value, "creationTimestamp").into_iter().collect();
        cells.push(print::custom("date", &created, now));
    }
    cells
}

fn encode(value: &Value) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value encodes").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &str) -> Result<Presentation, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        Presentation::negotiate(&headers, &Query::default()).map_err(|status| status.code)
    }

    #[test]
    fn clients_get_the_first_form_they_ask_for_that_exists() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let cases = [
            (table, Ok(Presentation::Table(RowObject::Metadata))),
            (metadata, Ok(Presentation::Metadata)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(Presentation::Object)),
            ("application/vnd.kubernetes.protobuf", Ok(Presentation::Object)),
            ("*/*", Ok(Presentation::Object)),
            ("text/html", Err(406)),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiated(accept), expected, "{accept}");
        }
    }
}
