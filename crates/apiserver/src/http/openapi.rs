//! OpenAPI v3, as much of it as `kubectl apply`, `edit`, `create` and `explain` look at.
//!
//! The first three ask one question: does PATCH of this kind take `fieldValidation`? If so, the server validates and the
//! client need not. `explain` wants to know the fields of a kind and their types. No strategic merge patch is announced, because that would oblige us to publish every schema with its merge
//! keys; clients then use their built-in tables.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue};
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::discovery::fingerprint;
use super::{Body, json_bytes};
use crate::object;
use crate::registry::{GroupVersion, Registry, Resource, Source};
use crate::types;

/// `GET /openapi/v2`: a document without schemas. Clients of before 1.27 insist on getting one and validate nothing then;
/// later ones ask for it now and then and are content.
pub(super) fn v2() -> Response<Body> {
    // Fields 1 (swagger), 2 (info: title, version) and 8 (no paths) of the protobuf form, the only one clients ask for.
    const DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x0d\x0a\x07tombolo\x12\x02v1\x42\x00";
    let mut response = Response::new(Body::whole(DOCUMENT));
    let media_type = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// `GET /openapi/v3`: one entry per group version.
pub(super) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions(registry) {
        let path = document_path(group, &version.version);
        let hash = Document::of(group, version).hash;
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `GET /openapi/v3/<path>`.
pub(super) fn document(
    registry: &Registry,
    path: &str,
    hash: &str,
    now: Timestamp,
) -> Option<Response<Body>> {
    let (group, version) =
        group_versions(registry).find(|(group, version)| document_path(group, &version.version) == path)?;
    let Document { bytes, hash: current } = Document::of(group, version);
    let mut response = json_bytes(StatusCode::OK, bytes);
    let headers = response.headers_mut();
    if hash == current {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.extend(next_year(now).map(|date| (EXPIRES, date)));
    } else {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    headers.insert(ETAG, HeaderValue::from_str(&format!("\"{current}\"")).expect("hexadecimal digits"));
    Some(response)
}

/// What is said about one group version.
#[derive(Clone)]
struct Document {
    bytes: Bytes,
    hash: String,
}

impl Document {
    /// Built-in kinds never change and are many, so what is said about them is made once.
    fn of(group: &str, version: &GroupVersion) -> Self {
        static BUILT_IN: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
            let registry = Registry::new([]);
            let made = |(group, version): (&str, &GroupVersion)| {
                (document_path(group, &version.version), Document::make(group, version))
            };
            group_versions(&registry).map(made).collect()
        });
        let known = BUILT_IN.get(&document_path(group, &version.version));
        let unmixed = version.resources.values().all(|resource| !resource.is_custom());
        known.filter(|_| unmixed).cloned().unwrap_or_else(|| Self::make(group, version))
    }

    fn make(group: &str, version: &GroupVersion) -> Self {
        let bytes = encode(&describe(group, version));
        Self { hash: fingerprint(&bytes), bytes: bytes.into() }
    }
}

fn next_year(now: Timestamp) -> Option<HeaderValue> {
    let then = now.checked_add(SignedDuration::from_hours(365 * 24)).ok()?;
    HeaderValue::from_str(&then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}

fn group_versions(registry: &Registry) -> impl Iterator<Item = (&str, &GroupVersion)> {
    registry.groups().flat_map(|(group, versions)| versions.iter().map(move |version| (group, version)))
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn describe(group: &str, version: &GroupVersion) -> Value {
    let prefix = document_path(group, &version.version);
    let stored: Vec<&Arc<Resource>> =
        version.resources.values().filter(|resource| !resource.traits.review).collect();
    let paths: Map<String, Value> = stored.iter().map(|resource| path_item(&prefix, resource)).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Tombolo embedded API server", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas(&stored)},
    })
}

/// What kinds are made of.
fn schemas(resources: &[&Arc<Resource>]) -> Map<String, Value> {
    let built_in = resources.iter().filter_map(|resource| match resource.source {
        Source::Builtin(Some(ty)) => Some((ty, kind(resource))),
        _ => None,
    });
    let mut out = types::components(built_in);
    for resource in resources {
        if let Some(version) = resource.custom_version() {
            let schema = custom(resource, &version.raw_schema, &mut out);
            let group: Vec<&str> = resource.group.rsplit('.').collect();
            out.insert(format!("{}.{}.{}", group.join("."), resource.version, resource.kind), schema);
        }
    }
    out
}

/// The schema of a definition, with the fields that every object has.
fn custom(resource: &Resource, written: &Value, out: &mut Map<String, Value>) -> Value {
    let mut schema = if written.is_object() { written.clone() } else { json!({"type": "object"}) };
    let properties = object::section(&mut schema, "properties");
    for field in ["apiVersion", "kind"] {
        properties.insert(field.to_owned(), json!({"type": "string"}));
    }
    properties.extend(types::object_meta(out).map(|metadata| ("metadata".to_owned(), metadata)));
    schema["x-kubernetes-group-version-kind"] = json!([kind(resource)]);
    schema
}

fn kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn path_item(prefix: &str, resource: &Resource) -> (String, Value) {
    let place = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    let path = format!("/{prefix}/{place}{}/{{name}}", resource.plural);
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .into_iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}))
        .collect();
    let content = json!({
        "application/json-patch+json": {}, "application/merge-patch+json": {}, "application/apply-patch+yaml": {},
    });
    let item = json!({
        "patch": {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind(resource),
            "parameters": parameters,
            "requestBody": {"content": content},
            "responses": {"200": {"description": "OK"}},
        },
    });
    (path, item)
}

fn encode(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value encodes")
}
