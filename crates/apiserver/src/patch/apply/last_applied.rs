//! The way from client-side to server-side apply.
//!
//! `kubectl apply` keeps what it applied in an annotation. When the same object is then applied with `--server-side`,
//! what the annotation says and the object still has is `kubectl`'s own, whoever the entries name: no conflict.

use serde_json::Value;

use super::compare::compare;
use super::fieldset::FieldSet;
use super::owned::fields_of;
use crate::shape::Shape;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager for which this holds.
const MANAGER: &str = "kubectl";

/// The fields that `manager` may take from others, from what it applied on the client's side.
pub(super) fn claimed(live: &Value, manager: &str, api_version: &str, shape: &Shape) -> FieldSet {
    applied_before(live, manager)
        .filter(|applied| applied.get("apiVersion").and_then(Value::as_str) == Some(api_version))
        .map_or_else(FieldSet::default, |applied| {
            let change = compare(&applied, live, shape);
            let fields = fields_of(&applied, shape);
            fields.difference(&change.changed).difference(&change.added).difference(&change.removed)
        })
}

fn applied_before(live: &Value, manager: &str) -> Option<Value> {
    let text = live.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (manager == MANAGER).then(|| serde_json::from_str(text).ok())?
}

/// Brings the annotation, where there is one, up to date with what is applied now.
pub(super) fn refresh(object: &mut Value, applied: &Value, manager: &str) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let is_kept = annotations.get(ANNOTATION).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if manager != MANAGER || !is_kept {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), format!("{applied}\n").into());
}
