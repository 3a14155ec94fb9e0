//! `work.karmada.io/v1alpha1`: Work, objects on their way between the hub and one member.
//!
//! A Work lives in the execution namespace of its member. Collected slices travel to the hub as Works that are never
//! dispatched; everything else is applied in the member by its agent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;
use crate::vocabulary::vocabulary;

/// Finalizer of a dispatched Work: what it put into the member is still to be removed (Karmada as built).
pub const EXECUTION_FINALIZER: &str = "karmada.io/execution-controller";

/// Annotation of an object in a member: the namespace of its Work (Karmada as built).
pub const NAMESPACE_ANNOTATION: &str = "work.karmada.io/namespace";

/// Annotation of an object in a member: the name of its Work (Karmada as built).
pub const NAME_ANNOTATION: &str = "work.karmada.io/name";

/// Label of an object in a member: the identity of its Work (Karmada as built).
pub const PERMANENT_ID_LABEL: &str = "work.karmada.io/permanent-id";

/// Annotation of a manifest: what to do with an object of the same name that is not ours (Karmada as built).
pub const CONFLICT_RESOLUTION_ANNOTATION: &str = "work.karmada.io/conflict-resolution";

vocabulary! {
    /// Values of that annotation (Karmada as built).
    #[derive(Default)]
    ConflictResolution {
        /// Take the object over.
        Overwrite = "overwrite",
        /// Leave it alone.
        #[default]
        Abort = "abort",
    }
}

vocabulary! {
    /// Conditions of a Work (Karmada as built, `WorkStatus`).
    WorkCondition {
        /// The member has all manifests.
        Applied = "Applied",
        /// Manifests are being applied.
        Progressing = "Progressing",
        /// The objects exist in the member.
        Available = "Available",
        /// The objects are not as they should be.
        Degraded = "Degraded",
        /// The Work is meant to reach the member at all.
        Dispatching = "Dispatching",
    }
}

vocabulary! {
    /// Reasons of a Work's conditions (Karmada as built, execution controller).
    WorkReason {
        /// `Applied=True`.
        AppliedSuccessful = "AppliedSuccessful",
        /// `Applied=True` of a slice that stands there because its strategy needs it for now (Tombolo's own).
        Attached = "Attached",
        /// `Applied=True` of a slice that its strategy does without for now (Tombolo's own).
        HeldBack = "HeldBack",
        /// `Applied=False`.
        AppliedFailed = "AppliedFailed",
        /// `Dispatching=True`.
        Dispatching = "Dispatching",
        /// `Dispatching=False`.
        SuspendDispatching = "SuspendDispatching",
    }
}

vocabulary! {
    /// The health of an object in the member (Karmada as built, `ResourceHealth`).
    Health {
        Healthy = "Healthy",
        Unhealthy = "Unhealthy",
        Unknown = "Unknown",
    }
}

/// What shall be in the member.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha1",
    kind = "Work",
    namespaced,
    status = "WorkStatus",
    derive = "Default",
    derive = "PartialEq",
    shortname = "wk",
    category = "karmada-io",
    doc = "Work is a list of objects on their way between the hub and the member in whose namespace it is.",
    printcolumn(name = "Workload-Kind", type_ = "string", json_path = ".spec.workload.manifests[*].kind"),
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Applied")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The objects are stored here only and not applied in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
    /// The objects stay in the member when the Work goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
}

/// The objects of a Work.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Workload {
    /// Whole objects, as they would be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::raw_objects")]
    pub manifests: Vec<Value>,
}

/// What has become of a Work in the member.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// Applied, Dispatching and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The state of each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

/// The state of one object in the member.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ManifestStatus {
    /// Which object.
    pub identifier: ResourceIdentifier,
    /// The object's own status, as it is in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::raw_object")]
    pub status: Option<Value>,
    /// Whether the object does its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// Which object of a Work is meant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ResourceIdentifier {
    /// Its place in the list of manifests, which holds even if the manifest cannot be read.
    #[schemars(range(min = 0))]
    pub ordinal: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub version: String,
    pub kind: String,
    pub resource: String,
    /// Empty for an object without namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}
