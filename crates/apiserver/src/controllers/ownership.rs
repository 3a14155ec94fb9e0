//! Owner references: who made an object, and who may claim it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// The one owner that manages the object.
pub(super) fn controller_of<K: ResourceExt>(object: &K) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

pub(super) fn is_controlled_by<K: ResourceExt>(object: &K, uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner.uid == uid)
}

/// A reference by which `owner` manages an object. Nothing for an object that is not stored yet.
pub(super) fn reference<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    let reference = owner.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..reference })
}

/// Whether `selector` selects these labels. A selector nobody can read selects nothing.
pub(super) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    parse(selector).is_some_and(|selector| selector.matches(labels))
}

pub(super) fn parse(selector: &LabelSelector) -> Option<Selector> {
    selector.clone().try_into().ok()
}

/// How a controller stands to an object it might manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Mine,
    /// It fits and has no controller.
    Adopt,
    /// It is ours but fits no more.
    Release,
    Foreign,
}

/// Whether the controller `uid`, which is not being deleted when `alive`, owns `object` or wants to.
pub(super) fn claim<K: ResourceExt>(object: &K, uid: &str, selector: &LabelSelector, alive: bool) -> Claim {
    let fits = selects(selector, object.labels());
    match controller_of(object) {
        Some(owner) if owner.uid != uid => Claim::Foreign,
        Some(_) if fits || !alive => Claim::Mine,
        Some(_) => Claim::Release,
        None if fits && alive && object.meta().deletion_timestamp.is_none() => Claim::Adopt,
        None => Claim::Foreign,
    }
}

/// A strategic merge patch that makes `owner` the controller of the object with `uid`.
pub(super) fn adoption(uid: &str, owner: &OwnerReference) -> Value {
    json!({"metadata": {"uid": uid, "ownerReferences": [owner]}})
}

/// A strategic merge patch that lets go of the object with `uid`.
pub(super) fn release(uid: &str, owner_uid: &str) -> Value {
    json!({"metadata": {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::from_value;

    use super::*;

    #[test]
    fn objects_are_claimed_by_owner_then_by_labels() {
        let selector: LabelSelector = from_value(json!({"matchLabels": {"app": "a"}})).unwrap();
        let pod = |app: &str, owner: Option<&str>, deleting: bool| -> Pod {
            let mut metadata = json!({"name": "p", "labels": {"app": app}});
            if let Some(uid) = owner {
                metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true}]);
            }
            if deleting {
                metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            from_value(json!({ "metadata": metadata })).unwrap()
        };
        let cases = [
            ("a", Some("me"), false, true, Claim::Mine),
            ("b", Some("me"), false, true, Claim::Release),
            ("b", Some("me"), false, false, Claim::Mine),
            ("a", Some("you"), false, true, Claim::Foreign),
            ("a", None, false, true, Claim::Adopt),
            ("a", None, false, false, Claim::Foreign),
            ("a", None, true, true, Claim::Foreign),
            ("b", None, false, true, Claim::Foreign),
        ];
        for (app, owner, deleting, alive, expected) in cases {
            let pod = pod(app, owner, deleting);
            assert_eq!(claim(&pod, "me", &selector, alive), expected, "{app} {owner:?} {deleting} {alive}");
        }
    }
}
