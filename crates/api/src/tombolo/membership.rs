//! Membership: who a member is, and up to where it has applied what the others offer.
//!
//! Every agent writes its own, in its namespace at the hub. The watermark replaces one acknowledgement per service: an
//! export is everywhere once every live member's watermark has passed the offer's resourceVersion and no member lists it
//! as failed. The heartbeat is a Lease beside it.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::tombolo::Dialect;

/// Who the member is.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "Membership",
    namespaced,
    status = "MembershipStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "member",
    category = "multicluster",
    doc = "Membership is a cluster's own statement at the hub: who it is and how far it has come. Written by its agent.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Watermark", type_ = "string", json_path = ".status.watermark"),
    printcolumn(name = "Agent", type_ = "string", json_path = ".status.agentVersion"),
    printcolumn(name = "Pod-CIDRs", type_ = "string", json_path = ".spec.podCIDRs", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.cluster == oldSelf.cluster && self.identity == oldSelf.identity", "another cluster uses this id: choose another id, or remove the cluster that left"))]
pub struct MembershipSpec {
    /// The id of the cluster, unique in the supercluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::CLUSTER_ID))]
    pub cluster: String,
    /// What tells the cluster from another one with the same id: the UID of its kube-system namespace.
    #[schemars(length(min = 1, max = 128))]
    pub identity: String,
    /// Where the cluster's pods have their addresses; endpoints outside are not imported.
    #[serde(rename = "podCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 49)))]
    #[x_kube(
        validation = ("self.all(c, isCIDR(c))", "each must be a CIDR"),
        merge_strategy = ListMerge::Atomic
    )]
    pub pod_cidrs: Vec<String>,
    /// The region the cluster is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub region: Option<String>,
}

/// How far the member has come.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MembershipStatus {
    /// The resourceVersion of the hub up to which the member has applied all offers, but for the failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = schema::RESOURCE_VERSION))]
    pub watermark: Option<String>,
    /// The same for slices: they come over a watch of their own, which may be ahead or behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = schema::RESOURCE_VERSION))]
    pub slice_watermark: Option<String>,
    /// What it could not apply, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub failures: Vec<Failure>,
    /// How many more failures there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub more_failures: i32,
    /// The version of the member's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub agent_version: Option<String>,
}

/// A service that a member could not apply.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The edition of the API it was exported in.
    pub dialect: Dialect,
    /// The namespace of the service.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// The name of the service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Why, as one word.
    #[schemars(length(min = 1, max = 128))]
    pub reason: String,
    /// Which object, and why, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}

fn is_zero(count: &i32) -> bool {
    *count == 0
}

impl MembershipStatus {
    /// The watermark of offers as a number that can be compared; `None` while nothing was applied.
    pub fn applied_up_to(&self) -> Option<u64> {
        self.watermark.as_deref()?.parse().ok()
    }

    /// The same for slices.
    pub fn slices_applied_up_to(&self) -> Option<u64> {
        self.slice_watermark.as_deref()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_compare_as_numbers_and_unreadable_ones_acknowledge_nothing() {
        let up_to = |text: &str| {
            MembershipStatus { watermark: Some(text.into()), ..MembershipStatus::default() }.applied_up_to()
        };
        assert!(up_to("9") < up_to("10"));
        for unreadable in ["", "x", "-1", "99999999999999999999999"] {
            assert_eq!(up_to(unreadable), None, "{unreadable:?}");
        }
        assert_eq!(MembershipStatus::default().applied_up_to(), None);
    }
}
