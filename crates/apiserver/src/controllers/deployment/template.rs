//! From a Deployment's template to the ReplicaSet that runs it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;

use super::super::{fingerprint, ownership};

/// Tells the pods of one template from those of another.
pub(super) const HASH: &str = "pod-template-hash";

/// Whether `set` runs what `deployment` asks for now.
pub(super) fn is_same(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let found = set.spec.template.clone().map(|mut template| {
        if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
            labels.remove(HASH);
        }
        template
    });
    found.as_ref() == Some(&deployment.spec.template)
}

/// A new set for the current template.
pub(super) fn set(
    deployment: &Deployment,
    replicas: i32,
    notes: BTreeMap<String, String>,
) -> Option<ReplicaSet> {
    let spec = &deployment.spec;
    let salt = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = fingerprint::of(&spec.template, salt);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut matching = spec.selector.match_labels.clone().unwrap_or_default();
    matching.insert(HASH.to_owned(), hash.clone());
    let selector = LabelSelector { match_labels: Some(matching), ..spec.selector.clone() };
    let metadata = ObjectMeta {
        name: Some(format!("{}-{hash}", deployment.name_any())),
        namespace: deployment.namespace(),
        labels: Some(labels),
        annotations: Some(notes),
        owner_references: Some(vec![ownership::reference(deployment)?]),
        ..ObjectMeta::default()
    };
    let spec = ReplicaSetSpec {
        replicas: Some(replicas),
        min_ready_seconds: spec.min_ready_seconds,
        selector,
        template: Some(template),
    };
    Some(ReplicaSet { metadata, spec, status: None })
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn deployment(image: &str) -> Deployment {
        from_value(json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "me"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_set_is_recognised_by_its_template() {
        let (first, second) = (deployment("one"), deployment("two"));
        let set = set(&first, 3, BTreeMap::new()).unwrap();
        assert!(is_same(&first, &set));
        assert!(!is_same(&second, &set));
        let hash = &set.labels()[HASH];
        assert_eq!(set.name_any(), format!("web-{hash}"));
        assert_eq!(set.spec.selector.match_labels.as_ref().unwrap().get(HASH), Some(hash));
    }

    #[test]
    fn a_collision_changes_the_name() {
        let first = deployment("one");
        let mut salted = first.clone();
        salted.status.get_or_insert_default().collision_count = Some(1);
        let name = |deployment: &Deployment| set(deployment, 1, BTreeMap::new()).unwrap().name_any();
        assert_eq!(name(&first), name(&first.clone()));
        assert_ne!(name(&first), name(&salted));
    }
}
