//! The steps every write goes through, and which rules apply to which kind.
//!
//! Decode (what is this, are there fields nobody knows) → prepare (defaults, linked fields) → validate → allocate →
//! record who owns what. Each step is the same for all kinds; where a kind has rules of its own, they are found here and
//! nowhere else.

use serde_json::Value;
use tombolo_runtime::stamp;

use super::{Call, FieldValidation, Part, definition};
use crate::core::ClusterWriter;
use crate::event_view;
use crate::invalid::{FieldError, Problem};
use crate::object;
use crate::patch::apply::{self, Pending};
use crate::registry::{Resource, Source, View};
use crate::rules::names::NameRule;
use crate::rules::{
    config_map, endpoint_slice, lease, metadata, namespace, node, pod, rbac, secret, service, workloads,
};
use crate::schema::{self, Schema};
use crate::status::Status;
use crate::types::{self, Decoded, TypeRef};

/// How the owners of fields are found when the object is final.
pub(super) enum Ownership {
    /// Whatever changed belongs to the writer.
    Update,
    /// A server-side apply has worked it out.
    Apply(Pending),
}

/// Checks that the body is about this resource and this object, and brings it into its stored version.
pub(super) fn identify(call: &Call<'_>, value: &mut Value, name: Option<&str>) -> Result<(), Status> {
    if !value.is_object() {
        return Err(Status::bad_request("the object provided is unrecognized (must be an object)"));
    }
    check_kind(call.resource, value)?;
    if let Some(expected) = name {
        check_name(value, expected)?;
    }
    let namespace = object::namespace(value);
    if !namespace.is_empty() && call.resource.namespaced && namespace != call.namespace {
        return Err(Status::bad_request(match name {
            None => "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
            Some(_) => format!(
                "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
                call.namespace
            ),
        }));
    }
    Ok(())
}

fn check_kind(resource: &Resource, value: &mut Value) -> Result<(), Status> {
    let (expected_version, expected_kind) = (resource.api_version(), resource.kind.as_str());
    let version = object::text(value, &["apiVersion"]).unwrap_or_default().to_owned();
    let kind = object::text(value, &["kind"]).unwrap_or_default().to_owned();
    if resource.is_custom() && kind.is_empty() {
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{value}'")));
    }
    if resource.is_custom() && version.is_empty() {
        return Err(Status::bad_request(format!("Object 'apiVersion' is missing in '{value}'")));
    }
    if resource.is_custom() {
        check_custom_type(resource, value, &version, &kind)?;
    } else {
        check_builtin_type(resource, &version, &kind)?;
    }
    let fields = object::fields(value);
    fields.insert("apiVersion".into(), expected_version.into());
    fields.insert("kind".into(), expected_kind.into());
    Ok(())
}

fn check_custom_type(resource: &Resource, value: &Value, version: &str, kind: &str) -> Result<(), Status> {
    let expected = resource.api_version();
    if version != expected {
        return Err(other_version(version, &expected));
    }
    if kind != resource.kind {
        let error = FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
        return Err(Status::invalid(&resource.group, &resource.kind, object::name(value), &[error]));
    }
    Ok(())
}

/// Whoever sends a built-in kind may leave out what the path says already, but not say something else.
fn check_builtin_type(resource: &Resource, version: &str, kind: &str) -> Result<(), Status> {
    let expected = resource.api_version();
    let version = if version.is_empty() { &expected } else { version };
    let kind = if kind.is_empty() { &resource.kind } else { kind };
    if kind == resource.kind && version == expected {
        return Ok(());
    }
    let short = version.rsplit('/').next().unwrap_or(version);
    let why = if types::find(version, kind).is_none() {
        format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )
    } else if kind == resource.kind {
        return Err(other_version(version, &expected));
    } else {
        // Go's names: the version's package of what was sent, the group's package of what was expected.
        let package =
            resource.group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
        format!("converting ({short}.{kind}) to ({package}.{}): unknown conversion", resource.kind)
    };
    let expected = &resource.kind;
    Err(Status::bad_request(format!("{kind} in version {short:?} cannot be handled as a {expected}: {why}")))
}

fn other_version(version: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({expected})"
    ))
}

fn check_name(value: &Value, expected: &str) -> Result<(), Status> {
    match object::name(value) {
        "" if value.get("metadata").is_some_and(|metadata| !metadata.is_object()) => Ok(()), // decoding refuses it
        "" => Err(Status::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        ))),
        same if same == expected => Ok(()),
        other => Err(Status::bad_request(format!(
            "the name of the object ({other}) does not match the name on the URL ({expected})"
        ))),
    }
}

/// Looks at every field as a decoder would: unknown ones are dropped and, where asked for, reported; wrong types refuse.
pub(super) fn decode(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    if let Some(schema) = custom_schema(call.resource) {
        schema.drop_nulls(value);
    }
    decode_merged(call, value)
}

/// The same for what comes of merging. Nobody sent its nulls, so nobody drops them: a field of a custom resource that is
/// null because all in it was taken away is refused by a real server, too.
pub(super) fn decode_merged(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    let resource = call.resource;
    let decoded = match &resource.source {
        Source::Builtin(Some(ty)) => decode_typed(*ty, value),
        Source::Builtin(None) => Decoded::default(),
        Source::Custom { .. } => decode_custom(resource, value),
    };
    complain(call, decoded, &resource.version, &resource.kind)?;
    to_stored(resource, value);
    Ok(())
}

/// The same for what is sent to a part of an object and has a type of its own: a scale, a binding, an eviction. Null is one with
/// nothing in it.
pub(crate) fn decoded(
    call: &Call<'_>,
    api_version: &str,
    kind: &str,
    mut value: Value,
) -> Result<Value, Status> {
    let Some(ty) = types::find(api_version, kind).filter(|_| !value.is_null()) else { return Ok(value) };
    complain(call, types::check(ty, &mut value), api_version, kind)?;
    Ok(value)
}

/// Refuses what cannot be decoded, and says as much about the rest as the client wants to hear.
fn complain(call: &Call<'_>, decoded: Decoded, version: &str, kind: &str) -> Result<(), Status> {
    let complaints = decoded.complaints(&call.options.duplicates);
    let strict = call.options.validation == FieldValidation::Strict && !complaints.is_empty();
    let strict = strict.then(|| format!("strict decoding error: {}", complaints.join(", ")));
    if let Some(error) = decoded.error.or(strict) {
        return Err(Status::bad_request(types::cannot_be_handled(version, kind, &error)));
    }
    if call.options.validation == FieldValidation::Warn {
        complaints.into_iter().for_each(|sentence| call.warn(sentence));
    }
    Ok(())
}

fn decode_typed(ty: TypeRef, value: &mut Value) -> Decoded {
    let decoded = types::check(ty, value);
    types::normalize(ty, value);
    decoded
}

/// Metadata of custom resources is typed like everybody's; the rest follows the definition's schema.
fn decode_custom(resource: &Resource, value: &mut Value) -> Decoded {
    let mut decoded = Decoded::default();
    if let Some(ty) = types::find("v1", "PartialObjectMetadata") {
        let mut head = serde_json::json!({"metadata": value.get("metadata").cloned().unwrap_or_default()});
        decoded = decode_typed(ty, &mut head);
        object::fields(value).insert("metadata".into(), head["metadata"].take());
    }
    if let Some(schema) = custom_schema(resource) {
        decoded.unknown.extend(schema.prune(value));
        schema.default(value);
    }
    decoded
}

fn custom_schema(resource: &Resource) -> Option<&Schema> {
    resource.custom_version().and_then(|version| version.schema.as_deref())
}

/// From the version of the request to the one that is stored.
pub(super) fn to_stored(resource: &Resource, value: &mut Value) {
    match resource.view {
        View::Stored => {}
        View::Renamed => {
            object::fields(value).insert("apiVersion".into(), resource.stored_api_version.as_str().into());
        }
        View::Events => event_view::to_core(value),
    }
}

/// The object as the version of the request shows it.
pub(crate) fn present(resource: &Resource, stored: &Value) -> Value {
    let mut value = from_stored(resource, stored.clone());
    if resource.is("", "services") {
        service::on_read(&mut value);
    }
    value
}

/// From the stored version to the one of the request; what is only hidden from readers is still there.
pub(super) fn from_stored(resource: &Resource, mut value: Value) -> Value {
    match resource.view {
        View::Stored => {}
        View::Renamed => {
            object::fields(&mut value).insert("apiVersion".into(), resource.api_version().into());
        }
        View::Events => event_view::from_core(&mut value),
    }
    value
}

/// Fills in what a client may leave out of a new object.
pub(super) fn prepare_create(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    match (call.resource.group.as_str(), call.resource.kind.as_str()) {
        ("", "Service") if call.part == Part::Status => service::prepare_create_by_status(value),
        ("", "Service") => service::prepare_create(value, &call.core.features, &call.core.network)
            .map_err(|errors| invalid(call, value, &errors))?,
        ("", "Namespace") => namespace::prepare_create(value),
        ("", "Pod") => pod::prepare_create(value),
        ("apps" | "batch", kind) => workloads::prepare_create(kind, value),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::prepare(value),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::establish(call, value),
        _ => {}
    }
    Ok(())
}

/// Settles the fields of an object that depend on what is stored.
pub(super) fn prepare_update(call: &Call<'_>, old: &Value, value: &mut Value) -> Result<(), Status> {
    let whole = call.part != Part::Status;
    match (call.resource.group.as_str(), call.resource.kind.as_str()) {
        ("", "Service") if !whole => service::prepare_status(old, value),
        ("", "Service") => service::prepare_update(old, value, &call.core.features, &call.core.network)
            .map_err(|errors| invalid(call, value, &errors))?,
        ("", "Namespace") if whole => namespace::prepare_update(old, value),
        ("", "Pod") if whole => pod::prepare_update(old, value),
        ("apps" | "batch", _) if whole => workloads::prepare_update(old, value),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::prepare(value),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if whole => definition::establish(call, value),
        _ => {}
    }
    Ok(())
}

/// Fills in what a client may leave out. What is there after this belongs to the writer, what comes later to nobody.
pub(super) fn default(call: &Call<'_>, value: &mut Value) {
    match (call.resource.group.as_str(), call.resource.kind.as_str()) {
        ("", "Service") => service::default(value, &call.core.features),
        ("", "Namespace") => namespace::default(value),
        ("", "Pod") => pod::default(value),
        ("", "Secret") => secret::default(value),
        ("", "Node") => node::default(value),
        ("apps" | "batch", kind) => workloads::default(kind, value),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::default(value),
        ("rbac.authorization.k8s.io", _) => rbac::default(value),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => schema::complete(value),
        _ => {}
    }
}

/// Refuses an object with everything that is wrong with it.
pub(super) fn validate(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    let resource = call.resource;
    let mut errors = metadata_errors(resource, new, old);
    errors.extend(match &resource.source {
        Source::Custom { .. } => custom_errors(resource, new, old),
        Source::Builtin(_) => builtin_errors(call, new, old),
    });
    if !errors.is_empty() {
        return Err(invalid(call, new, &errors));
    }
    if resource.is("", "services") && call.part != Part::Status {
        service::warnings(new).into_iter().for_each(|sentence| call.warn(sentence));
    }
    Ok(())
}

fn metadata_errors(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = metadata::metadata(new, NameRule::of(&resource.group, &resource.kind));
    match old {
        // The server looks three times at the update of a custom resource, and says each time what it sees.
        Some(old) if resource.is_custom() => {
            errors.extend(metadata::changes(new, old));
            errors.extend(metadata::changes(new, old));
        }
        Some(old) => errors.extend(metadata::new_finalizers(new, old)),
        None => {}
    }
    errors
}

fn custom_errors(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let schema = resource.custom_version().and_then(|version| version.schema.as_ref());
    schema.map(|schema| schema.validate(new, old)).unwrap_or_default()
}

fn builtin_errors(call: &Call<'_>, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let whole = call.part != Part::Status || old.is_none();
    match (call.resource.group.as_str(), call.resource.kind.as_str()) {
        ("", "Service") if !whole => old.map(|old| service::validate_status(new, old)).unwrap_or_default(),
        _ if !whole => Vec::new(),
        ("", "Service") => service::validate(new, old),
        ("", "Pod") => pod::validate(new, old),
        ("", "ConfigMap") => config_map::validate(new, old),
        ("", "Secret") => secret::validate(new, old),
        ("", "Node") => node::validate(new, old),
        ("apps" | "batch", kind) => workloads::validate(kind, new, old),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice::validate(new, old),
        ("coordination.k8s.io", "Lease") => lease::validate(new),
        ("rbac.authorization.k8s.io", kind) => rbac::validate(kind, new, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::errors(new, old),
        _ => Vec::new(),
    }
}

pub(super) fn invalid(call: &Call<'_>, value: &Value, errors: &[FieldError]) -> Status {
    if let [FieldError { problem: Problem::Internal, detail, .. }] = errors {
        return Status::internal(format!("Internal error occurred: {detail}"));
    }
    Status::invalid(&call.resource.group, &call.resource.kind, object::name(value), errors)
}

/// Takes the addresses and ports a Service needs; a dry run only looks whether they are there.
pub(super) fn allocate(
    call: &Call<'_>,
    writer: &mut ClusterWriter<'_>,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), Status> {
    if !call.resource.is("", "services") || call.part != Part::Whole {
        return Ok(());
    }
    let mut pick = |bound| call.core.entropy.below(bound);
    let taken = if call.options.dry_run {
        service::allocate(&mut writer.extra.addresses.clone(), old, new, &mut pick)
    } else {
        service::allocate(&mut writer.extra.addresses, old, new, &mut pick)
    };
    taken.map_err(|errors| invalid(call, new, &errors))
}

/// Gives back what a removed object held.
pub(super) fn release(call: &Call<'_>, writer: &mut ClusterWriter<'_>, value: &Value) {
    if call.resource.is("", "services") {
        service::release(&mut writer.extra.addresses, value);
    }
}

pub(super) fn may_delete(call: &Call<'_>, name: &str) -> Result<(), Status> {
    if call.resource.is("", "namespaces") && !namespace::is_deletable(name) {
        return Err(Status::forbidden(call.resource.subject(name), namespace::NOT_DELETABLE));
    }
    Ok(())
}

/// The paths of what writes to this part of an object have no say about.
fn ignored(call: &Call<'_>) -> &'static [&'static [&'static str]] {
    let resource = call.resource;
    match call.part {
        Part::Whole | Part::Scale if resource.traits.status => &[&["status"]],
        Part::Whole | Part::Scale => &[],
        // Of custom resources not even metadata is written through the status, of a few kinds not all of it.
        Part::Status if resource.is_custom() => &[&["metadata"], &["spec"]],
        Part::Status if resource.is("apps", "deployments") => &[&["spec"], &["metadata", "labels"]],
        Part::Status if resource.is("", "pods") => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        Part::Status => &[&["spec"]],
    }
}

/// Brings an object whose owners are known into the form in which it is stored.
pub(super) fn settle(call: &Call<'_>, value: &mut Value) {
    if let Source::Builtin(Some(ty)) = call.resource.source {
        types::forget_empty(ty, value);
    }
}

/// Writes down who owns which field.
pub(super) fn record_owners(call: &Call<'_>, ownership: Ownership, old: Option<&Value>, new: &mut Value) {
    let now = stamp(call.core.now());
    let api_version = call.resource.api_version();
    let author = author(call, &api_version, &now);
    let shape = &call.resource.shape;
    match ownership {
        Ownership::Update => apply::update(old.or(call.resource.empty.as_ref()), new, shape, &author),
        Ownership::Apply(pending) => pending.finish(new, &author),
    }
}

pub(super) fn author<'a>(call: &'a Call<'_>, api_version: &'a str, now: &'a str) -> apply::Writer<'a> {
    let subresource = match call.part {
        Part::Whole => None,
        Part::Status => Some("status"),
        Part::Scale => Some("scale"),
    };
    let (manager, ignored) = (call.options.manager.as_str(), ignored(call));
    apply::Writer { manager, api_version, subresource, ignored, now }
}
