//! What hardly anybody reads of an object's metadata, so that caches of many objects need not keep it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
use kube::core::ObjectMeta;
use serde_json::Value;

/// Leaves names, labels, annotations, the resource version and whether it is being deleted.
pub fn trim_metadata(metadata: &mut ObjectMeta) {
    let kept = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        labels: metadata.labels.take(),
        annotations: metadata.annotations.take(),
        resource_version: metadata.resource_version.take(),
        deletion_timestamp: metadata.deletion_timestamp.take(),
        ..ObjectMeta::default()
    };
    *metadata = kept;
}

/// Leaves of who wrote what only what parts of Tombolo applied: by that they know what to take back. The names of the fields
/// are kept as text ([`field_names`]), since a tree of them takes more room than most objects, and is seldom read.
pub(crate) fn keep_applied(metadata: &mut ObjectMeta) {
    if let Some(written) = &mut metadata.managed_fields {
        let is_ours = |manager: &String| manager.starts_with("tombolo");
        written.retain(|entry| {
            entry.operation.as_deref() == Some("Apply")
                && entry.subresource.is_none()
                && entry.manager.as_ref().is_some_and(is_ours)
        });
        for FieldsV1(fields) in written.iter_mut().filter_map(|entry| entry.fields_v1.as_mut()) {
            *fields = Value::String(fields.to_string());
        }
    }
    metadata.managed_fields = metadata.managed_fields.take().filter(|written| !written.is_empty());
}

/// The names of fields in an entry of `managedFields`, as the server tells them or as [`keep_applied`] leaves them.
pub(crate) fn field_names(kept: &Value) -> Cow<'_, Value> {
    match kept {
        Value::String(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
        tree => Cow::Borrowed(tree),
    }
}

/// Leaves of the annotations only those that are read.
pub fn trim_annotations(metadata: &mut ObjectMeta, read: &[&str]) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| read.contains(&key.as_str()));
    }
    metadata.annotations = metadata.annotations.take().filter(|annotations| !annotations.is_empty());
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_we_applied_stays_as_text_and_can_be_read_again() {
        let names = json!({"f:spec": {"f:ports": {}}});
        let entry = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": names});
        let written =
            [entry("tombolo-agent", "Apply"), entry("tombolo-agent", "Update"), entry("kubectl", "Apply")];
        let mut metadata: ObjectMeta = from_value(json!({"name": "a", "managedFields": written})).unwrap();
        keep_applied(&mut metadata);
        let kept = serde_json::to_value(&metadata).unwrap()["managedFields"].take();
        assert_eq!(kept.as_array().map(Vec::len), Some(1), "{kept}");
        assert!(kept[0]["fieldsV1"].is_string(), "{kept}");
        assert_eq!(*field_names(&kept[0]["fieldsV1"]), names);
        assert_eq!(*field_names(&names), names);
    }

    #[test]
    fn what_tells_objects_and_their_versions_apart_stays() {
        let mut metadata: ObjectMeta = from_value(json!({
            "name": "a", "namespace": "b", "resourceVersion": "7", "uid": "u", "generation": 3,
            "labels": {"l": "1"}, "annotations": {"keep": "1", "drop": "2"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "v"}],
        }))
        .unwrap();
        trim_metadata(&mut metadata);
        trim_annotations(&mut metadata, &["keep"]);
        let left = json!({
            "name": "a", "namespace": "b", "resourceVersion": "7", "labels": {"l": "1"}, "annotations": {"keep": "1"},
        });
        assert_eq!(serde_json::to_value(&metadata).unwrap(), left);
        trim_annotations(&mut metadata, &[]);
        assert_eq!(metadata.annotations, None);
    }
}
