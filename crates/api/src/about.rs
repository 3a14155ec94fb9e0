//! `about.k8s.io`: facts a cluster states about itself (KEP-2149).
//!
//! Tombolo reads the cluster's id and its membership here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::{annotate, serve_also};
use crate::kep::API_APPROVED_ANNOTATION;

/// The property that holds the cluster's id (KEP-2149, well-known properties).
pub const CLUSTER_ID_PROPERTY: &str = "cluster.clusterset.k8s.io";

/// The property that names the set a cluster is a member of, there exactly while it is one (KEP-2149, well-known
/// properties).
pub const CLUSTER_SET_PROPERTY: &str = "clusterset.k8s.io";

/// The value of a property.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "about.k8s.io",
    version = "v1beta1",
    kind = "ClusterProperty",
    plural = "clusterproperties",
    status = "ClusterPropertyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ClusterProperty is one fact about the cluster it is in; its name says which.",
    printcolumn(name = "Value", type_ = "string", json_path = ".spec.value"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ClusterPropertySpec {
    /// The value; what it may be depends on the property.
    #[schemars(length(min = 1, max = 128000))]
    pub value: String,
}

/// Nothing yet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterPropertyStatus {}

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    let crd = serve_also(ClusterProperty::crd(), "v1alpha1");
    vec![annotate(crd, API_APPROVED_ANNOTATION, "https://github.com/kubernetes/enhancements/pull/2149")]
}
