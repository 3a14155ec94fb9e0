//! ServiceOffer: what a member publishes at the hub about one Service it exports.
//!
//! It carries everything the merge needs and nothing else, so that every member computes the same import from the same
//! offers. Endpoints travel beside it as EndpointSlices: they change often, an offer seldom.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SessionAffinityConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::service::{InternalTrafficPolicy, IpFamily, ServicePort, SessionAffinity};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// The edition of the API an export was written in; only offers of one dialect are merged.
    Dialect {
        /// KEP-1645, first edition.
        Kep = "kep",
        /// Today's MCS API.
        Mcs = "mcs",
    }
}

vocabulary! {
    /// Whether the exported Service has an address of its own (KEP-1645, Service Types).
    #[derive(Default)]
    OfferType {
        /// It has. NodePort and LoadBalancer Services are offered as this, too.
        #[default]
        ClusterIp = "ClusterIP",
        /// It has none.
        Headless = "Headless",
    }
}

vocabulary! {
    /// How near an endpoint is to its client.
    Tier {
        /// In the same zone.
        Zone = "zone",
        /// In the same region.
        Region = "region",
        /// In the same cluster.
        Cluster = "cluster",
        /// Anywhere.
        Any = "any",
    }
}

/// One exported Service as its cluster has it.
#[derive(CustomResource, Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "ServiceOffer",
    namespaced,
    derive = "PartialEq",
    shortname = "offer",
    category = "multicluster",
    doc = "ServiceOffer is what a member publishes at the hub about one Service it exports. Written by its agent.",
    printcolumn(name = "Dialect", type_ = "string", json_path = ".spec.dialect"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster"),
    printcolumn(name = "Service-Namespace", type_ = "string", json_path = ".spec.service.namespace"),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Ports", type_ = "string", json_path = ".spec.ports[*].port", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.dialect == oldSelf.dialect && self.cluster == oldSelf.cluster && self.service == oldSelf.service", "an offer stays that of one dialect, cluster and service"))]
pub struct ServiceOfferSpec {
    /// The edition of the API the export was written in.
    pub dialect: Dialect,
    /// The id of the offering cluster. Must be the one whose namespace the offer is in.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::CLUSTER_ID))]
    pub cluster: String,
    /// The Service, which has the same name in every cluster.
    pub service: ServiceRef,
    /// When the ServiceExport was created; where exports disagree, the oldest may win.
    #[schemars(schema_with = "schema::time")]
    pub exported_at: Time,
    /// ClusterIP or Headless.
    #[serde(rename = "type")]
    pub type_: OfferType,
    /// The ports of the Service; may be empty for a headless one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ports: Vec<ServicePort>,
    /// The IP families of the Service, the first one first.
    #[schemars(length(min = 1, max = 2))]
    #[x_kube(
        validation = ("self.size() < 2 || self[0] != self[1]", "a family can be named once"),
        merge_strategy = ListMerge::Atomic
    )]
    pub ip_families: Vec<IpFamily>,
    /// Whether connections of one client stay together.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// For how long they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::session_affinity_config")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// Node labels by which a client picks among this cluster's endpoints (kep dialect).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub topology_keys: Vec<String>,
    /// Endpoints are published before they are ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub publish_not_ready_addresses: bool,
    /// Whether traffic from inside a cluster may leave the client's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<InternalTrafficPolicy>,
    /// Which endpoints are preferred, as on the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub traffic_distribution: Option<String>,
    /// The tiers traffic prefers, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(
        validation = ("self.all(t, self.exists_one(u, u == t))", "a tier can be named once"),
        merge_strategy = ListMerge::Atomic
    )]
    pub prefer: Vec<Tier>,
    /// Labels for the import (mcs dialect).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub exported_labels: BTreeMap<String, String>,
    /// Annotations for the import (mcs dialect).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub exported_annotations: BTreeMap<String, String>,
}

/// A Service by name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServiceRef {
    /// The namespace of the Service.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub namespace: String,
    /// The name of the Service.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
}
