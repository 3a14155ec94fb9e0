//! Writing only what differs.

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Error, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use tombolo_runtime::unless_gone;

use crate::edition::Kind;

/// Who the API server sees writing.
pub(crate) const MANAGER: &str = "tombolo-agent";

pub(crate) fn apply_params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// How much of an object is ours to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it: what is there beyond what we want has to go.
    Whole,
    /// What we want; the server fills in the rest.
    Part,
}

/// Makes the API server hold `desired`, unless `current` shows that it does. Returns what was written.
pub(crate) async fn put<K: Kind>(
    api: &Api<K>,
    current: Option<&K>,
    desired: &K,
    extent: Extent,
) -> Result<Option<K>, Error> {
    if current.is_some_and(|current| holds(current, desired, extent)) {
        return Ok(None);
    }
    api.patch(&desired.name_any(), &apply_params(), &Patch::Apply(desired)).await.map(Some)
}

/// Deletes exactly this object, not one that took its name since.
pub(crate) async fn delete<K: Kind>(api: &Api<K>, object: &K) -> Result<(), Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
        ..DeleteParams::background()
    };
    unless_gone(api.delete(&object.name_any(), &params).await)
}

fn holds<T: Serialize>(current: &T, desired: &T, extent: Extent) -> bool {
    let (Some(current), Some(desired)) = (lean(current), lean(desired)) else { return false };
    let metadata = ["labels", "annotations", "ownerReferences"];
    let sections = desired.as_object().into_iter().flatten().filter(|(key, _)| !is_elsewhere(key));
    metadata.iter().all(|field| within(&current["metadata"][field], &desired["metadata"][field]))
        && sections.into_iter().all(|(key, value)| match extent {
            Extent::Whole => current[key] == *value,
            Extent::Part => within(&current[key], value),
        })
}

/// Parts that are compared otherwise or written through another door.
fn is_elsewhere(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "status")
}

/// Whether everything in `desired` is also in `current`.
fn within(current: &Value, desired: &Value) -> bool {
    match (current, desired) {
        (_, Value::Null) => true,
        (Value::Object(current), Value::Object(desired)) => {
            desired.iter().all(|(key, value)| current.get(key).is_some_and(|found| within(found, value)))
        }
        (Value::Array(current), Value::Array(desired)) => {
            current.len() == desired.len() && current.iter().zip(desired).all(|(a, b)| within(a, b))
        }
        (current, desired) => current == desired,
    }
}

/// As JSON without what means nothing: nulls, empty maps and empty lists.
fn lean<T: Serialize>(object: &T) -> Option<Value> {
    let mut value = serde_json::to_value(object).ok()?;
    strip(&mut value);
    Some(value)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            fields.retain(|_, value| !is_nothing(value));
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
