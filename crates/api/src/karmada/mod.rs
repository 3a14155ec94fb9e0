//! Karmada's doors: the kinds and words by which Tombolo works like Karmada's multi-cluster services.
//!
//! Names follow Karmada's two accepted proposals, of native naming and of MultiClusterService, and, where these are silent,
//! Karmada as built. [`networking`] has MultiClusterService, [`work`] what is sent to members, [`cluster`] the members,
//! [`strategy`] how local and remote endpoints are combined under a Service's own name.

pub mod cluster;
pub mod networking;
pub mod strategy;
pub mod work;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Category under which kubectl lists all of these kinds (Karmada as built).
pub const CATEGORY: &str = "karmada-io";

/// Prefix of a member's namespace at the hub, followed by the cluster's name (Karmada as built, execution namespace).
pub const EXECUTION_NAMESPACE_PREFIX: &str = "karmada-es-";

/// Label of an execution namespace: it belongs to the system (Karmada as built).
pub const SYSTEM_LABEL: &str = "karmada.io/system";

/// Label of an object in a member: it was put there by a Work (Karmada as built).
pub const MANAGED_LABEL: &str = "karmada.io/managed";

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    vec![networking::MultiClusterService::crd(), work::Work::crd(), cluster::Cluster::crd()]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_is_in_the_category() {
        for crd in super::crds() {
            assert_eq!(crd.spec.names.categories.as_deref(), Some(&[super::CATEGORY.to_owned()][..]));
        }
    }
}
