//! CustomResourceDefinitions change what the server serves, so writing one has consequences.
//!
//! A definition is served the moment it is stored, if nobody else in its group has one of its names. Deleting one deletes its instances first: a finalizer holds it until
//! the last of them is gone.

use std::sync::Arc;

use serde_json::{Value, json};
use tombolo_runtime::stamp;

use super::delete::{DeleteOptions, delete_in};
use super::{Call, names, update};
use crate::core::{ClusterWriter, DEFINITIONS};
use crate::invalid::FieldError;
use crate::object;
use crate::rules;
use crate::schema;
use crate::status::Status;
use crate::store::{Key, Stored};

const CLEAN_UP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) fn is_definition(call: &Call<'_>) -> bool {
    &*call.resource.collection == DEFINITIONS
}

/// After a definition was stored: serve what it says now, and let those have names that it gave up.
pub(super) fn after_change(call: &Call<'_>, writer: &mut ClusterWriter<'_>) {
    if is_definition(call) {
        accept_others(call, writer);
        call.core.refresh_registry();
    }
}

/// Definitions that wait for a name look again whether it is free.
fn accept_others(call: &Call<'_>, writer: &mut ClusterWriter<'_>) {
    for waiting in call.core.store.list(DEFINITIONS, None).1 {
        let refused =
            condition(&waiting.value, "NamesAccepted").is_some_and(|found| found["status"] == "False");
        if !refused || object::is_terminating(&waiting.value) {
            continue;
        }
        let mut value = waiting.value.clone();
        establish(call, &mut value);
        if value != waiting.value {
            writer.put(&call.resource.collection, Key::of(&value), value);
        }
    }
}

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object::at(definition, &["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind)
}

fn set_condition(
    definition: &mut Value,
    now: &str,
    kind: &str,
    status: bool,
    (reason, message): (&str, &str),
) {
    let status = if status { "True" } else { "False" };
    let before = condition(definition, kind);
    let since =
        before.filter(|before| before["status"] == status).and_then(|b| b["lastTransitionTime"].as_str());
    let next = json!({"type": kind, "status": status, "lastTransitionTime": since.unwrap_or(now), "reason": reason,
        "message": message});
    let conditions = object::section(definition, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(place) => *place = next,
        None => conditions.push(next),
    }
}

/// The status a server gives a definition: it is served once its names have been accepted, and then goes on to be.
pub(super) fn establish(call: &Call<'_>, definition: &mut Value) {
    let now = stamp(call.core.now());
    let others = call.core.store.list(DEFINITIONS, None).1;
    let others = others.iter().map(|stored| &stored.value);
    let others = others.filter(|other| object::name(other) != object::name(definition));
    let verdict = names::accept(definition, others);
    object::section(definition, "status").insert("acceptedNames".into(), verdict.accepted);
    let accepted = verdict.conflict.is_none();
    let conflict = verdict.conflict.as_ref().map(|(reason, message)| (*reason, message.as_str()));
    let found = conflict.unwrap_or(("NoConflicts", "no conflicts found"));
    set_condition(definition, &now, "NamesAccepted", accepted, found);
    if !is_established(definition) {
        let why = match accepted {
            true => ("InitialNamesAccepted", "the initial names have been accepted"),
            false => ("NotAccepted", "not all names are accepted"),
        };
        set_condition(definition, &now, "Established", accepted, why);
    }
    let versions =
        object::at(definition, &["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let stored: Vec<Value> = versions
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    let status = object::section(definition, "status");
    let mut versions = status.get("storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    for version in stored {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    status.insert("storedVersions".into(), versions.into());
}

/// What is wrong with a definition. What it is called stays as it is; what its objects are, once there may be some.
pub(super) fn errors(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = schema::Definition::parse(new).err().unwrap_or_default();
    if let Some(old) = old {
        let objects: &[&str] = if is_established(old) { &["spec.scope", "spec.names.kind"] } else { &[] };
        let fixed = objects.iter().chain(&["spec.group", "spec.names.plural"]);
        errors.extend(fixed.filter_map(|path| rules::unchanged(new, old, path)));
        errors.extend(lost_versions(new));
    }
    errors
}

fn is_established(definition: &Value) -> bool {
    condition(definition, "Established").is_some_and(|found| found["status"] == "True")
}

/// A version in which objects may still be stored cannot be taken away.
fn lost_versions(definition: &Value) -> Vec<FieldError> {
    let list =
        |path: &[&str]| object::at(definition, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let kept = list(&["spec", "versions"]);
    let stored = list(&["status", "storedVersions"]).into_iter().enumerate();
    let lost = stored.filter(|(_, version)| !kept.iter().any(|kept| kept["name"] == *version));
    lost.map(|(place, version)| {
        let name = version.as_str().unwrap_or_default().to_owned();
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        FieldError::invalid(format!("status.storedVersions[{place}]"), version, detail)
    })
    .collect()
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

/// The first step of the deletion of a definition: it waits for its instances, whatever is asked about dependents.
pub(super) fn begin_deletion(call: &Call<'_>, definition: &mut Value) {
    let now = stamp(call.core.now());
    let mut finalizers: Vec<Value> = object::finalizers(definition).map(Value::from).collect();
    if !finalizers.iter().any(|name| name == CLEAN_UP) {
        finalizers.push(CLEAN_UP.into());
    }
    let metadata = object::metadata(definition);
    metadata.insert("deletionTimestamp".into(), now.as_str().into());
    metadata.insert("finalizers".into(), finalizers.into());
    let conditions = object::section(definition, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.push(json!({
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }));
    }
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
        accept_others(call, writer);
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
