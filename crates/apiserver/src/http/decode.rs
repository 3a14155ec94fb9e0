//! Request bodies: JSON, YAML or protobuf, into JSON values.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::json;
use crate::object;
use crate::operation::{Call, PatchKind};
use crate::status::Status;
use crate::types;

/// The most a request body may hold, as on a real API server.
pub(super) const MOST_BYTES: usize = 3 * 1024 * 1024;
/// The deepest nesting that is accepted.
const MOST_DEPTH: usize = 100;
/// As much of a body as a refusal shows.
const SHOWN_BYTES: usize = 30;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const BUILTIN_PATCHES: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";

/// The body of a create or update of an object of `kind`.
pub(super) fn object(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Value, Status> {
    noted(headers, body, kind).map(|(value, _)| value)
}

/// The body of a create or update of the call's kind; keys that came twice are noted for strict validation.
pub(super) fn of_call(headers: &HeaderMap, body: &Bytes, call: &mut Call<'_>) -> Result<Value, Status> {
    let (value, twice) = noted(headers, body, &call.resource.kind)?;
    call.options.duplicates = twice;
    Ok(value)
}

fn noted(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<(Value, Vec<String>), Status> {
    let plain = |value| (value, Vec::new());
    let read = match media_type(headers).as_str() {
        _ if body.starts_with(b"k8s\0") => return protobuf(body, kind).map(plain),
        PROTOBUF => return protobuf(body, kind).map(plain),
        "" | JSON => {
            json::read(body).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
        }
        YAML => yaml(body).map(plain).map_err(|error| format!("error converting YAML to JSON: {error}")),
        _ => return Err(Status::unsupported_media_type(ACCEPTED)),
    };
    let read = read.and_then(|(value, twice)| shallow(value).map(|value| (value, twice)));
    read.map_err(|why| unrecognized(kind, &why, body))
}

/// The body of a PATCH, with its kind.
pub(super) fn patch(
    headers: &HeaderMap,
    body: &Bytes,
    call: &mut Call<'_>,
    is_custom: bool,
) -> Result<(PatchKind, Value), Status> {
    let kind = match media_type(headers).as_str() {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" if !is_custom => PatchKind::Strategic,
        "application/apply-patch+yaml" => PatchKind::Apply,
        // Clients in Python name no type at all: a list is a JSON patch, a map a strategic one.
        "" | JSON if body.first() == Some(&b'[') => PatchKind::Json,
        "" if !is_custom => PatchKind::Strategic,
        _ => return Err(Status::unsupported_media_type(if is_custom { PATCHES } else { BUILTIN_PATCHES })),
    };
    // Most clients apply JSON; it is YAML, too, but much quicker to read as what it is.
    let (value, twice) = if kind == PatchKind::Apply && body.first() != Some(&b'{') {
        let value = yaml(body).map_err(|why| Status::bad_request(format!("error encoding patch: {why}")))?;
        (value, Vec::new())
    } else {
        json::read(body).map_err(|_| Status::bad_request("invalid JSON patch"))?
    };
    call.options.duplicates = twice;
    let value = shallow(value).map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
    Ok((kind, value))
}

fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn yaml(body: &Bytes) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    serde_saphyr::from_str(text).map_err(|error| format!("yaml: {error}"))
}

fn protobuf(body: &Bytes, kind: &str) -> Result<Value, Status> {
    types::decode_protobuf(body).map_err(|error| match error {
        types::ProtobufError::UnknownKind { .. } => Status::unsupported_media_type(JSON),
        broken => unrecognized(kind, &broken.to_string(), body),
    })
}

fn shallow(value: Value) -> Result<Value, String> {
    if object::is_too_deep(&value, MOST_DEPTH) { Err("exceeded max depth".to_owned()) } else { Ok(value) }
}

fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    let shown = summary(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// The beginning of a body: as text when it looks like an object, otherwise in hexadecimal.
fn summary(body: &[u8]) -> String {
    let start = &body[..body.len().min(SHOWN_BYTES)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN_BYTES { format!("{shown} ...") } else { shown }
}
