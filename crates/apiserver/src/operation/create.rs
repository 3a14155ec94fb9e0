//! Creating an object.

use std::sync::Arc;

use serde_json::Value;
use tombolo_runtime::stamp;

use super::admission::{self, Ownership};
use super::{Call, Outcome, definition, events};
use crate::core::{ClusterWriter, NAMESPACES};
use crate::object;
use crate::registry::Generation;
use crate::status::{Status, Subject};
use crate::store::{Key, Stored};

/// How often a generated name is tried before giving up.
const NAME_ATTEMPTS: usize = 8;

/// Creates the object in `value`, which has been decoded but not checked.
pub(crate) fn create(call: &Call<'_>, mut value: Value) -> Result<Arc<Stored>, Status> {
    admission::identify(call, &mut value, None)?;
    admission::decode(call, &mut value)?;
    let mut writer = call.core.store.write();
    if object::name(&value).is_empty() && !object::meta_text(&value, "generateName").is_empty() {
        return create_with_generated_name(call, &mut writer, value);
    }
    create_in(call, &mut writer, value).map(|outcome| outcome.stored().clone())
}

fn create_with_generated_name(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    value: Value,
) -> Result<Arc<Stored>, Status> {
    let base = object::meta_text(&value, "generateName").to_owned();
    // The whole name must stay within 63 characters: five are the suffix.
    let base = base.get(..base.len().min(58)).unwrap_or(&base).to_owned();
    for attempt in 1.. {
        let mut named = value.clone();
        let name = format!("{base}{}", call.core.entropy.suffix());
        object::metadata(&mut named).insert("name".into(), name.into());
        match create_in(call, writer, named) {
            Err(refused) if refused.reason == "AlreadyExists" && attempt < NAME_ATTEMPTS => {}
            result => return result.map(|outcome| outcome.stored().clone()),
        }
    }
    unreachable!("the loop returns on its last attempt")
}

/// Creates with the writer held; also the second half of a PUT or an apply to a name that does not exist.
pub(super) fn create_in(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    value: Value,
) -> Result<Outcome, Status> {
    create_owned(call, writer, value, Ownership::Update)
}

pub(super) fn create_owned(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    mut value: Value,
    ownership: Ownership,
) -> Result<Outcome, Status> {
    definition::may_create(call, writer)?;
    check_place(call, writer, object::name(&value))?;
    set_server_fields(call, &mut value)?;
    admission::default(call, &mut value);
    admission::record_owners(call, ownership, None, &mut value);
    admission::settle(call, &mut value);
    // Nodes register themselves, status and all.
    if call.resource.traits.status && !call.resource.is("", "nodes") {
        object::fields(&mut value).remove("status");
    }
    admission::prepare_create(call, &mut value)?;
    admission::validate(call, &value, None)?;
    let key = Key::of(&value);
    check_free(call, writer, &key)?;
    admission::allocate(call, writer, None, &mut value)?;
    if call.options.dry_run {
        return Ok(Outcome::Created(call.pretend(value)));
    }
    events::sweep(call, writer);
    let stored = writer.put(&call.resource.collection, key, value);
    definition::after_change(call, writer);
    Ok(Outcome::Created(stored))
}

fn check_free(call: &Call<'_>, writer: &ClusterWriter<'_>, key: &Key) -> Result<(), Status> {
    match writer.get(&call.resource.collection, key) {
        Some(taken) if object::is_terminating(&taken.value) => {
            Err(Status::still_terminating(call.resource.subject(&key.name)))
        }
        Some(_) => Err(Status::already_exists(call.resource.subject(&key.name))),
        None => Ok(()),
    }
}

/// The namespace must be there and stay there.
fn check_place(call: &Call<'_>, writer: &ClusterWriter<'_>, name: &str) -> Result<(), Status> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let subject = Subject { group: "", plural: "namespaces", name: call.namespace };
    let found =
        writer.get(NAMESPACES, &Key::new("", call.namespace)).ok_or_else(|| Status::not_found(subject))?;
    if !object::is_terminating(&found.value) {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {} because it is being terminated",
        call.namespace
    );
    let cause = serde_json::json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {} is being terminated", call.namespace),
        "field": "metadata.namespace",
    });
    Err(Status::forbidden(call.resource.subject(name), &why).with_causes(vec![cause]))
}

/// What the server says about an object, whatever the client wrote there.
fn set_server_fields(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    if !object::meta_text(value, "resourceVersion").is_empty() {
        return Err(Status::unexplained("resourceVersion should not be set on objects to be created"));
    }
    let metadata = object::metadata(value);
    for field in
        ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), call.core.entropy.uid().into());
    metadata.insert("creationTimestamp".into(), stamp(call.core.now()).into());
    if call.resource.namespaced {
        metadata.insert("namespace".into(), call.namespace.into());
    } else {
        metadata.remove("namespace");
    }
    if call.resource.traits.generation != Generation::None {
        metadata.insert("generation".into(), 1.into());
    }
    Ok(())
}
