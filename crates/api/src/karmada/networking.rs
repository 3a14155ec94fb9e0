//! `networking.karmada.io/v1alpha1`: MultiClusterService, a Service shared under its own name.
//!
//! It means the Service of the same name and namespace at the hub. The two cluster lists have two spellings, the
//! proposal's and Karmada's later one; both are read, and an object in which they disagree is refused.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::LoadBalancerStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::schema;
use crate::vocabulary::vocabulary;

/// Label of a Work that holds a slice: the name of the slice's Service (MultiClusterService proposal, synchronization of slices).
pub const SLICE_SERVICE_NAME_LABEL: &str = "endpointslice.karmada.io/name";

/// Label of a Work that holds a slice: the namespace of the slice's Service (MultiClusterService proposal, synchronization
/// of slices).
pub const SLICE_SERVICE_NAMESPACE_LABEL: &str = "endpointslice.karmada.io/namespace";

/// Annotation of a dispatched Work: the cluster its slice comes from (MultiClusterService proposal, synchronization of slices).
pub const WORK_PROVISION_CLUSTER_ANNOTATION: &str = "endpointslice.karmada.io/work-provision-cluster";

/// Annotation of a dispatched slice: the generation of the original (MultiClusterService proposal, synchronization of slices).
pub const SLICE_GENERATION_ANNOTATION: &str = "endpointslice.karmada.io/endpointslice-generation";

/// Annotation of a dispatched slice: the cluster the original is in (MultiClusterService proposal, synchronization of slices).
pub const PROVISION_CLUSTER_ANNOTATION: &str = "endpointslice.karmada.io/provision-cluster";

/// Label of a collected Work: on whose behalf it was collected (Karmada as built).
pub const SLICE_MANAGED_BY_LABEL: &str = "endpointslice.karmada.io/managed-by";

/// Value of `endpointslice.kubernetes.io/managed-by` on dispatched slices (Karmada as built).
pub const SLICE_DISPATCHER: &str = "endpointslice-dispatch-controller.karmada.io";

/// Label of what a MultiClusterService made, and of the Service it claims: its identity (Karmada as built).
pub const PERMANENT_ID_LABEL: &str = "multiclusterservice.karmada.io/permanent-id";

/// Label of a Work, annotation of a claimed Service: the name of the MultiClusterService (Karmada as built).
pub const NAME_LABEL: &str = "multiclusterservice.karmada.io/name";

/// Label of a Work, annotation of a claimed Service: the namespace of the MultiClusterService (Karmada as built).
pub const NAMESPACE_LABEL: &str = "multiclusterservice.karmada.io/namespace";

/// Annotation of a collected or dispatched slice: when the original was made and its UID. Generations of one original can
/// be compared; an original that was made anew under the same name begins again with 1.
pub const SLICE_ORIGIN_ANNOTATION: &str = "tombolo.dev/slice-origin";

/// Label of the Work that holds a Service: the member is to report the Service's slices.
pub const PROVISION_LABEL: &str = "tombolo.dev/provision";

/// Condition of that Work: the member reports the Service's slices.
pub const COLLECTED_CONDITION: &str = "tombolo.dev/Collected";

/// The reason of that condition when it is true and endpoints are left out (Tombolo's own); the message says why.
pub const COLLECTED_IN_PART: &str = "CollectedInPart";

/// Finalizer of a MultiClusterService (Karmada as built).
pub const FINALIZER: &str = "karmada.io/multiclusterservice-controller";

vocabulary! {
    /// Conditions of a MultiClusterService (MultiClusterService proposal, Status Record).
    MultiClusterServiceCondition {
        /// The Service is in all provision and consumption clusters.
        ServiceApplied = "ServiceApplied",
        /// The slices of all provision clusters are known at the hub.
        EndpointSliceCollected = "EndpointSliceCollected",
        /// The slices are in all consumption clusters.
        EndpointSliceApplied = "EndpointSliceApplied",
    }
}

vocabulary! {
    /// Reasons of these conditions (MultiClusterService proposal, Status Record; its examples show one of each pair, the other follows the
    /// pattern).
    MultiClusterServiceReason {
        ServiceAppliedSuccess = "ServiceAppliedSuccess",
        ServiceAppliedFailed = "ServiceAppliedFailed",
        EndpointSliceCollectedSuccess = "EndpointSliceCollectedSuccess",
        EndpointSliceCollectedFailed = "EndpointSliceCollectedFailed",
        EndpointSliceAppliedSuccess = "EndpointSliceAppliedSuccess",
        EndpointSliceAppliedFailed = "EndpointSliceAppliedFailed",
    }
}

vocabulary! {
    /// How a service is exposed (Karmada as built, `ExposureType`).
    ExposureType {
        /// To clients in other clusters.
        CrossCluster = "CrossCluster",
        /// To clients outside, too: implies CrossCluster.
        LoadBalancer = "LoadBalancer",
    }
}

/// Which clusters provide the service, and which consume it.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "networking.karmada.io",
    version = "v1alpha1",
    kind = "MultiClusterService",
    namespaced,
    status = "MultiClusterServiceStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "mcs",
    category = "karmada-io",
    doc = "MultiClusterService shares the Service of the same name and namespace among clusters, under its own name.",
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 63").message("the name must be that of a Service: a lower-case letter, then letters, digits and dashes, at most 63"),
    printcolumn(name = "Types", type_ = "string", json_path = ".spec.types"),
    printcolumn(
        name = "Service",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ServiceApplied")].status"#
    ),
    printcolumn(
        name = "Collected",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="EndpointSliceCollected")].status"#
    ),
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="EndpointSliceApplied")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = same_clusters("serviceProvisionClusters", "providerClusters"),
    validation = same_clusters("serviceConsumptionClusters", "consumerClusters")
)]
pub struct MultiClusterServiceSpec {
    /// How the service is exposed: CrossCluster or LoadBalancer. Cannot be changed.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(
        validation = ("self.all(t, t == self[0])", "only one type can be chosen"),
        validation = ("self == oldSelf", "types cannot be changed"),
        merge_strategy = ListMerge::Atomic
    )]
    pub types: Vec<ExposureType>,
    /// The ports that consumers see; all if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(
        validation = ("self.all(p, !has(p.name) || p.name == '' || self.exists_one(q, has(q.name) && q.name == p.name))", "port names must be unique"),
        merge_strategy = ListMerge::Atomic
    )]
    pub ports: Vec<ExposurePort>,
    /// Deprecated and without effect; use consumerClusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<ExposureRange>,
    /// The clusters whose endpoints are shared; all if left out. An older spelling of providerClusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 48), regex(pattern = schema::DNS_LABEL)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub service_provision_clusters: Vec<String>,
    /// The clusters where the service can be used; all if left out. An older spelling of consumerClusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 48), regex(pattern = schema::DNS_LABEL)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub service_consumption_clusters: Vec<String>,
    /// The clusters whose endpoints are shared; all if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub provider_clusters: Vec<ClusterSelector>,
    /// The clusters where the service can be used; all if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub consumer_clusters: Vec<ClusterSelector>,
}

/// The rule that two spellings of one list, if both are used, name the same clusters.
fn same_clusters(older: &str, newer: &str) -> Rule {
    let rule = format!(
        "!has(self.{older}) || !has(self.{newer}) || self.{older}.size() == 0 || self.{newer}.size() == 0 \
         || (self.{older}.all(c, self.{newer}.exists(s, s.name == c)) && self.{newer}.all(s, s.name in self.{older}))"
    );
    let message = format!("{older} and {newer} are two spellings of one list and name different clusters");
    Rule::new(rule).message(message.as_str())
}

/// A port that consumers see.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ExposurePort {
    /// The name the port has in the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub name: Option<String>,
    /// The number the port has in the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// The oldest way to name clusters.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRange {
    /// Names of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// A cluster, by name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ClusterSelector {
    /// The name of the cluster.
    #[schemars(length(min = 1, max = 48), regex(pattern = schema::DNS_LABEL))]
    pub name: String,
}

/// How far the service has come, and where it is reached from outside.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MultiClusterServiceStatus {
    /// ServiceApplied, EndpointSliceCollected and EndpointSliceApplied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The addresses of the consumption clusters' load balancers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::load_balancer_status")]
    pub load_balancer: Option<LoadBalancerStatus>,
}

/// The clusters that one of the lists means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clusters<'a> {
    /// All members, also those that join later.
    All,
    /// These.
    Named(BTreeSet<&'a str>),
}

/// Both spellings of a list are set and name different clusters.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "spec.{older} and spec.{newer} are two spellings of one list and name different clusters: keep one of them"
)]
pub struct SpellingsDiffer {
    pub older: &'static str,
    pub newer: &'static str,
}

impl MultiClusterServiceSpec {
    /// The clusters whose endpoints are shared. The CRD refuses a disagreement; a server without its rules does not.
    pub fn provision(&self) -> Result<Clusters<'_>, SpellingsDiffer> {
        let names = ("serviceProvisionClusters", "providerClusters");
        resolve(names, &self.service_provision_clusters, &self.provider_clusters)
    }

    /// The clusters where the service can be used.
    pub fn consumption(&self) -> Result<Clusters<'_>, SpellingsDiffer> {
        let names = ("serviceConsumptionClusters", "consumerClusters");
        resolve(names, &self.service_consumption_clusters, &self.consumer_clusters)
    }
}

fn resolve<'a>(
    (older_name, newer_name): (&'static str, &'static str),
    older: &'a [String],
    newer: &'a [ClusterSelector],
) -> Result<Clusters<'a>, SpellingsDiffer> {
    let older: BTreeSet<&str> = older.iter().map(String::as_str).collect();
    let newer: BTreeSet<&str> = newer.iter().map(|selector| selector.name.as_str()).collect();
    match (older.is_empty(), newer.is_empty()) {
        (true, true) => Ok(Clusters::All),
        (false, true) => Ok(Clusters::Named(older)),
        (true, false) => Ok(Clusters::Named(newer)),
        (false, false) if older == newer => Ok(Clusters::Named(newer)),
        (false, false) => Err(SpellingsDiffer { older: older_name, newer: newer_name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provision(older: &[&str], newer: &[&str]) -> MultiClusterServiceSpec {
        MultiClusterServiceSpec {
            service_provision_clusters: older.iter().map(|name| name.to_string()).collect(),
            provider_clusters: newer.iter().map(|name| ClusterSelector { name: name.to_string() }).collect(),
            ..MultiClusterServiceSpec::default()
        }
    }

    #[test]
    fn either_spelling_of_a_list_names_its_clusters_and_none_means_all() {
        let named = |names: &[&'static str]| Clusters::Named(names.iter().copied().collect());
        let cases: [(&[&str], &[&str], Clusters<'static>); 5] = [
            (&[], &[], Clusters::All),
            (&["a", "b"], &[], named(&["a", "b"])),
            (&[], &["b"], named(&["b"])),
            (&["a", "b"], &["b", "a"], named(&["a", "b"])),
            (&["a", "a"], &["a"], named(&["a"])),
        ];
        for (older, newer, expected) in cases {
            assert_eq!(provision(older, newer).provision(), Ok(expected), "{older:?} {newer:?}");
        }
    }

    #[test]
    fn spellings_that_disagree_are_refused_by_name() {
        for (older, newer) in [(&["a"][..], &["b"][..]), (&["a", "b"], &["a"]), (&["a"], &["a", "b"])] {
            let error = provision(older, newer).provision().unwrap_err();
            assert!(error.to_string().contains("spec.serviceProvisionClusters and spec.providerClusters"));
        }
    }
}
