//! Patching: read, change, and then the same path as a PUT.

use std::sync::Arc;

use serde_json::Value;
use tombolo_runtime::stamp;

use super::admission::{self, Ownership};
use super::{Call, Outcome, Part, create, update};
use crate::core::ClusterWriter;
use crate::invalid::FieldError;
use crate::object;
use crate::patch::apply::{self, Conflict, Kind, Misshapen};
use crate::patch::{json, merge, strategic};
use crate::registry::Resource;
use crate::status::Status;
use crate::store::Stored;

/// The four formats of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Applies `patch` to the object `name`.
pub(crate) fn patch(call: &Call<'_>, name: &str, kind: PatchKind, patch: Value) -> Result<Outcome, Status> {
    if kind == PatchKind::Apply {
        return server_side_apply(call, name, patch);
    }
    let mut writer = call.core.store.write();
    let old = writer.get(&call.resource.collection, &call.key(name)).ok_or_else(|| call.not_found(name))?;
    let mut value = patched(call, kind, admission::from_stored(call.resource, old.value.clone()), &patch)?;
    admission::identify(call, &mut value, Some(name))?;
    admission::decode(call, &mut value)?;
    update::replace(call, &mut writer, &old, value, Ownership::Update)
}

/// `value` with the patch applied; the formats that need no other knowledge of the object.
pub(crate) fn patched(
    call: &Call<'_>,
    kind: PatchKind,
    mut value: Value,
    patch: &Value,
) -> Result<Value, Status> {
    match kind {
        PatchKind::Json => json::apply(&value, patch).map_err(|error| refused_json_patch(&error)),
        PatchKind::Merge if !patch.is_object() => {
            Err(Status::bad_request("error decoding patch: json: cannot unmarshal the patch into a map"))
        }
        PatchKind::Merge => {
            merge::apply(&mut value, patch);
            Ok(value)
        }
        PatchKind::Strategic => {
            strategic::apply(&value, patch, &call.resource.shape).map_err(|error| match error {
                strategic::Error::Malformed(why) => Status::bad_request(why),
                strategic::Error::Unusable(why) => Status::unexplained(why),
            })
        }
        PatchKind::Apply => Err(Status::method_not_allowed()),
    }
}

fn refused_json_patch(error: &json::Error) -> Status {
    match error {
        json::Error::Decode(_) => Status::bad_request(error.to_string()),
        json::Error::TooMany(_) => {
            Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: {error}"))
        }
        json::Error::Apply(why) => {
            tracing::debug!(why, "a JSON patch was refused");
            Status::unprocessable(error.to_string())
        }
    }
}

fn server_side_apply(call: &Call<'_>, name: &str, mut applied: Value) -> Result<Outcome, Status> {
    check_applied(call, &applied)?;
    admission::identify(call, &mut applied, Some(name))?;
    admission::to_stored(call.resource, &mut applied);
    object::drop_nulls(&mut applied);
    let mut writer = call.core.store.write();
    let old = writer.get(&call.resource.collection, &call.key(name));
    // A part of what is not there can only be applied where a PUT would do.
    if old.is_none() && call.part != Part::Whole && !call.resource.traits.upsert {
        return Err(call.not_found(name));
    }
    apply_in(call, &mut writer, old.as_ref(), &applied)
}

fn apply_in(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    old: Option<&Arc<Stored>>,
    applied: &Value,
) -> Result<Outcome, Status> {
    let kind = Kind { shape: &call.resource.shape, empty: call.resource.empty.as_ref() };
    apply::check(applied, kind.shape).map_err(|why| misshapen(call, applied, &why))?;
    let now = stamp(call.core.now());
    let api_version = call.resource.api_version();
    let author = admission::author(call, &api_version, &now);
    let live = old.map(|stored| &stored.value);
    let plan = apply::plan(live, applied, kind, &author, call.options.force)
        .map_err(|conflicts| refusal(&conflicts))?;
    // Only the merged object is decoded: what decoding fills in was not applied by anyone.
    let mut merged = admission::from_stored(call.resource, plan.object);
    admission::decode_merged(call, &mut merged)?;
    let ownership = Ownership::Apply(plan.pending);
    match old {
        Some(old) => update::replace(call, writer, old, merged, ownership),
        None => create::create_owned(call, writer, merged, ownership),
    }
}

/// The real server does not say which object this is about.
fn refusal(conflicts: &[Conflict]) -> Status {
    Status::new(409, "Conflict", apply::message(conflicts)).with_causes(apply::causes(conflicts))
}

/// Names the object as it was sent: without a namespace when that was left to the path.
fn misshapen(call: &Call<'_>, applied: &Value, why: &Misshapen) -> Status {
    let Resource { group, version, kind, .. } = &**call.resource;
    let (namespace, name) = (object::namespace(applied), object::name(applied));
    Status::unexplained(format!(
        "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {why}"
    ))
}

fn check_applied(call: &Call<'_>, applied: &Value) -> Result<(), Status> {
    if call.options.manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    if object::meta(applied, "managedFields").is_some_and(|managed| !managed.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}
