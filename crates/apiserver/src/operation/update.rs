//! Replacing an object: the common end of PUT and of every patch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::admission::{self, Ownership};
use super::{Call, Outcome, Part, create, definition};
use crate::core::ClusterWriter;
use crate::invalid::FieldError;
use crate::object;
use crate::registry::Generation;
use crate::status::Status;
use crate::store::Stored;

/// Metadata only the server writes.
const SERVER_OWNED: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// Replaces the object `name` by `value`, which has been decoded but not checked.
pub(crate) fn update(call: &Call<'_>, name: &str, mut value: Value) -> Result<Outcome, Status> {
    admission::identify(call, &mut value, Some(name))?;
    admission::decode(call, &mut value)?;
    let mut writer = call.core.store.write();
    let Some(old) = writer.get(&call.resource.collection, &call.key(name)) else {
        return create_instead(call, &mut writer, name, value);
    };
    replace(call, &mut writer, &old, value, Ownership::Update)
}

fn create_instead(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    name: &str,
    mut value: Value,
) -> Result<Outcome, Status> {
    if !call.resource.traits.upsert {
        return Err(call.not_found(name));
    }
    if !object::uid(&value).is_empty() {
        return Err(other_uid(call, name, object::uid(&value), ""));
    }
    // The version is that of an object that is gone, whichever that was. Only a dry run shows it again.
    let version = object::metadata(&mut value).remove("resourceVersion");
    let outcome = create::create_in(call, writer, value)?;
    let Some(version) = version.filter(|_| call.options.dry_run) else { return Ok(outcome) };
    let mut shown = outcome.stored().value.clone();
    object::metadata(&mut shown).insert("resourceVersion".into(), version);
    Ok(Outcome::Created(call.pretend(shown)))
}

/// What is said to someone who writes an object with another uid than it has, or than none.
pub(super) fn other_uid(call: &Call<'_>, name: &str, asked: &str, had: &str) -> Status {
    let (group, plural) = (call.resource.group.as_str(), call.resource.plural.as_str());
    let collection = match (group, plural) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io", _) => format!("{group}/{plural}"),
        _ if call.resource.is_custom() => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    };
    let key = call.key(name);
    let place = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{collection}/{place}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {had}"
    );
    Status::conflict(call.resource.subject(name), &why)
}

/// Puts `value` in the place of `old`, if all rules allow it. Nothing is written when nothing would change.
pub(super) fn replace(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    old: &Arc<Stored>,
    mut value: Value,
    ownership: Ownership,
) -> Result<Outcome, Status> {
    check_preconditions(call, &old.value, &value)?;
    keep_server_fields(&old.value, &mut value);
    keep_other_parts(call, &old.value, &mut value);
    // What was kept may have been stored in another version.
    admission::to_stored(call.resource, &mut value);
    admission::default(call, &mut value);
    admission::record_owners(call, ownership, Some(&old.value), &mut value);
    // What goes with its last finalizer is never stored, and shown to the writer as it was sent.
    if !is_finished(call, &value) {
        admission::settle(call, &mut value);
    }
    admission::prepare_update(call, &old.value, &mut value)?;
    set_generation(call, &old.value, &mut value);
    admission::validate(call, &value, Some(&old.value))?;
    admission::allocate(call, writer, Some(&old.value), &mut value)?;
    let version = object::meta(&old.value, "resourceVersion").cloned().unwrap_or_default();
    object::metadata(&mut value).insert("resourceVersion".into(), version);
    if value == old.value || differs_in_times_only(&value, &old.value) {
        return Ok(Outcome::Updated(old.clone()));
    }
    if call.options.dry_run {
        return Ok(Outcome::Updated(call.pretend(value)));
    }
    let stored = store(call, writer, &old.value, value);
    definition::after_change(call, writer);
    Ok(Outcome::Updated(stored))
}

/// Whether all that changed is when somebody last wrote what they own: then nothing was written.
fn differs_in_times_only(new: &Value, old: &Value) -> bool {
    let managers = |value| object::meta(value, "managedFields").and_then(Value::as_array);
    let (Some(now), Some(before)) = (managers(new), managers(old)) else { return false };
    now.len() == before.len()
        && now.iter().zip(before).all(|(now, before)| object::is_same_but(now, before, "time"))
        && object::is_same_but(&new["metadata"], &old["metadata"], "managedFields")
        && object::is_same_but(new, old, "metadata")
}

/// Stores a checked object in the place of `old`, or removes that when its last finalizer has just gone: then watchers
/// see it as it was, and only the writer what became of it.
pub(super) fn store(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    old: &Value,
    value: Value,
) -> Arc<Stored> {
    let key = crate::store::Key::of(&value);
    if is_finished(call, &value) {
        super::delete::remove(call, writer, &key, old.clone());
        return call.pretend(value);
    }
    writer.put(&call.resource.collection, key, value)
}

fn is_finished(call: &Call<'_>, value: &Value) -> bool {
    let grace = object::meta(value, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    object::is_terminating(value)
        && grace == 0
        && object::finalizers(value).next().is_none()
        && !(call.resource.is("", "namespaces") && has_namespace_finalizers(value))
}

pub(super) fn has_namespace_finalizers(value: &Value) -> bool {
    object::at(value, &["spec", "finalizers"]).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

fn check_preconditions(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    let subject = call.resource.subject(object::name(old));
    let (had, asked) = (object::uid(old), object::uid(new));
    if !asked.is_empty() && asked != had {
        return Err(other_uid(call, subject.name, asked, had));
    }
    let version = object::meta_text(new, "resourceVersion");
    if version.is_empty() && call.resource.traits.needs_version {
        let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        // The real server names the resource here, where it names the kind everywhere else.
        return Err(Status::invalid(&call.resource.group, &call.resource.plural, subject.name, &[error]));
    }
    if !version.is_empty() && version != object::meta_text(old, "resourceVersion") {
        if version.parse::<u64>().is_err() {
            let error =
                FieldError::invalid("metadata.resourceVersion", version, "must be an unsigned integer");
            return Err(Status::invalid(&call.resource.group, &call.resource.kind, subject.name, &[error]));
        }
        return Err(Status::stale(subject));
    }
    Ok(())
}

fn keep_server_fields(old: &Value, new: &mut Value) {
    let before = object::metadata_of(old);
    let metadata = object::metadata(new);
    for field in SERVER_OWNED.into_iter().chain(["name", "namespace", "generateName"]) {
        if field != "generateName" || !metadata.contains_key(field) {
            object::carry(before, metadata, field);
        }
    }
}

/// A write to the object leaves its status alone, and one to the status everything else.
fn keep_other_parts(call: &Call<'_>, old: &Value, new: &mut Value) {
    if !call.resource.traits.status {
        return;
    }
    let (Some(before), Some(after)) = (old.as_object(), new.as_object_mut()) else { return };
    if call.part != Part::Status {
        return object::carry(before, after, "status");
    }
    keep_from_status(call, old, after);
    let status = after.remove("status");
    let metadata =
        if call.resource.is_custom() { custom_metadata(old, after) } else { after.remove("metadata") };
    *after = before.clone();
    put(after, "status", status);
    put(after, "metadata", metadata);
}

/// What a few kinds do not let anybody write through their status, beside all that is not status.
fn keep_from_status(call: &Call<'_>, old: &Value, new: &mut Map<String, Value>) {
    let field = match (call.resource.group.as_str(), call.resource.plural.as_str()) {
        // Kubelets once spoilt them.
        ("", "pods") => "ownerReferences",
        ("apps", "deployments") => "labels",
        _ => return,
    };
    if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
        object::carry(object::metadata_of(old), metadata, field);
    }
    if let (true, Some(Value::Object(status)), Some(class)) =
        (field == "ownerReferences", new.get_mut("status"), object::at(old, &["status", "qosClass"]))
    {
        status.entry("qosClass").or_insert_with(|| class.clone());
    }
}

/// For custom resources not even metadata is written through the status, but for the record of who wrote.
fn custom_metadata(old: &Value, new: &Map<String, Value>) -> Option<Value> {
    let mut metadata = object::metadata_of(old).clone();
    if let Some(managed) = new.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
        metadata.insert("managedFields".into(), managed.clone());
    }
    Some(metadata.into())
}

fn put(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}

fn set_generation(call: &Call<'_>, old: &Value, new: &mut Value) {
    let current = object::meta(old, "generation").and_then(Value::as_i64).unwrap_or(0);
    if current > 0 && has_moved(call, old, new) {
        object::metadata(new).insert("generation".into(), (current + 1).into());
    }
}

fn has_moved(call: &Call<'_>, old: &Value, new: &Value) -> bool {
    let differs = |field: &str| old.get(field) != new.get(field);
    let meta_differs = |field: &str| object::meta(old, field) != object::meta(new, field);
    match call.resource.traits.generation {
        Generation::None => false,
        Generation::Spec => differs("spec"),
        Generation::SpecOrAnnotations if call.part == Part::Status => differs("spec"),
        Generation::SpecOrAnnotations => differs("spec") || meta_differs("annotations"),
        Generation::ContentOrLabels => content_differs(old, new, false) || meta_differs("labels"),
        Generation::Content => content_differs(old, new, call.resource.traits.status),
    }
}

/// Whether anything but metadata changed; `status` aside where that is a subresource.
fn content_differs(old: &Value, new: &Value, ignore_status: bool) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
    let counts = |key: &&String| *key != "metadata" && !(ignore_status && *key == "status");
    old.keys().chain(new.keys()).filter(counts).any(|key| old.get(key) != new.get(key))
}
