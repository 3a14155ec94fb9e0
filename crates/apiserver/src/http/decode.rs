//! Request bodies: JSON, YAML or protobuf, into JSON values.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object;
use crate::operation::PatchKind;
use crate::status::Status;
use crate::types;

/// The most a request body may hold, as on a real API server.
pub(super) const MOST_BYTES: usize = 3 * 1024 * 1024;
/// The deepest nesting that is accepted.
const MOST_DEPTH: usize = 100;

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const BUILTIN_PATCHES: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";

/// The body of a create, update or delete.
pub(super) fn object(headers: &HeaderMap, body: &Bytes) -> Result<Value, Status> {
    if body.starts_with(b"k8s\0") {
        return protobuf(body);
    }
    match media_type(headers).as_str() {
        "" | "application/json" => json(body),
        "application/yaml" => yaml(body),
        "application/vnd.kubernetes.protobuf" => protobuf(body),
        other => Err(Status::unsupported_media_type(other, ACCEPTED)),
    }
}

/// A body that may be missing, such as the options of a DELETE.
pub(super) fn optional(headers: &HeaderMap, body: &Bytes) -> Result<Value, Status> {
    if body.is_empty() { Ok(Value::Null) } else { object(headers, body) }
}

/// The body of a PATCH, with its kind.
pub(super) fn patch(
    headers: &HeaderMap,
    body: &Bytes,
    is_custom: bool,
) -> Result<(PatchKind, Value), Status> {
    match media_type(headers).as_str() {
        "application/json-patch+json" => Ok((PatchKind::Json, json(body)?)),
        "application/merge-patch+json" => Ok((PatchKind::Merge, json(body)?)),
        "application/strategic-merge-patch+json" if !is_custom => Ok((PatchKind::Strategic, json(body)?)),
        "application/apply-patch+yaml" => {
            // Most clients send JSON under this name; it is YAML, too, but much quicker to read as what it is.
            let value = if body.first() == Some(&b'{') { json(body) } else { yaml(body) };
            Ok((PatchKind::Apply, value?))
        }
        // Clients in Python name no type at all: a list is a JSON patch, a map a strategic one.
        "" | "application/json" if body.first() == Some(&b'[') => Ok((PatchKind::Json, json(body)?)),
        "" if !is_custom => Ok((PatchKind::Strategic, json(body)?)),
        other => {
            Err(Status::unsupported_media_type(other, if is_custom { PATCHES } else { BUILTIN_PATCHES }))
        }
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn json(body: &Bytes) -> Result<Value, Status> {
    checked(serde_json::from_slice::<Value>(body).map_err(|error| error.to_string()))
}

fn yaml(body: &Bytes) -> Result<Value, Status> {
    let text = std::str::from_utf8(body).map_err(|_| undecodable("the body is not UTF-8"))?;
    checked(from_yaml::<Value>(text))
}

fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn protobuf(body: &Bytes) -> Result<Value, Status> {
    types::decode_protobuf(body).map_err(|error| {
        let mut status =
            Status::unsupported_media_type("application/vnd.kubernetes.protobuf", "application/json");
        status.message = format!("{}: {error}", status.message);
        status
    })
}

fn checked(decoded: Result<Value, String>) -> Result<Value, Status> {
    let value = decoded.map_err(|why| undecodable(&why))?;
    if object::is_too_deep(&value, MOST_DEPTH) {
        return Err(undecodable("the object is nested too deeply"));
    }
    Ok(value)
}

fn undecodable(why: &str) -> Status {
    Status::bad_request(format!("the object provided is unrecognized (must be of type an object): {why}"))
}
