//! `multicluster.x-k8s.io`: today's Multi-Cluster Services API, v1beta1 (KEP-1645 as of 2026).
//!
//! Served at v1alpha1 and v1beta1 with one schema, because stock CoreDNS still reads v1alpha1; the types here are for
//! v1beta1. Fields that upstream leaves open are open here, too: where its own CRD is installed, any text may arrive.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::{label, serve_also};
pub use crate::kep::SOURCE_CLUSTER_LABEL;
use crate::schema;
use crate::vocabulary::vocabulary;

/// Label of an imported slice: the ServiceImport it belongs to (KEP-1645 today, EndpointSlice).
pub const SERVICE_NAME_LABEL: &str = "multicluster.kubernetes.io/service-name";

/// Annotation of a ServiceImport: the Service that holds its address (kubernetes-sigs/mcs-api reference controller; not
/// in the KEP).
pub const DERIVED_SERVICE_ANNOTATION: &str = "multicluster.kubernetes.io/derived-service";

/// The DNS zone of clusterset services (KEP-1645 today, DNS specification).
pub const ZONE: &str = "clusterset.local";

/// Label of the CRD: the upstream release whose schema it has (kubernetes-sigs/mcs-api, CRD labels). Installers compare
/// it to avoid downgrades.
pub const RELEASE_VERSION_LABEL: &str = "multicluster.x-k8s.io/release-version";

/// Label of the CRD: how often the schema changed since that release (kubernetes-sigs/mcs-api, CRD labels).
pub const SCHEMA_REVISION_LABEL: &str = "multicluster.x-k8s.io/crd-schema-revision";

vocabulary! {
    /// Conditions of a ServiceExport (KEP-1645 today, ServiceExport conditions).
    ExportCondition {
        /// The export means a Service that can be exported.
        Valid = "Valid",
        /// The service is available in the clusterset.
        Ready = "Ready",
        /// Exports of this name disagree. `True` is the bad news.
        Conflict = "Conflict",
    }
}

vocabulary! {
    /// Reasons of a ServiceExport's `Valid` (kubernetes-sigs/mcs-api v1beta1, `ServiceExportConditionValid`).
    ValidReason {
        /// `True`.
        Valid = "Valid",
        /// `False`: there is no Service of this name.
        NoService = "NoService",
        /// `False`: the Service is of type ExternalName.
        InvalidServiceType = "InvalidServiceType",
    }
}

vocabulary! {
    /// Reasons of a ServiceExport's `Ready` (kubernetes-sigs/mcs-api v1beta1, `ServiceExportConditionReady`).
    ReadyReason {
        /// `True`: published to the other clusters.
        Exported = "Exported",
        /// `True`: ready to be fetched by the other clusters.
        Ready = "Ready",
        /// `False` or `Unknown`: not yet.
        Pending = "Pending",
        /// `False`: it did not work.
        Failed = "Failed",
    }
}

vocabulary! {
    /// Reasons of a ServiceExport's `Conflict`; several are joined by commas (kubernetes-sigs/mcs-api v1beta1,
    /// `ServiceExportConditionConflict`).
    ConflictReason {
        PortConflict = "PortConflict",
        TypeConflict = "TypeConflict",
        SessionAffinityConflict = "SessionAffinityConflict",
        SessionAffinityConfigConflict = "SessionAffinityConfigConflict",
        LabelsConflict = "LabelsConflict",
        AnnotationsConflict = "AnnotationsConflict",
        InternalTrafficPolicyConflict = "InternalTrafficPolicyConflict",
        TrafficDistributionConflict = "TrafficDistributionConflict",
        IpFamilyConflict = "IPFamilyConflict",
        /// `False`: all exports agree.
        NoConflicts = "NoConflicts",
    }
}

vocabulary! {
    /// Conditions of a ServiceImport (KEP-1645 today, ServiceImport conditions).
    ImportCondition {
        /// The service can be consumed in this cluster.
        Ready = "Ready",
    }
}

vocabulary! {
    /// Reasons of a ServiceImport's `Ready` (kubernetes-sigs/mcs-api v1beta1, `ServiceImportConditionReady`).
    ImportReadyReason {
        /// `True`.
        Ready = "Ready",
        /// `False` or `Unknown`: not yet.
        Pending = "Pending",
        /// `False`: this cluster has none of the service's IP families.
        IpFamilyNotSupported = "IPFamilyNotSupported",
    }
}

vocabulary! {
    /// How a service is consumed (kubernetes-sigs/mcs-api v1beta1, `ServiceImportType`).
    #[derive(Default)]
    ServiceImportType {
        /// Through an address that stands for all endpoints.
        #[default]
        ClusterSetIp = "ClusterSetIP",
        /// Through DNS records of the endpoints themselves.
        Headless = "Headless",
    }
}

vocabulary! {
    /// Whether there are EndpointSlices for an import (kubernetes-sigs/mcs-api v1beta1, `EndpointSliceObjectsStatus`).
    EndpointSliceObjects {
        Present = "Present",
        Absent = "Absent",
    }
}

/// The body of a ServiceExport, whose spec may be left out.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1beta1",
    kind = "ServiceExport",
    namespaced,
    no_spec,
    status = "ServiceExportStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "svcex",
    shortname = "svcexport",
    category = "multicluster",
    doc = "ServiceExport makes the Service of the same name and namespace usable in all clusters of the clusterset.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ServiceExportBody {
    /// What is exported besides the Service itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceExportSpec>,
}

/// What is exported besides the Service itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExportSpec {
    /// Labels that the import shall carry; none is taken from the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_labels: BTreeMap<String, String>,
    /// Annotations that the import shall carry; none is taken from the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exported_annotations: BTreeMap<String, String>,
}

/// What has become of an export.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServiceExportStatus {
    /// Valid, Ready and Conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// How the service is consumed.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1beta1",
    kind = "ServiceImport",
    namespaced,
    status = "ServiceImportStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "svcim",
    shortname = "svcimport",
    category = "multicluster",
    doc = "ServiceImport is a service of the clusterset as one cluster sees it: all exports of one name, merged.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "IP", type_ = "string", json_path = ".spec.ips"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportSpec {
    /// The ports of the service; may be empty for a headless one.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ports: Vec<ServicePort>,
    /// The addresses of the service in this cluster, one per family; none for a headless one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ips: Vec<String>,
    /// The IP families of the service, in the order of ips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ip_families: Vec<String>,
    /// ClusterSetIP or Headless.
    #[serde(rename = "type")]
    pub type_: ServiceImportType,
    /// None or ClientIP: whether connections of one client stay together. Ignored for a headless service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<String>,
    /// For how long they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_session_affinity_config")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// Cluster or Local: whether traffic from inside the cluster may leave the client's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<String>,
    /// Which endpoints are preferred, as on a Service (for example PreferClose).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
}

/// One port of an imported service.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port's name; may be left out of a service that has one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// TCP, UDP or SCTP; TCP if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The application protocol, as on the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// The number under which the port is reached at the service's address.
    pub port: i32,
}

/// What the import was made of and whether it works.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportStatus {
    /// The exporting clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["cluster".into()]))]
    pub clusters: Vec<ClusterStatus>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether there are EndpointSlices for this import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_slice_objects: Option<EndpointSliceObjects>,
}

/// One exporting cluster.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ClusterStatus {
    /// The id of the cluster.
    pub cluster: String,
}

pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    [ServiceExport::crd(), ServiceImport::crd()]
        .map(|crd| serve_also(crd, "v1alpha1"))
        .map(|crd| label(crd, RELEASE_VERSION_LABEL, "v0.5.2"))
        .map(|crd| label(crd, SCHEMA_REVISION_LABEL, "0"))
        .into()
}
