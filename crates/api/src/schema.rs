//! Schema fragments for the Kubernetes types that our kinds embed.
//!
//! The API server takes structural schemas only, and merges lists by the markers it finds in them. These fragments say
//! what the types of `k8s-openapi` accept, with the bounds and list markers upstream uses.

use schemars::{Schema, SchemaGenerator, json_schema};

/// One DNS label (RFC 1123).
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A cluster id: one or two DNS labels (KEP-1645 as of today, cluster id).
pub(crate) const CLUSTER_ID: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)?$";
/// A resourceVersion: a decimal number without leading zeros, so that two of them can be compared.
pub(crate) const RESOURCE_VERSION: &str = "^(0|[1-9][0-9]*)$";

const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// A list of `metav1.Condition`, merged by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": { "type": "string", "minLength": 1, "maxLength": 1024, "pattern": CONDITION_REASON },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE },
            },
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// A `metav1.Time`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A `metav1.LabelSelector`.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string" },
                        "operator": { "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"] },
                        "values": {
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

/// A core `SessionAffinityConfig` with the bounds that the API server puts on a Service's.
pub(crate) fn session_affinity_config(_: &mut SchemaGenerator) -> Schema {
    affinity_config(json_schema!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 86400 }))
}

/// A core `SessionAffinityConfig` as the CRD of today's MCS API has it: without bounds.
pub(crate) fn open_session_affinity_config(_: &mut SchemaGenerator) -> Schema {
    affinity_config(json_schema!({ "type": "integer", "format": "int32" }))
}

fn affinity_config(timeout_seconds: Schema) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "clientIP": { "type": "object", "properties": { "timeoutSeconds": timeout_seconds } },
        },
    })
}

/// A core `LoadBalancerStatus`.
pub(crate) fn load_balancer_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "ingress": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "hostname": { "type": "string" },
                        "ip": { "type": "string" },
                        "ipMode": { "type": "string" },
                        "ports": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["port", "protocol"],
                                "properties": {
                                    "error": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE },
                                    "port": { "type": "integer", "format": "int32" },
                                    "protocol": { "type": "string" },
                                },
                            },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
        },
    })
}

/// A list of core `Taint`s.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["effect", "key"],
            "properties": {
                "effect": { "type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"] },
                "key": { "type": "string", "minLength": 1 },
                "timeAdded": { "type": "string", "format": "date-time" },
                "value": { "type": "string" },
            },
        },
        "x-kubernetes-list-type": "atomic",
    })
}

/// Any object, kept as it is.
pub(crate) fn raw_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of any objects, each kept as it is.
pub(crate) fn raw_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": raw_object(generator) })
}
