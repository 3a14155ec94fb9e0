//! One pod of a StatefulSet: its name, its hostname, the claims that stay when it goes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::super::ownership;

/// Says of which template a pod is.
pub(super) const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// A pod to be made, and the claims it mounts.
#[derive(Debug, PartialEq)]
pub(super) struct Member {
    pub(super) pod: Pod,
    pub(super) claims: Vec<PersistentVolumeClaim>,
}

/// The number in the name of a pod of `set`; nothing for names that are none of its.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.metadata.name.as_deref()?;
    let digits = name.strip_prefix(set.metadata.name.as_deref()?)?.strip_prefix('-')?;
    digits.parse().ok().filter(|ordinal: &i32| *ordinal >= 0 && ordinal.to_string() == digits)
}

/// The numbers that the pods of `set` should have.
pub(super) fn ordinals(set: &StatefulSet) -> std::ops::Range<i32> {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(set.spec.replicas.unwrap_or(1).max(0))
}

/// The member with this number, after a template that was written down under `revision`.
pub(super) fn member(
    set: &StatefulSet,
    template: &PodTemplateSpec,
    revision: &str,
    ordinal: i32,
) -> Option<Member> {
    let name = format!("{}-{ordinal}", set.name_any());
    let claims = claims(set, &name);
    let described = template.metadata.clone().unwrap_or_default();
    let mut labels = described.labels.unwrap_or_default();
    labels.insert(POD_NAME.to_owned(), name.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION.to_owned(), revision.to_owned());
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    mount(&mut spec, &claims);
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: set.namespace(),
        labels: Some(labels),
        annotations: described.annotations,
        finalizers: described.finalizers,
        owner_references: Some(vec![ownership::reference(set)?]),
        ..ObjectMeta::default()
    };
    let pod = Pod { metadata, spec: Some(spec), status: None };
    Some(Member { pod, claims: claims.into_values().collect() })
}

/// The claims of a pod by the names of their templates. They have no owner: what is stored outlives the pod.
fn claims(set: &StatefulSet, pod: &str) -> BTreeMap<String, PersistentVolumeClaim> {
    let labels = set.spec.selector.match_labels.clone();
    let made = set.spec.volume_claim_templates.iter().flatten().map(|template| {
        let metadata = ObjectMeta {
            name: Some(format!("{}-{pod}", template.name_any())),
            namespace: set.namespace(),
            labels: labels.clone(),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        let claim = PersistentVolumeClaim { metadata, spec: template.spec.clone(), status: None };
        (template.name_any(), claim)
    });
    made.collect()
}

fn mount(spec: &mut PodSpec, claims: &BTreeMap<String, PersistentVolumeClaim>) {
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|volume| !claims.contains_key(&volume.name));
    volumes.extend(claims.iter().map(|(name, claim)| Volume {
        name: name.clone(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.name_any(),
            read_only: None,
        }),
        ..Volume::default()
    }));
    if volumes.is_empty() {
        spec.volumes = None;
    }
}
