//! Deleting: at once, after finalizers, after a grace period.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tombolo_runtime::stamp;

use super::{Call, ListQuery, admission, definition, list};
use crate::core::ClusterWriter;
use crate::invalid::FieldError;
use crate::object;
use crate::rules::namespace;
use crate::status::{Status, Subject};
use crate::store::{Key, Stored};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The body of a DELETE.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    propagation: Option<Propagation>,
    grace_seconds: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What a DELETE left behind.
#[derive(Debug)]
pub(crate) enum Deleted {
    Gone(Arc<Stored>),
    /// The object stays until its finalizers or its grace period are over.
    Pending(Arc<Stored>),
}

impl DeleteOptions {
    /// Reads a decoded `DeleteOptions` object.
    pub(crate) fn parse(value: &Value) -> Result<Self, Status> {
        let refuse = |error| Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        let propagation = match value.get("propagationPolicy").filter(|policy| !policy.is_null()) {
            None if value.get("orphanDependents") == Some(&Value::Bool(true)) => Some(Propagation::Orphan),
            None => None,
            Some(policy) => match policy.as_str() {
                Some("Background") => Some(Propagation::Background),
                Some("Foreground") => Some(Propagation::Foreground),
                Some("Orphan") => Some(Propagation::Orphan),
                _ => {
                    let known = ["Foreground", "Background", "Orphan"];
                    return refuse(FieldError::not_supported("propagationPolicy", policy.clone(), &known));
                }
            },
        };
        // A negative grace period means the shortest one there is.
        let grace_seconds = value.get("gracePeriodSeconds").and_then(Value::as_i64);
        let grace_seconds = grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let precondition = |field| object::text(value, &["preconditions", field]).map(str::to_owned);
        Ok(Self {
            propagation,
            grace_seconds,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
        })
    }
}

pub(crate) fn delete(call: &Call<'_>, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
    let mut writer = call.core.store.write();
    delete_in(call, &mut writer, name, options)
}

pub(super) fn delete_in(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let key = call.key(name);
    let old = writer.get(&call.resource.collection, &key).ok_or_else(|| call.not_found(name))?;
    check_preconditions(call, &old.value, options)?;
    admission::may_delete(call, name)?;
    let mut value = old.value.clone();
    set_propagation_finalizers(&mut value, options);
    definition::before_delete(call, &mut value);
    let grace = grace_period(call, &value, options);
    if grace == 0 && !is_held(call, &value) {
        return Ok(Deleted::Gone(finish(call, writer, &key, value)));
    }
    mark(call, &mut value, grace);
    if value == old.value {
        return Ok(Deleted::Pending(old));
    }
    if call.options.dry_run {
        return Ok(Deleted::Pending(call.pretend(value)));
    }
    let stored = writer.put(&call.resource.collection, key, value);
    definition::after_mark(call, writer, &stored);
    Ok(Deleted::Pending(stored))
}

/// Deletes everything a list would show, and returns that list.
pub(crate) fn delete_collection(
    call: &Call<'_>,
    query: &ListQuery,
    options: &DeleteOptions,
) -> Result<Vec<Arc<Stored>>, Status> {
    let found = list(call, query)?.items;
    for stored in &found {
        let namespace = object::namespace(&stored.value);
        let single = Call { namespace, options: call.options.clone(), warnings: Default::default(), ..*call };
        match delete(&single, object::name(&stored.value), options) {
            Ok(_) => {}
            Err(refused) if refused.code == 404 => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok(found)
}

/// Takes the object out of the store and frees what it held.
pub(super) fn remove(call: &Call<'_>, writer: &mut ClusterWriter<'_>, key: &Key, last: Value) -> Arc<Stored> {
    admission::release(call, writer, &last);
    let stored = writer.remove(&call.resource.collection, key, last);
    definition::after_removal(call, writer);
    stored
}

fn finish(call: &Call<'_>, writer: &mut ClusterWriter<'_>, key: &Key, value: Value) -> Arc<Stored> {
    if call.options.dry_run { call.pretend(value) } else { remove(call, writer, key, value) }
}

fn check_preconditions(call: &Call<'_>, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    // The real server names the kind here, where it names the resource everywhere else.
    let subject = Subject { plural: &call.resource.kind, ..call.resource.subject(object::name(old)) };
    let had = object::uid(old);
    if let Some(asked) = options.uid.as_deref().filter(|asked| *asked != had) {
        let why = format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({had}). The object might have been \
             deleted and then recreated"
        );
        return Err(Status::conflict(subject, &why));
    }
    let had = object::meta_text(old, "resourceVersion");
    if let Some(asked) = options.version.as_deref().filter(|asked| *asked != had) {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({had}). The \
             object might have been modified"
        );
        return Err(Status::conflict(subject, &why));
    }
    Ok(())
}

/// Dependents that are to go first, or to stay, are somebody else's work: a finalizer waits for it.
fn set_propagation_finalizers(value: &mut Value, options: &DeleteOptions) {
    let Some(propagation) = options.propagation else { return };
    let mut kept: Vec<Value> = object::finalizers(value)
        .filter(|name| ![FOREGROUND, ORPHAN].contains(name))
        .map(Value::from)
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => kept.push(FOREGROUND.into()),
        Propagation::Orphan => kept.push(ORPHAN.into()),
    }
    let metadata = object::metadata(value);
    if kept.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), kept.into());
    }
}

/// Only pods that run somewhere are given time to stop.
fn grace_period(call: &Call<'_>, value: &Value, options: &DeleteOptions) -> i64 {
    if !call.resource.is("", "pods") || object::text(value, &["spec", "nodeName"]).unwrap_or("").is_empty() {
        return 0;
    }
    if matches!(object::text(value, &["status", "phase"]), Some("Succeeded" | "Failed")) {
        return 0;
    }
    let own = object::at(value, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    let asked = options.grace_seconds.or(own).unwrap_or(30);
    match object::meta(value, "deletionGracePeriodSeconds").and_then(Value::as_i64) {
        Some(running) if object::is_terminating(value) => asked.min(running),
        _ => asked,
    }
}

fn is_held(call: &Call<'_>, value: &Value) -> bool {
    object::finalizers(value).next().is_some() || call.resource.is("", "namespaces")
}

/// Notes the moment of deletion; a later request can only shorten the grace period.
fn mark(call: &Call<'_>, value: &mut Value, grace: i64) {
    let running = object::meta(value, "deletionGracePeriodSeconds").and_then(Value::as_i64);
    if object::is_terminating(value) && running.is_none_or(|running| running <= grace) {
        return;
    }
    let first = !object::is_terminating(value);
    let now = call.core.now();
    // The grace period counts from the first request; one that is over already is as short as it can be.
    let since = object::text(value, &["metadata", "deletionTimestamp"])
        .and_then(|when| when.parse::<Timestamp>().ok())
        .and_then(|when| when.checked_sub(SignedDuration::from_secs(running.unwrap_or(0))).ok());
    let when = since.unwrap_or(now).checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    let grace = if when < now { grace.min(1) } else { grace };
    let when = when.max(now);
    let generation = object::meta(value, "generation").and_then(Value::as_i64).unwrap_or(0);
    let metadata = object::metadata(value);
    metadata.insert("deletionTimestamp".into(), stamp(when).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if first && generation > 0 {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    if call.resource.is("", "namespaces") {
        metadata.remove("deletionGracePeriodSeconds");
        namespace::prepare_delete(value);
    }
}
