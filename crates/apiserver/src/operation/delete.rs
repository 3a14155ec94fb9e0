//! Deleting: at once, after finalizers, after a grace period.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tombolo_runtime::stamp;

use super::{Call, ListQuery, admission, definition, list, update};
use crate::core::{ClusterWriter, DEFINITIONS, NAMESPACES};
use crate::invalid::{FieldError, Problem};
use crate::object;
use crate::registry::Resource;
use crate::rules::namespace;
use crate::status::{Status, Subject};
use crate::store::{Key, Page, Stored};
use crate::types;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// The collection of events.
const EVENTS: &str = "/events";

/// How a DELETE is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    propagation: Option<Propagation>,
    /// The older form of the same, which decides about the code of the answer, too.
    orphan: Option<bool>,
    grace_seconds: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
    pub(crate) dry_run: bool,
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
    /// Reads a `DeleteOptions` object; everything that is wrong with it at once.
    pub(crate) fn parse(mut value: Value) -> Result<Self, Status> {
        let text = |field| value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(other) = text("kind").filter(|kind| *kind != "DeleteOptions") {
            let version = text("apiVersion").unwrap_or("meta.k8s.io/v1");
            return Err(Status::bad_request(format!(
                "no kind {other:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        // Who tries something with a word where a list belongs must not do it in earnest.
        if let Some(ty) = types::find("v1", "DeleteOptions").filter(|_| !value.is_null())
            && let Some(error) = types::check(ty, &mut value).error
        {
            return Err(Status::bad_request(error));
        }
        let orphan = value.get("orphanDependents").and_then(Value::as_bool);
        let policy = value.get("propagationPolicy").filter(|policy| !policy.is_null());
        let mut wrong = Vec::new();
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            wrong.push(FieldError::invalid("propagationPolicy", policy.clone(), detail));
        }
        let named = policy.map(|policy| policy.as_str().and_then(Propagation::named));
        if let (Some(policy), Some(None)) = (policy, named) {
            let known = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            let problem = Problem::NotSupported(policy.clone());
            wrong.push(FieldError::new("propagationPolicy", problem, known));
        }
        let dry_run = value.get("dryRun").and_then(Value::as_array).cloned().unwrap_or_default();
        if dry_run.iter().any(|word| word != "All") {
            wrong.push(FieldError::not_supported("dryRun", dry_run.clone(), &["All"]));
        }
        if !wrong.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &wrong));
        }
        let older = orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
        // A negative grace period means the shortest one there is.
        let grace_seconds = value.get("gracePeriodSeconds").and_then(Value::as_i64);
        let precondition = |field| object::text(&value, &["preconditions", field]).map(str::to_owned);
        Ok(Self {
            propagation: named.flatten().or(older),
            orphan,
            grace_seconds: grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run: !dry_run.is_empty(),
        })
    }

    /// Whether an object that is not gone yet is answered with 202: so it was before there was `propagationPolicy`.
    pub(crate) fn accepts(&self) -> bool {
        self.orphan == Some(false)
    }

    pub(crate) fn says_nothing_of_dependents(&self) -> bool {
        self.propagation.is_none()
    }
}

impl Propagation {
    fn named(text: &str) -> Option<Self> {
        match text {
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }

    /// What happens to dependents of an object when nobody says anything about it.
    fn otherwise(resource: &Resource, value: &Value) -> Self {
        let mut asked = object::finalizers(value).filter_map(|name| match name {
            ORPHAN => Some(Self::Orphan),
            FOREGROUND => Some(Self::Foreground),
            _ => None,
        });
        asked.next().unwrap_or(if resource.orphans_dependents() { Self::Orphan } else { Self::Background })
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
    let terminating = object::is_terminating(&old.value);
    if call.resource.is("", "namespaces") && terminating && update::has_namespace_finalizers(&old.value) {
        return Ok(Deleted::Pending(old));
    }
    let mut value = old.value.clone();
    if definition::is_definition(call) && !terminating {
        definition::begin_deletion(call, &mut value);
        return Ok(pending(call, writer, key, &old, value, options));
    }
    match grace_period(call, &value, options) {
        Grace::Running => Ok(Deleted::Pending(old)),
        Grace::Without => {
            set_propagation_finalizers(call.resource, &mut value, options);
            if !is_held(call, &value) {
                // What is gone is shown as it was.
                return Ok(Deleted::Gone(finish(call, writer, &key, old.value.clone(), options)));
            }
            mark(call, &mut value, 0);
            Ok(pending(call, writer, key, &old, value, options))
        }
        Grace::Seconds(seconds) => {
            set_propagation_finalizers(call.resource, &mut value, options);
            mark(call, &mut value, seconds);
            if seconds > 0 || is_held(call, &value) {
                return Ok(pending(call, writer, key, &old, value, options));
            }
            // Who watches hears that it was marked before it hears that it is gone.
            if options.dry_run {
                return Ok(Deleted::Gone(call.pretend(value)));
            }
            let marked = writer.put(&call.resource.collection, key.clone(), value);
            Ok(Deleted::Gone(finish(call, writer, &key, marked.value.clone(), options)))
        }
    }
}

/// Stores an object that is marked for deletion, if that changes it.
fn pending(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    key: Key,
    old: &Arc<Stored>,
    value: Value,
    options: &DeleteOptions,
) -> Deleted {
    if value == old.value {
        return Deleted::Pending(old.clone());
    }
    if options.dry_run {
        return Deleted::Pending(call.pretend(value));
    }
    let stored = writer.put(&call.resource.collection, key, value);
    definition::after_mark(call, writer, &stored);
    Deleted::Pending(stored)
}

/// Deletes everything a list would show, and returns that list.
pub(crate) fn delete_collection(
    call: &Call<'_>,
    query: &ListQuery,
    options: &DeleteOptions,
) -> Result<Page, Status> {
    let found = list(call, query)?;
    for stored in &found.items {
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

fn finish(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    key: &Key,
    last: Value,
    options: &DeleteOptions,
) -> Arc<Stored> {
    if options.dry_run { call.pretend(last) } else { remove(call, writer, key, last) }
}

fn check_preconditions(call: &Call<'_>, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    // Namespaces and definitions are asked in words of their own.
    let prefix = match &*call.resource.collection {
        NAMESPACES => Some("Precondition failed"),
        DEFINITIONS => Some("precondition failed"),
        _ => None,
    };
    if let Some(prefix) = prefix {
        let pairs = [
            ("UID", options.uid.as_deref(), object::uid(old)),
            ("ResourceVersion", options.version.as_deref(), object::meta_text(old, "resourceVersion")),
        ];
        for (what, asked, had) in pairs {
            if let Some(asked) = asked.filter(|asked| *asked != had) {
                let why = format!("{prefix}: {what} in precondition: {asked}, {what} in object meta: {had}");
                return Err(Status::conflict(call.resource.subject(object::name(old)), &why));
            }
        }
        return Ok(());
    }
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
fn set_propagation_finalizers(resource: &Resource, value: &mut Value, options: &DeleteOptions) {
    let wish = match options.propagation {
        // Nobody ever depends on an event.
        _ if &*resource.collection == EVENTS => Propagation::Background,
        Some(asked) => asked,
        None => Propagation::otherwise(resource, value),
    };
    let wanted = match wish {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let others = object::finalizers(value).filter(|name| ![FOREGROUND, ORPHAN].contains(name));
    let next: Vec<String> = others.chain(wanted).map(str::to_owned).collect();
    // Finalizers that stay the same also stay in their order.
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (object::finalizers(value).collect(), next.iter().map(String::as_str).collect());
    if before == after {
        return;
    }
    let metadata = object::metadata(value);
    if next.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), next.into());
    }
}

/// How long an object may take to go.
enum Grace {
    /// The kind knows no grace, or it is over.
    Without,
    /// It was given a time before, which this request does not shorten. Nor does it change anything else.
    Running,
    Seconds(i64),
}

/// Only pods are given time to stop, those that run nowhere none.
fn grace_period(call: &Call<'_>, value: &Value, options: &DeleteOptions) -> Grace {
    if !call.resource.is("", "pods") {
        return Grace::Without;
    }
    if object::is_terminating(value) {
        let running = object::meta(value, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
        return match options.grace_seconds {
            _ if running == 0 => Grace::Without,
            Some(asked) if asked < running => Grace::Seconds(asked),
            _ => Grace::Running,
        };
    }
    let is_nowhere = object::text(value, &["spec", "nodeName"]).unwrap_or("").is_empty();
    if is_nowhere || matches!(object::text(value, &["status", "phase"]), Some("Succeeded" | "Failed")) {
        return Grace::Seconds(0);
    }
    let own = object::at(value, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    Grace::Seconds(options.grace_seconds.or(own).unwrap_or(0))
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
