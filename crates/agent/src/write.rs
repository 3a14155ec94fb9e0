//! Writing only what differs.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Status;
use kube::{Api, Error, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER as OURS};
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

/// What the API server has under a name. A cache that knows of nothing may only be late, so then the server is asked:
/// what is applied over an object of somebody else cannot be taken back.
pub(crate) async fn find<K: Kind>(
    api: &Api<K>,
    cached: Option<Arc<K>>,
    name: &str,
) -> Result<Option<Arc<K>>, Error> {
    match cached {
        Some(cached) => Ok(Some(cached)),
        None => Ok(api.get_opt(name).await?.map(Arc::new)),
    }
}

/// Whether an object was made by an agent.
pub(crate) fn is_ours<K: ResourceExt>(object: &K) -> bool {
    object.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == OURS)
}

/// The error when somebody else's object has the name that ours should get.
pub(crate) fn name_taken<K: Kind>(object: &K) -> Error {
    let status = Status::failure(&in_the_way(object), "NameTaken").with_code(409);
    Error::Api(Box::new(status))
}

/// What to say about somebody else's object that has the name that ours should get.
pub(crate) fn in_the_way<K: Kind>(object: &K) -> String {
    let (kind, name) = (K::kind(&()), object.name_any());
    format!("a {kind} {name} of someone else is in the way; remove it or let it be managed")
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
    let name = desired.name_any();
    let written = api.patch(&name, &apply_params(), &Patch::Apply(desired)).await?;
    if holds(&written, desired, extent) {
        return Ok(Some(written));
    }
    // What somebody else added to a list of ours stays there when ours is applied; a merge replaces lists.
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(&name, &params, &Patch::Merge(desired)).await.map(Some)
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
    // What is wanted empty is not in `desired` at all, so for the whole the sections of both count.
    let beyond = current.as_object().into_iter().flatten().filter(|_| extent == Extent::Whole);
    let sections = desired.as_object().into_iter().flatten().chain(beyond).map(|(key, _)| key);
    metadata.iter().all(|field| within(&current["metadata"][field], &desired["metadata"][field]))
        && sections.filter(|key| !is_elsewhere(key)).all(|key| match extent {
            Extent::Whole => current[key] == desired[key],
            Extent::Part => within(&current[key], &desired[key]),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_whole_is_held_only_without_anything_beyond_it() {
        let current = json!({"endpoints": [{"addresses": ["10.0.0.1"]}], "addressType": "IPv4"});
        let cases = [
            (current.clone(), true, true),
            (json!({"addressType": "IPv4", "endpoints": []}), false, true),
            (json!({"addressType": "IPv6"}), false, false),
        ];
        for (desired, whole, part) in cases {
            assert_eq!(holds(&current, &desired, Extent::Whole), whole, "{desired}");
            assert_eq!(holds(&current, &desired, Extent::Part), part, "{desired}");
        }
    }
}
