//! Subresources that are not simply a part of the object: scale, binding, eviction, finalize.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admission::Ownership;
use super::delete::{DeleteOptions, Deleted, delete};
use super::{Call, Outcome, get, update};
use crate::object;
use crate::rules;
use crate::schema::JsonPath;
use crate::status::{Status, Subject};
use crate::store::Stored;

/// The `autoscaling/v1` Scale of an object.
pub(crate) fn read_scale(call: &Call<'_>, name: &str) -> Result<Value, Status> {
    Ok(scale_of(call, &get(call, name)?.value))
}

fn scale_of(call: &Call<'_>, value: &Value) -> Value {
    let number = |path: &[&str]| object::at(value, path).and_then(Value::as_i64);
    let (wanted, running, selector) = match call.resource.scale_paths() {
        Some(paths) => {
            let find = |path: &JsonPath| path.find(value).into_iter().next().cloned();
            let selector = paths.label_selector.as_ref().and_then(find);
            (
                find(&paths.spec_replicas).and_then(|found| found.as_i64()),
                find(&paths.status_replicas).and_then(|found| found.as_i64()),
                selector.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default(),
            )
        }
        None => (
            number(&["spec", "replicas"]),
            number(&["status", "replicas"]),
            selector_text(&value["spec"]["selector"]),
        ),
    };
    let mut status = json!({"replicas": running.unwrap_or(0)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let metadata = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> = metadata
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object::meta(value, field)?.clone())))
        .collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": wanted.unwrap_or(0)},
        "status": status,
    })
}

/// A label selector in its textual form.
fn selector_text(selector: &Value) -> String {
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object();
    let pairs =
        labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    pairs.collect::<Vec<_>>().join(",")
}

/// Changes how many replicas are wanted; `change` turns the current Scale into the new one.
pub(crate) fn write_scale(
    call: &Call<'_>,
    name: &str,
    change: impl FnOnce(Value) -> Result<Value, Status>,
) -> Result<Value, Status> {
    let mut writer = call.core.store.write();
    let old = writer.get(&call.resource.collection, &call.key(name)).ok_or_else(|| call.not_found(name))?;
    let scale = change(scale_of(call, &old.value))?;
    let (asked, had) = (object::uid(&scale), object::uid(&old.value));
    if !asked.is_empty() && asked != had {
        let plural = format!("{}/scale", call.resource.plural);
        let subject = Subject { plural: &plural, ..call.resource.subject(name) };
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {had}");
        return Err(Status::conflict(subject, &why));
    }
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 || i32::try_from(replicas).is_err() {
        let detail = "must be greater than or equal to 0";
        let error = crate::invalid::FieldError::invalid("spec.replicas", replicas, detail);
        return Err(Status::invalid("autoscaling", "Scale", name, &[error]));
    }
    let mut value = old.value.clone();
    let path = call.resource.scale_paths().and_then(|paths| paths.spec_replicas.fields());
    *place(&mut value, &path.unwrap_or_else(|| vec!["spec", "replicas"])) = replicas.into();
    if let Some(version) = object::meta(&scale, "resourceVersion") {
        object::metadata(&mut value).insert("resourceVersion".into(), version.clone());
    }
    let outcome = update::replace(call, &mut writer, &old, value, Ownership::Update)?;
    Ok(scale_of(call, &outcome.stored().value))
}

/// The value at a path of fields, made where it is missing.
fn place<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, field| object::fields(value).entry(*field).or_insert(Value::Null))
}

/// Puts a pod on a node.
pub(crate) fn bind(call: &Call<'_>, name: &str, binding: &Value) -> Result<(), Status> {
    let node = object::text(binding, &["target", "name"]).unwrap_or_default();
    if node.is_empty() {
        let error = crate::invalid::FieldError::required("target.name", "");
        return Err(Status::invalid("", "Binding", name, &[error]));
    }
    let mut writer = call.core.store.write();
    let old = writer.get(&call.resource.collection, &call.key(name)).ok_or_else(|| call.not_found(name))?;
    let (asked, had) = (object::uid(binding), object::uid(&old.value));
    if !asked.is_empty() && asked != had {
        return Err(update::other_uid(call, name, asked, had));
    }
    let mut value = old.value.clone();
    rules::pod::bind(&mut value, node, call.core.now())
        .map_err(|why| Status::conflict(call.resource.subject(name), &why))?;
    // Nobody owns where a pod runs: the real server writes it past all that knows of owners.
    if !call.options.dry_run {
        writer.put(&call.resource.collection, call.key(name), value);
    }
    Ok(())
}

/// Deletes a pod on behalf of `kubectl drain`; disruption budgets are not evaluated.
pub(crate) fn evict(call: &Call<'_>, name: &str, eviction: &Value) -> Result<Deleted, Status> {
    if object::name(eviction) != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let namespace = object::namespace(eviction);
    if !namespace.is_empty() && namespace != call.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let mut options = DeleteOptions::parse(eviction.get("deleteOptions").cloned().unwrap_or_default())?;
    options.dry_run |= call.options.dry_run;
    delete(call, name, &options)
}

/// Replaces a namespace's own finalizers; the last one gone, the namespace goes.
pub(crate) fn finalize(call: &Call<'_>, name: &str, value: &Value) -> Result<Arc<Stored>, Status> {
    let mut writer = call.core.store.write();
    let old = writer.get(&call.resource.collection, &call.key(name)).ok_or_else(|| call.not_found(name))?;
    let mut next = old.value.clone();
    let finalizers = object::at(value, &["spec", "finalizers"]).cloned().unwrap_or_else(|| json!([]));
    let spec = object::section(&mut next, "spec");
    if finalizers.as_array().is_none_or(Vec::is_empty) {
        spec.remove("finalizers");
    } else {
        spec.insert("finalizers".into(), finalizers);
    }
    let version = object::meta_text(value, "resourceVersion");
    if !version.is_empty() && version != object::meta_text(&old.value, "resourceVersion") {
        return Err(Status::stale(call.resource.subject(name)));
    }
    if next == old.value {
        return Ok(old);
    }
    Ok(Outcome::Updated(update::store(call, &mut writer, &old.value, next)).stored().clone())
}
