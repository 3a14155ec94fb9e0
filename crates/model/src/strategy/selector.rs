//! Putting a Service's selector aside, and giving it back.
//!
//! A selector that is taken away leaves behind what was made for it: the stock controller no longer looks at slices of a
//! Service without one, and the old Endpoints object would be mirrored into new slices. So the selector stays and gets one
//! key more that no pod has. The stock controllers then empty everything themselves, also after a restart, and whoever
//! applies the Service as before, key by key, does not undo it. What the owner wants is always the selector without our
//! key: edits meanwhile are not lost, and giving it back is taking the key away. An annotation shows the selector to people.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use tombolo_api::tombolo::{SET_ASIDE_SELECTOR_ANNOTATION as NOTE, SET_ASIDE_SELECTOR_KEY as KEY};

/// The value of the key: a label value, as a selector's must be.
const VALUE: &str = "true";

/// Whether the Service has a selector that was put aside.
pub fn is_put_aside(service: &Service) -> bool {
    selector(service).contains_key(KEY)
}

/// Leaves a selector aside where it is when its owner writes the Service anew. What comes back is then what they write.
pub fn keep_aside(current: &Service, desired: &mut Service) {
    let wanted = desired.spec.as_mut().and_then(|spec| spec.selector.as_mut());
    if let (Some(value), Some(wanted)) =
        (selector(current).remove(KEY), wanted.filter(|wanted| !wanted.is_empty()))
    {
        wanted.insert(KEY.to_owned(), value);
    }
}

/// The selector its owner wants; empty if none.
pub(crate) fn wanted(service: &Service) -> BTreeMap<String, String> {
    let mut selector = selector(service);
    selector.remove(KEY);
    selector
}

/// The merge patch that puts the selector aside; `None` if it is, or if there is none.
pub(super) fn put_aside(service: &Service) -> Option<Value> {
    let wanted = wanted(service);
    if wanted.is_empty() {
        return give_back(service);
    }
    let text = serde_json::to_string(&wanted).unwrap_or_default();
    let settled =
        selector(service).get(KEY).is_some_and(|value| value == VALUE) && note(service) == Some(&text);
    (!settled).then(|| json!({"metadata": {"annotations": {NOTE: text}}, "spec": {"selector": {KEY: VALUE}}}))
}

/// The merge patch that gives the selector back; `None` if it is not aside.
pub(super) fn give_back(service: &Service) -> Option<Value> {
    let mut patch = json!({});
    if note(service).is_some() {
        patch["metadata"] = json!({"annotations": {NOTE: null}});
    }
    if is_put_aside(service) {
        let empty = wanted(service).is_empty();
        patch["spec"] = json!({"selector": if empty { Value::Null } else { json!({KEY: null}) }});
    }
    (patch != json!({})).then_some(patch)
}

fn selector(service: &Service) -> BTreeMap<String, String> {
    service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default()
}

fn note(service: &Service) -> Option<&String> {
    service.metadata.annotations.as_ref()?.get(NOTE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, to_value};

    use super::*;

    fn service(selector: Value) -> Service {
        let metadata = json!({"name": "echo", "namespace": "demo", "annotations": {"owner": "team"}});
        from_value(json!({"metadata": metadata, "spec": {"selector": selector, "ports": [{"port": 80}]}}))
            .unwrap()
    }

    /// RFC 7386.
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            match value {
                Value::Null => _ = target.as_object_mut().unwrap().remove(key),
                value => merge(&mut target[key], value),
            }
        }
    }

    fn patched(service: &Service, patch: Option<Value>) -> Service {
        let mut value = to_value(service).unwrap();
        merge(&mut value, &patch.unwrap_or(json!({})));
        from_value(value).unwrap()
    }

    #[test]
    fn a_selector_that_is_aside_selects_nothing_and_is_shown() {
        let aside = patched(&service(json!({"app": "echo"})), put_aside(&service(json!({"app": "echo"}))));
        assert!(is_put_aside(&aside));
        assert_eq!(aside.spec.as_ref().unwrap().selector.as_ref().unwrap()[KEY], VALUE);
        assert_eq!(note(&aside).unwrap(), r#"{"app":"echo"}"#);
        assert_eq!(put_aside(&aside), None);
    }

    #[test]
    fn what_is_written_anew_stays_aside_only_if_it_was() {
        let before = service(json!({"app": "echo"}));
        let aside = patched(&before, put_aside(&before));
        let kept = |current: &Service, wanted: Value| {
            let mut desired = service(wanted);
            keep_aside(current, &mut desired);
            desired
        };
        let next = kept(&aside, json!({"app": "new"}));
        assert!(is_put_aside(&next));
        assert_eq!(wanted(&next), BTreeMap::from([("app".to_owned(), "new".to_owned())]));
        assert!(!is_put_aside(&kept(&before, json!({"app": "new"}))));
        assert!(!is_put_aside(&kept(&aside, Value::Null)), "there is nothing to put aside");
    }

    #[test]
    fn edits_of_the_owner_are_what_comes_back() {
        let aside = patched(&service(json!({"app": "echo"})), put_aside(&service(json!({"app": "echo"}))));
        let edits = [
            (json!({"app": "other", KEY: VALUE}), json!({"app": "other"})),
            (json!({"app": "echo", "tier": "web", KEY: VALUE}), json!({"app": "echo", "tier": "web"})),
            (json!({"app": "new"}), json!({"app": "new"})),
            (json!({KEY: VALUE}), Value::Null),
        ];
        for (edited, expected) in edits {
            let mut value = to_value(&aside).unwrap();
            value["spec"]["selector"] = edited.clone();
            let edited: Service = from_value(value).unwrap();
            let again = patched(&edited, put_aside(&edited));
            assert_eq!(is_put_aside(&again), expected != Value::Null, "{expected}");
            assert_eq!(put_aside(&again), None);
            for state in [edited, again] {
                assert_eq!(patched(&state, give_back(&state)), service(expected.clone()), "{expected}");
            }
        }
    }

    #[test]
    fn a_service_without_a_selector_is_left_alone() {
        for none in [Value::Null, json!({})] {
            assert_eq!((put_aside(&service(none.clone())), give_back(&service(none))), (None, None));
        }
    }

    proptest! {
        #[test]
        fn what_was_put_aside_comes_back_byte_for_byte(
            selector in prop::collection::btree_map("[a-z./]{1,8}", "\\PC{0,8}", 0..5),
        ) {
            let before = service(to_value(&selector).unwrap());
            let aside = patched(&before, put_aside(&before));
            prop_assert_eq!(is_put_aside(&aside), !selector.is_empty());
            let back = patched(&aside, give_back(&aside));
            let bytes = |service: &Service| serde_json::to_vec(service).unwrap();
            prop_assert_eq!(bytes(&back), bytes(&before));
            prop_assert_eq!(give_back(&back), None);
        }
    }
}
