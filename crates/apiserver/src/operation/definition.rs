//! CustomResourceDefinitions change what the server serves, so writing one has consequences.
//!
//! A definition is served the moment it is stored. Deleting one deletes its instances first: a finalizer holds it until
//! the last of them is gone.

use std::sync::Arc;

use serde_json::{Value, json};
use tombolo_runtime::stamp;

use super::delete::{DeleteOptions, delete_in};
use super::{Call, update};
use crate::core::{ClusterWriter, DEFINITIONS};
use crate::invalid::FieldError;
use crate::object;
use crate::rules;
use crate::schema;
use crate::status::Status;
use crate::store::{Key, Stored};

const CLEAN_UP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn is_definition(call: &Call<'_>) -> bool {
    &*call.resource.collection == DEFINITIONS
}

/// After a definition was stored: serve what it says now.
pub(super) fn after_change(call: &Call<'_>) {
    if is_definition(call) {
        call.core.refresh_registry();
    }
}

/// The status a server gives a definition it serves.
pub(super) fn establish(call: &Call<'_>, definition: &mut Value) {
    let now = stamp(call.core.now());
    let spec = definition.get("spec").cloned().unwrap_or_default();
    let stored = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let stored: Vec<Value> = stored.filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    let status = object::section(definition, "status");
    if status.get("conditions").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
        let conditions = vec![
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ];
        status.insert("conditions".into(), conditions.into());
    }
    status.insert("acceptedNames".into(), spec["names"].clone());
    let mut versions = status.get("storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    for version in stored {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    status.insert("storedVersions".into(), versions.into());
}

/// What is wrong with a definition; what it is called stays as it is, because objects are stored under it.
pub(super) fn errors(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let fixed = ["spec.group", "spec.names.plural", "spec.names.kind", "spec.scope"];
    let mut errors = schema::Definition::parse(new).err().unwrap_or_default();
    if let Some(old) = old {
        errors.extend(fixed.iter().filter_map(|path| rules::unchanged(new, old, path)));
    }
    errors
}

/// A kind whose definition is on its way out takes no new objects.
pub(super) fn may_create(call: &Call<'_>, writer: &ClusterWriter<'_>) -> Result<(), Status> {
    let name = || format!("{}.{}", call.resource.plural, call.resource.group);
    let definition =
        if call.resource.is_custom() { writer.get(DEFINITIONS, &Key::new("", name())) } else { None };
    if !definition.is_some_and(|found| object::is_terminating(&found.value)) {
        return Ok(());
    }
    let mut refusal = Status::method_not_allowed();
    refusal.message = "create not allowed while custom resource definition is terminating".to_owned();
    Err(refusal)
}

/// Before a definition is deleted: make it wait for its instances.
pub(super) fn before_delete(call: &Call<'_>, definition: &mut Value) {
    if !is_definition(call) || object::is_terminating(definition) {
        return;
    }
    let mut finalizers: Vec<Value> = object::finalizers(definition).map(Value::from).collect();
    finalizers.push(CLEAN_UP.into());
    object::metadata(definition).insert("finalizers".into(), finalizers.into());
}

/// After a definition was marked for deletion: delete its instances.
pub(super) fn after_mark(call: &Call<'_>, writer: &mut ClusterWriter<'_>, definition: &Arc<Stored>) {
    if !is_definition(call) {
        return;
    }
    let spec = &definition.value["spec"];
    let (Some(group), Some(plural)) = (spec["group"].as_str(), object::text(spec, &["names", "plural"]))
    else {
        return;
    };
    if let Some(resource) = call.core.registry().preferred(group, plural) {
        for stored in call.core.store.list(&resource.collection, None).1 {
            let single = Call::new(call.core, resource, object::namespace(&stored.value));
            let name = object::name(&stored.value);
            if let Err(refused) = delete_in(&single, writer, name, &DeleteOptions::default()) {
                tracing::warn!(name, error = refused.message, "an instance outlives its definition");
            }
        }
    }
    finish_if_empty(call, writer, group, plural);
}

/// After any object was removed: perhaps it was the last of its kind, or a definition.
pub(super) fn after_removal(call: &Call<'_>, writer: &mut ClusterWriter<'_>) {
    if is_definition(call) {
        call.core.refresh_registry();
    } else if call.resource.is_custom() {
        finish_if_empty(call, writer, &call.resource.group, &call.resource.plural);
    }
}

fn finish_if_empty(call: &Call<'_>, writer: &mut ClusterWriter<'_>, group: &str, plural: &str) {
    let key = Key::new("", format!("{plural}.{group}"));
    let Some(definition) = writer.get(DEFINITIONS, &key) else { return };
    if !object::is_terminating(&definition.value) || call.core.store.len(&format!("{group}/{plural}")) > 0 {
        return;
    }
    let mut value = definition.value.clone();
    let left: Vec<Value> =
        object::finalizers(&value).filter(|name| *name != CLEAN_UP).map(Value::from).collect();
    object::metadata(&mut value).insert("finalizers".into(), left.into());
    let definitions = call.core.builtin("apiextensions.k8s.io", "customresourcedefinitions");
    update::store(&Call::new(call.core, &definitions, ""), writer, &definition.value, value);
}
