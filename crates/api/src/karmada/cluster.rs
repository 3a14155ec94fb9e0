//! `cluster.karmada.io/v1alpha1`: Cluster, a member as the hub knows it.
//!
//! Only the fields that Tombolo reads or writes; a Karmada control plane has more.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::vocabulary::vocabulary;

/// Finalizer of a Cluster: its namespace and Works are still to be removed (Karmada as built).
pub const FINALIZER: &str = "karmada.io/cluster-controller";

/// Taint of a cluster whose API server says it is not ready (Karmada as built).
pub const NOT_READY_TAINT: &str = "cluster.karmada.io/not-ready";

/// Taint of a cluster that cannot be reached (Karmada as built).
pub const UNREACHABLE_TAINT: &str = "cluster.karmada.io/unreachable";

/// The longest name a cluster may have (Karmada as built, cluster name validation).
pub const MAX_NAME_LENGTH: usize = 48;

vocabulary! {
    /// Conditions of a Cluster (Karmada as built).
    ClusterCondition {
        /// The cluster is alive.
        Ready = "Ready",
        /// The list of its APIs is whole.
        CompleteApiEnablements = "CompleteAPIEnablements",
    }
}

vocabulary! {
    /// Reasons of a Cluster's `Ready` (Karmada as built, cluster status controller).
    ReadyReason {
        /// `True`.
        ClusterReady = "ClusterReady",
        /// `False`: it answers and says it is not ready.
        ClusterNotReady = "ClusterNotReady",
        /// `False`: it does not answer.
        ClusterNotReachable = "ClusterNotReachable",
        /// `Unknown`: its agent has fallen silent.
        ClusterStatusUnknown = "ClusterStatusUnknown",
    }
}

vocabulary! {
    /// Who starts the connection between hub and member (Karmada as built, `ClusterSyncMode`).
    #[derive(Default)]
    SyncMode {
        /// The hub reaches into the member.
        Push = "Push",
        /// The member's agent comes to the hub.
        #[default]
        Pull = "Pull",
    }
}

/// How the hub and the member meet, and where the member is.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    status = "ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    category = "karmada-io",
    doc = "Cluster is a member as the hub knows it.",
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 48").message("the name must be a DNS label of at most 48 characters"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.kubernetesVersion"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.syncMode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(oldSelf.id) || (has(self.id) && self.id == oldSelf.id)", "the identity of a cluster cannot be changed"))]
pub struct ClusterSpec {
    /// The identity of the cluster, which outlives its name: its clusterset id or the UID of its kube-system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub id: Option<String>,
    /// Push or Pull.
    pub sync_mode: SyncMode,
    /// Where the member's API server is; for Push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_endpoint: Option<String>,
    /// The Secret with token and caBundle for it; for Push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// The member's certificate is not checked. Not for production.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verification: bool,
    /// A proxy on the way to the member.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "proxyURL")]
    pub proxy_url: Option<String>,
    /// Headers for that proxy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_header: BTreeMap<String, String>,
    /// Who runs the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The region the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zones the cluster is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// What keeps work away from the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Vec<Taint>,
}

/// Where a Secret is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}

/// What is known about the member.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The version of its API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// The APIs it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    /// Ready and CompleteAPIEnablements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Its nodes, counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_summary: Option<NodeSummary>,
}

/// The resources of one API version.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    pub group_version: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
}

/// One resource of an API version.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ApiResource {
    /// The plural name.
    pub name: String,
    pub kind: String,
}

/// Nodes, counted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSummary {
    #[serde(default)]
    pub total_num: i32,
    #[serde(default)]
    pub ready_num: i32,
}
