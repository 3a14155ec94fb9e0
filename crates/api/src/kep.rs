//! `multicluster.k8s.io/v1alpha1`: the Multi-Cluster Services API as its first edition has it (KEP-1645).
//!
//! A [`ServiceExport`] is written by the user and has no spec: it means the Service of the same name. An
//! [`ImportedService`] is derived in every member from all exports of one name.

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{Desired, Status, Stored};
use crate::crd::annotate;
use crate::schema;
pub use crate::service::ServicePort;
use crate::service::{IpFamily, SessionAffinity};
use crate::vocabulary::vocabulary;

/// Label of an imported slice: the ImportedService it belongs to (KEP-1645 first edition, Consumption of EndpointSlice).
pub const IMPORTED_SERVICE_NAME_LABEL: &str = "multicluster.kubernetes.io/imported-service-name";

/// Label of an imported slice: the id of the cluster its endpoints are in (KEP-1645 first edition, Consumption of
/// EndpointSlice). Today's API uses the same key.
pub const SOURCE_CLUSTER_LABEL: &str = "multicluster.kubernetes.io/source-cluster";

/// The DNS zone of supercluster services (KEP-1645 first edition, DNS).
pub const ZONE: &str = "supercluster.local";

vocabulary! {
    /// Conditions of an export (KEP-1645 first edition, Exporting Services).
    ExportCondition {
        /// Noticed, valid, finalizers set, address reserved.
        Initialized = "Initialized",
        /// Synced to every cluster of the supercluster.
        Exported = "Exported",
        /// Exports of this name disagree on a property of the whole service (KEP-1645 first edition, Global Properties:
        /// "a condition will be set"; the text gives it no name, so it has the one of today's API).
        Conflict = "Conflict",
    }
}

vocabulary! {
    /// Reasons of export conditions. KEP-1645 first edition leaves them open (`reason` is optional); the words are those
    /// of today's API where it has one.
    ExportReason {
        /// `Initialized`: all preparations are made.
        Initialized = "Initialized",
        /// `Initialized=False`: there is no Service of this name.
        NoService = "NoService",
        /// `Initialized=False`: the Service is of type ExternalName (KEP-1645 first edition, Service Types).
        InvalidServiceType = "InvalidServiceType",
        /// `Initialized=False`: no supercluster address could be reserved (KEP-1645 first edition, SuperclusterIP).
        AddressNotReserved = "AddressNotReserved",
        /// `Exported`: every live member has applied it.
        Exported = "Exported",
        /// `Exported=False`: some member has not applied it yet.
        Pending = "Pending",
        /// `Exported=False`: some member could not apply it; the message names member and object.
        Failed = "Failed",
        /// `Exported=False`: withdrawn because exports disagree (KEP-1645 first edition, Global Properties).
        Conflict = "Conflict",
        /// `Conflict`: one port name, several ports (KEP-1645 first edition, Service Port).
        PortConflict = "PortConflict",
        /// `Conflict`: not one IP family (KEP-1645 first edition, IP Family).
        IpFamilyConflict = "IPFamilyConflict",
        /// `Conflict=False`: all exports agree.
        NoConflicts = "NoConflicts",
    }
}

/// The body of a ServiceExport: empty, an export has no spec.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "multicluster.k8s.io",
    version = "v1alpha1",
    kind = "ServiceExport",
    namespaced,
    no_spec,
    status = "ServiceExportStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "scex",
    category = "multicluster",
    doc = "ServiceExport makes the Service of the same name and namespace usable in all clusters of the supercluster.",
    printcolumn(
        name = "Initialized",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Initialized")].status"#
    ),
    printcolumn(
        name = "Exported",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Exported")].status"#
    ),
    printcolumn(
        name = "Conflict",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Conflict")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ServiceExportBody {}

/// What has become of an export.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
pub struct ServiceExportStatus {
    /// Initialized, Exported and Conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<ServiceExportCondition>,
}

/// One aspect of the state of an export.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportCondition {
    /// Initialized, Exported or Conflict.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: Status,
    /// Since when the condition has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Time>,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
}

impl Stored for ServiceExportCondition {
    fn type_(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        self.status.as_str()
    }

    fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    fn since(&self) -> Option<&Time> {
        self.last_transition_time.as_ref()
    }

    /// This older form of a condition has no place for the observed generation.
    fn build(desired: Desired, since: Time) -> Self {
        ServiceExportCondition {
            type_: desired.type_,
            status: desired.status,
            last_transition_time: Some(since),
            reason: Some(desired.reason),
            message: Some(desired.message),
        }
    }
}

/// How the service is consumed in this cluster. Written by Tombolo.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "multicluster.k8s.io",
    version = "v1alpha1",
    kind = "ImportedService",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    shortname = "impsvc",
    category = "multicluster",
    doc = "ImportedService is a service of the supercluster as one cluster sees it: all exports of one name, merged.",
    printcolumn(name = "Family", type_ = "string", json_path = ".spec.ipFamily"),
    printcolumn(name = "IP", type_ = "string", json_path = ".spec.ip"),
    printcolumn(name = "Clusters", type_ = "string", json_path = ".spec.clusters[*].cluster"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.ip) || ip(self.ip).family() == (self.ipFamily == 'IPv4' ? 4 : 6)").message("ip must be of the family that ipFamily names").field_path(".ip"))]
pub struct ImportedServiceSpec {
    /// The superset of the ports of all exports.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ports: Vec<ServicePort>,
    /// The exporting clusters, each with the properties that are carried per cluster.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["cluster".into()]))]
    pub clusters: Vec<ClusterSpec>,
    /// The IP family that all exports have.
    pub ip_family: IpFamily,
    /// The address of the service in this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    #[x_kube(validation = ("isIP(self)", "must be an IP address"))]
    pub ip: Option<String>,
}

/// What one cluster's export brings along for its own endpoints.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The id of the exporting cluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::CLUSTER_ID))]
    pub cluster: String,
    /// Node labels by which a client picks among this cluster's endpoints, the first match first; "*" matches all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub topology_keys: Vec<String>,
    /// Endpoints of this cluster are published before they are ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub publish_not_ready_addresses: bool,
    /// Whether a client's connections to this cluster stay together.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// For how long they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::session_affinity_config")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

/// Annotation that the API server demands of CRDs in `*.k8s.io` groups.
pub(crate) const API_APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    // The first edition never passed API review; the server accepts a value that says so.
    let unapproved =
        "unapproved, first edition of KEP-1645 (https://github.com/kubernetes/enhancements/pull/1646)";
    [ServiceExport::crd(), ImportedService::crd()]
        .map(|crd| annotate(crd, API_APPROVED_ANNOTATION, unapproved))
        .into()
}
