//! Writing only what differs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Error, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::trim::field_names;
use crate::work::unless_gone;

/// A kind with a namespace that a part reads and writes.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + PartialEq
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + PartialEq
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// How much of an object is ours to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it: what is there beyond what we want has to go.
    Whole,
    /// What we want; the server fills in the rest.
    Part,
}

/// What the API server has under a name. A cache that knows of nothing may only be late, so then the server is asked:
/// what is applied over an object of somebody else cannot be taken back.
pub async fn find<K: Kind>(
    api: &Api<K>,
    cached: Option<Arc<K>>,
    name: &str,
) -> Result<Option<Arc<K>>, Error> {
    match cached {
        Some(cached) => Ok(Some(cached)),
        None => Ok(api.get_opt(name).await?.map(Arc::new)),
    }
}

/// Makes the API server hold `desired`, in the name of `manager`, unless `current` shows that it does. Returns what was
/// written.
pub async fn put<K: Kind>(
    manager: &str,
    api: &Api<K>,
    current: Option<&K>,
    desired: &K,
    extent: Extent,
) -> Result<Option<K>, Error> {
    if current.is_some_and(|current| holds(manager, current, desired, extent)) {
        return Ok(None);
    }
    apply(manager, api, desired, extent).await.map(|(written, _)| Some(written))
}

/// Writes, and says whether what was written is known to hold what is desired.
pub(crate) async fn apply<K: Kind>(
    manager: &str,
    api: &Api<K>,
    desired: &K,
    extent: Extent,
) -> Result<(K, bool), Error> {
    let (name, params) = (desired.name_any(), PatchParams::apply(manager).force());
    let written = api.patch(&name, &params, &Patch::Apply(desired)).await?;
    if is_just(&written, desired) || holds(manager, &written, desired, extent) {
        return Ok((written, true));
    }
    // What somebody else added to a list of ours stays there when ours is applied; a merge replaces lists.
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    Ok((api.patch(&name, &params, &Patch::Merge(desired)).await?, false))
}

/// Deletes exactly this object, not one that took its name since.
pub async fn delete<K: Kind>(api: &Api<K>, object: &K) -> Result<(), Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
        ..DeleteParams::background()
    };
    unless_gone(api.delete(&object.name_any(), &params).await)
}

/// Deletes this object as it was seen; what has changed since stays, which is a conflict.
pub async fn delete_unchanged<K: Kind>(api: &Api<K>, object: &K) -> Result<(), Error> {
    let seen = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
    let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::background() };
    unless_gone(api.delete(&object.name_any(), &params).await)
}

/// Whether `written` is `desired` and nothing else, but for metadata that others add: what nearly every write leaves, and
/// found out for a fraction of what [`holds`] costs.
fn is_just<K: Kind>(written: &K, desired: &K) -> bool {
    let (there, wanted) = (written.meta(), desired.meta());
    let mut same = desired.clone();
    same.meta_mut().clone_from(there);
    includes(&there.labels, &wanted.labels)
        && includes(&there.annotations, &wanted.annotations)
        && wanted
            .owner_references
            .as_ref()
            .is_none_or(|owners| there.owner_references.as_ref() == Some(owners))
        && same == *written
}

fn includes(all: &Option<BTreeMap<String, String>>, some: &Option<BTreeMap<String, String>>) -> bool {
    let has = |(key, value)| all.as_ref().and_then(|all| all.get(key)) == Some(value);
    some.iter().flatten().all(has)
}

/// Whether `current` is as `desired` wants it, as far as `extent` goes, and `manager` has nothing to take back.
pub fn holds<T: Serialize>(manager: &str, current: &T, desired: &T, extent: Extent) -> bool {
    let (Ok(mut current), Ok(mut desired)) = (serde_json::to_value(current), serde_json::to_value(desired))
    else {
        return false;
    };
    if has_applied_more(manager, &current, &desired) {
        return false;
    }
    strip(&mut current);
    strip(&mut desired);
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

/// Whether `manager` once applied something to `current` that is not in `desired`, such as a label.
fn has_applied_more(manager: &str, current: &Value, desired: &Value) -> bool {
    let written = current["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut applied = written.filter(|entry| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
    });
    applied.any(|entry| names_more(&field_names(&entry["fieldsV1"]), desired))
}

/// Whether field names in the notation of `managedFields` lead to anything that is not in `value`. Elements of lists are
/// left to whoever compares the lists.
fn names_more(fields: &Value, value: &Value) -> bool {
    let named = fields.as_object().into_iter().flatten();
    named
        .filter_map(|(key, below)| Some((key.strip_prefix("f:")?, below)))
        .any(|(name, below)| value.get(name).is_none_or(|value| names_more(below, value)))
}

/// Takes out what means nothing: nulls, empty maps and empty lists.
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
            assert_eq!(holds("us", &current, &desired, Extent::Whole), whole, "{desired}");
            assert_eq!(holds("us", &current, &desired, Extent::Part), part, "{desired}");
        }
    }

    #[test]
    fn what_we_applied_and_want_no_more_has_to_go_and_what_others_applied_may_stay() {
        let applied = |manager: &str| {
            let fields =
                json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:b": {}}}, "f:spec": {"f:x": {}}});
            json!([{"manager": manager, "operation": "Apply", "fieldsV1": fields}])
        };
        let current = |manager: &str| {
            json!({
                "metadata": {"labels": {"a": "1", "b": "2"}, "managedFields": applied(manager)},
                "spec": {"x": 1, "filled": "in"},
            })
        };
        let all = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"x": 1}});
        let no_label = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"x": 1}});
        let no_field = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {}});
        for (desired, by_us, by_others) in
            [(all, true, true), (no_label, false, true), (no_field, false, true)]
        {
            assert_eq!(holds("us", &current("us"), &desired, Extent::Part), by_us, "{desired}");
            assert_eq!(holds("us", &current("them"), &desired, Extent::Part), by_others, "{desired}");
        }
    }
}
