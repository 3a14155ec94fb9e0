//! The Service of a Work in the member: made where there is none, kept as the Work wants it where it is ours, used as it is
//! where it is somebody else's. Somebody else's is ours while an annotation on the Work's manifest says so, and theirs again
//! afterwards.
//!
//! What is written over an object of somebody else cannot be taken back, and whatever was read may be out of date. So a
//! Service is created, not applied, where there seems to be none, and every change names the object and the version it is
//! meant for: who was wrong gets a conflict and looks again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::work::{
    CONFLICT_RESOLUTION_ANNOTATION, ConflictResolution, NAME_ANNOTATION, NAMESPACE_ANNOTATION, Work,
};
use tombolo_api::tombolo::{ADOPTED_ANNOTATION, WORK_GENERATION_ANNOTATION};
use tombolo_model::strategy::keep_aside;
use tombolo_runtime::{Extent, Key, find, holds, unless_gone};

use crate::mark::mark;
use crate::shared::{Shared, WRITER};

/// Makes the Service, unless somebody else has one of the name: that one is used as it is. Returns the status it has.
pub(crate) async fn apply(shared: &Shared, work: &Work, service: &Service) -> Result<Option<Value>, Error> {
    let key = Key::of(service);
    let api: Api<Service> = Api::namespaced(shared.member.client.clone(), &key.namespace);
    let Some(current) = find(&api, shared.member.services.get(&key), &key.name).await? else {
        let params = PostParams { field_manager: Some(WRITER.to_owned()), ..PostParams::default() };
        let made = api.create(&params, &desired(shared, work, service)).await?;
        return Ok(status_of(&made));
    };
    let is_foreign = shared.maker(&*current).is_none();
    let is_theirs = is_foreign || current.annotations().contains_key(ADOPTED_ANNOTATION);
    if is_theirs && !overwrites(service) {
        if !is_foreign {
            release(&api, &current).await?;
        }
        return Ok(status_of(&current));
    }
    let mut desired = desired(shared, work, service);
    if is_theirs {
        desired.annotations_mut().insert(ADOPTED_ANNOTATION.to_owned(), "true".to_owned());
    }
    keep_aside(&current, &mut desired);
    if is_as_wanted(&current, &desired) {
        return Ok(status_of(&current));
    }
    change(&api, &current, desired).await.map(|changed| status_of(&changed))
}

/// The Service as a Work wants it, with our marks.
fn desired(shared: &Shared, work: &Work, service: &Service) -> Service {
    let mut desired = service.clone();
    mark(&mut desired, work, &shared.namespace);
    let generation = work.metadata.generation.unwrap_or_default();
    desired.annotations_mut().insert(WORK_GENERATION_ANNOTATION.to_owned(), generation.to_string());
    desired
}

/// Leaves a Service that was adopted to its owner again, with the content it has and without our marks.
pub(crate) async fn release(api: &Api<Service>, service: &Service) -> Result<(), Error> {
    let keys = [
        NAMESPACE_ANNOTATION,
        NAME_ANNOTATION,
        CONFLICT_RESOLUTION_ANNOTATION,
        WORK_GENERATION_ANNOTATION,
        ADOPTED_ANNOTATION,
    ];
    let annotations: BTreeMap<&str, Option<&str>> = keys.into_iter().map(|key| (key, None)).collect();
    let metadata = json!({"labels": {MANAGED_LABEL: null}, "annotations": annotations,
        "uid": service.uid(), "resourceVersion": service.resource_version()});
    let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
    let patch = json!({"metadata": metadata});
    unless_gone(api.patch(&service.name_any(), &params, &Patch::Merge(&patch)).await)
}

/// Whether nothing has to be written. The server fills in what nobody asked for, but no selector: one key more selects
/// other pods, or none.
fn is_as_wanted(current: &Service, desired: &Service) -> bool {
    holds(WRITER, current, desired, Extent::Part) && selector(current) == selector(desired)
}

fn selector(service: &Service) -> BTreeMap<String, String> {
    service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default()
}

/// The merge patch that takes away what applying left there: what somebody added to a list or to the selector.
fn trimming(written: &Service, desired: &Service) -> Result<Value, Error> {
    let mut patch = serde_json::to_value(desired).map_err(Error::SerdeError)?;
    let wanted = selector(desired);
    if wanted.is_empty() {
        patch["spec"]["selector"] = Value::Null;
    } else {
        let stray = selector(written).into_keys().filter(|key| !wanted.contains_key(key));
        stray.for_each(|key| patch["spec"]["selector"][key] = Value::Null);
    }
    patch["metadata"]["resourceVersion"] = json!(written.resource_version());
    Ok(patch)
}

/// Makes exactly this Service, in exactly this version, what is desired.
async fn change(api: &Api<Service>, current: &Service, mut desired: Service) -> Result<Service, Error> {
    let name = current.name_any();
    let merging = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
    // Caches do not keep who owns what. If this is another version than the one that was looked at, the writes fail.
    let mut known = api.get(&name).await?;
    known.metadata.resource_version = current.resource_version();
    known.metadata.uid = current.uid();
    if let Some(patch) = as_applied(&known) {
        known = api.patch(&name, &merging, &Patch::Merge(&patch)).await?;
    }
    desired.metadata.uid = known.uid();
    desired.metadata.resource_version = known.resource_version();
    let written = api.patch(&name, &PatchParams::apply(WRITER).force(), &Patch::Apply(&desired)).await?;
    if is_as_wanted(&written, &desired) {
        return Ok(written);
    }
    api.patch(&name, &merging, &Patch::Merge(&trimming(&written, &desired)?)).await
}

/// The change that makes what we created, or merged, count as applied; `None` if it does. Only what was applied goes when
/// it is not applied any more.
fn as_applied(service: &Service) -> Option<Value> {
    let entries = service.metadata.managed_fields.as_ref()?;
    let own = |operation: &str| {
        entries.iter().position(|entry| {
            entry.manager.as_deref() == Some(WRITER)
                && entry.operation.as_deref() == Some(operation)
                && entry.subresource.is_none()
        })
    };
    let (updated, mut entries) = (own("Update")?, entries.clone());
    match own("Apply") {
        Some(_) => drop(entries.remove(updated)),
        None => entries[updated].operation = Some("Apply".to_owned()),
    }
    let version = service.resource_version();
    Some(json!({"metadata": {"uid": service.uid(), "resourceVersion": version, "managedFields": entries}}))
}

fn overwrites(service: &Service) -> bool {
    let word = service.annotations().get(CONFLICT_RESOLUTION_ANNOTATION);
    word.is_some_and(|word| word == ConflictResolution::Overwrite.as_str())
}

fn status_of(service: &Service) -> Option<Value> {
    service.status.as_ref().and_then(|status| serde_json::to_value(status).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn managed(entries: &Value) -> Service {
        from_value(json!({"metadata": {"name": "foo", "managedFields": entries}})).unwrap()
    }

    fn entry(manager: &str, operation: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {}}})
    }

    fn selecting(selector: &Value) -> Service {
        from_value(json!({"metadata": {"name": "foo"}, "spec": {"selector": selector, "type": "ClusterIP"}}))
            .unwrap()
    }

    #[test]
    fn a_selector_is_as_wanted_only_as_a_whole() {
        let (wanted, none) = (selecting(&json!({"app": "foo"})), selecting(&Value::Null));
        let more = selecting(&json!({"app": "foo", "tier": "web"}));
        assert!(is_as_wanted(&wanted, &wanted) && is_as_wanted(&none, &none));
        assert!(!is_as_wanted(&more, &wanted), "it selects other pods");
        assert!(!is_as_wanted(&wanted, &none), "its endpoints are somebody's own");
        let trimmed = |desired: &Service| trimming(&more, desired).unwrap()["spec"]["selector"].clone();
        assert_eq!(trimmed(&wanted), json!({"app": "foo", "tier": null}));
        assert_eq!(trimmed(&none), Value::Null);
    }

    #[test]
    fn what_we_created_counts_as_applied_and_what_others_wrote_stays_theirs() {
        let cases = [
            (json!([entry(WRITER, "Update")]), Some(json!([entry(WRITER, "Apply")]))),
            (
                json!([entry("owner", "Update"), entry(WRITER, "Apply"), entry(WRITER, "Update")]),
                Some(json!([entry("owner", "Update"), entry(WRITER, "Apply")])),
            ),
            (json!([entry(WRITER, "Apply"), entry("owner", "Update")]), None),
            (json!([]), None),
        ];
        for (entries, expected) in cases {
            let found =
                as_applied(&managed(&entries)).map(|patch| patch["metadata"]["managedFields"].clone());
            assert_eq!(found, expected, "{entries}");
        }
    }
}
