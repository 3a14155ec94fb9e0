//! How an object in a member shows which Work put it there.
//!
//! The label and the two annotations are Karmada's, and Karmada puts the very same on everything that it propagates itself,
//! into the same member and from a namespace of the same name. So they are not enough to call an object ours: it must also
//! have something that only Tombolo writes. A Service is ours if the name of its Work is the one that Tombolo derives from
//! the name of the Service, which also leaves out a copy that somebody made under another name; a slice, if it tells its
//! origin. Both have always been so, hence what earlier versions made is known, too.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use tombolo_api::karmada::MANAGED_LABEL;
use tombolo_api::karmada::networking::SLICE_ORIGIN_ANNOTATION;
use tombolo_api::karmada::work::{NAME_ANNOTATION, NAMESPACE_ANNOTATION, Work};
use tombolo_api::tombolo::{PRESERVED_ANNOTATION, ServiceRef};
use tombolo_model::names;
use tombolo_runtime::Kind;

/// A kind that Works put into members.
pub(crate) trait Made: Kind {
    /// Whether nobody but Tombolo can have made it from a Work of this name.
    fn is_ours_from(&self, work: &str) -> bool;
}

impl Made for Service {
    fn is_ours_from(&self, work: &str) -> bool {
        let service = ServiceRef { namespace: self.namespace().unwrap_or_default(), name: self.name_any() };
        names::service_work(&service) == work
    }
}

impl Made for EndpointSlice {
    fn is_ours_from(&self, _: &str) -> bool {
        self.annotations().contains_key(SLICE_ORIGIN_ANNOTATION)
    }
}

/// The Work of an execution namespace that put an object into the member, if one of ours did.
pub(crate) fn maker<K: Made>(object: &K, namespace: &str) -> Option<String> {
    let annotation = |key: &str| object.annotations().get(key);
    let is_marked = object.labels().get(MANAGED_LABEL).is_some_and(|value| value == "true");
    let is_here = annotation(NAMESPACE_ANNOTATION).is_some_and(|found| found == namespace);
    annotation(NAME_ANNOTATION).filter(|work| is_marked && is_here && object.is_ours_from(work)).cloned()
}

/// Puts on an object whose it is, whatever the manifest says.
pub(crate) fn mark<K: Made>(object: &mut K, work: &Work, namespace: &str) {
    object.labels_mut().insert(MANAGED_LABEL.to_owned(), "true".to_owned());
    let preserved = work.spec.preserve_resources_on_deletion == Some(true);
    let annotations = object.annotations_mut();
    annotations.insert(NAMESPACE_ANNOTATION.to_owned(), namespace.to_owned());
    annotations.insert(NAME_ANNOTATION.to_owned(), work.name_any());
    if preserved {
        annotations.insert(PRESERVED_ANNOTATION.to_owned(), "true".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    const HERE: &str = "karmada-es-east";

    fn metadata(work: &str, more: &Value) -> Value {
        let mut annotations = json!({"work.karmada.io/namespace": HERE, "work.karmada.io/name": work});
        annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "foo", "namespace": "demo", "labels": {"karmada.io/managed": "true"},
            "annotations": annotations})
    }

    fn service(work: &str) -> Service {
        from_value(json!({"metadata": metadata(work, &json!({}))})).unwrap()
    }

    fn slice(more: &Value) -> EndpointSlice {
        from_value(json!({"metadata": metadata("any", more), "addressType": "IPv4", "endpoints": []}))
            .unwrap()
    }

    #[test]
    fn what_karmada_propagated_is_not_ours_though_it_has_the_same_marks() {
        let ours = names::service_work(&ServiceRef { namespace: "demo".into(), name: "foo".into() });
        assert_eq!(maker(&service(&ours), HERE), Some(ours.clone()));
        assert_eq!(maker(&service("foo-6d7f8c9b5"), HERE), None);
        assert_eq!(maker(&service(&ours), "karmada-es-west"), None, "somebody else's Tombolo");
        let mut copy = service(&ours);
        copy.metadata.name = Some("copy".to_owned());
        assert_eq!(maker(&copy, HERE), None, "a copy has all marks of its original");
        assert_eq!(maker(&slice(&json!({})), HERE), None);
        assert!(
            maker(&slice(&json!({"tombolo.dev/slice-origin": "2026-01-01T00:00:00Z u"})), HERE).is_some()
        );
    }
}
