//! The built-in resources: one line each.

use std::sync::{Arc, LazyLock};

use super::{Generation, Resource, Source, Traits, View};
use crate::shape::Shape;
use crate::types;

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    traits: Traits,
}

const PLAIN: Traits = Traits {
    status: false,
    scale: false,
    generation: Generation::None,
    upsert: false,
    needs_version: false,
    delete_returns_object: false,
    review: false,
};
const STATUS: Traits = Traits { status: true, ..PLAIN };
const WORKLOAD: Traits = Traits { status: true, scale: true, generation: Generation::Spec, ..PLAIN };
const SPEC: Traits = Traits { status: true, generation: Generation::Spec, ..PLAIN };
const UPSERT: Traits = Traits { upsert: true, ..PLAIN };
const RETURNED: Traits = Traits { delete_returns_object: true, ..PLAIN };
const REVIEW: Traits = Traits { review: true, ..PLAIN };

const ALL: &[&str] = &["all"];
const EXTENSIONS: &[&str] = &["api-extensions"];
const CLUSTER: bool = false;
const NAMESPACED: bool = true;

macro_rules! rows {
    ($($group:literal $version:literal { $($kind:literal $plural:literal $short:expr, $cats:expr, $scope:expr, $traits:expr;)* })*) => {
        &[$($(Row { group: $group, version: $version, kind: $kind, plural: $plural, short: &$short, categories: $cats,
            namespaced: $scope, traits: $traits },)*)*]
    };
}

const ROWS: &[Row] = rows! {
    "" "v1" {
        "Namespace" "namespaces" ["ns"], &[], CLUSTER, Traits { status: true, ..RETURNED };
        "ConfigMap" "configmaps" ["cm"], &[], NAMESPACED, PLAIN;
        "Secret" "secrets" [], &[], NAMESPACED, PLAIN;
        "ServiceAccount" "serviceaccounts" ["sa"], &[], NAMESPACED, RETURNED;
        "Service" "services" ["svc"], ALL, NAMESPACED, Traits { status: true, upsert: true, ..RETURNED };
        "Endpoints" "endpoints" ["ep"], &[], NAMESPACED, UPSERT;
        "Event" "events" ["ev"], &[], NAMESPACED, UPSERT;
        "Pod" "pods" ["po"], ALL, NAMESPACED, Traits { generation: Generation::Spec, status: true, ..RETURNED };
        "PodTemplate" "podtemplates" [], &[], NAMESPACED, Traits { generation: Generation::Spec, ..RETURNED };
        "Node" "nodes" ["no"], &[], CLUSTER, STATUS;
        "PersistentVolume" "persistentvolumes" ["pv"], &[], CLUSTER, Traits { status: true, ..RETURNED };
        "PersistentVolumeClaim" "persistentvolumeclaims" ["pvc"], &[], NAMESPACED, Traits { status: true, ..RETURNED };
        "ReplicationController" "replicationcontrollers" ["rc"], ALL, NAMESPACED, WORKLOAD;
        "ResourceQuota" "resourcequotas" ["quota"], &[], NAMESPACED, Traits { status: true, ..RETURNED };
        "LimitRange" "limitranges" ["limits"], &[], NAMESPACED, UPSERT;
    }
    "apps" "v1" {
        "Deployment" "deployments" ["deploy"], ALL, NAMESPACED, Traits { generation: Generation::SpecOrAnnotations, ..WORKLOAD };
        "ReplicaSet" "replicasets" ["rs"], ALL, NAMESPACED, WORKLOAD;
        "StatefulSet" "statefulsets" ["sts"], ALL, NAMESPACED, WORKLOAD;
        "DaemonSet" "daemonsets" ["ds"], ALL, NAMESPACED, SPEC;
        "ControllerRevision" "controllerrevisions" [], &[], NAMESPACED, PLAIN;
    }
    "batch" "v1" {
        "Job" "jobs" [], ALL, NAMESPACED, SPEC;
        "CronJob" "cronjobs" ["cj"], ALL, NAMESPACED, SPEC;
    }
    "autoscaling" "v2" {
        "HorizontalPodAutoscaler" "horizontalpodautoscalers" ["hpa"], ALL, NAMESPACED, STATUS;
    }
    "policy" "v1" {
        "PodDisruptionBudget" "poddisruptionbudgets" ["pdb"], &[], NAMESPACED, Traits { needs_version: true, ..SPEC };
    }
    "discovery.k8s.io" "v1" {
        "EndpointSlice" "endpointslices" [], &[], NAMESPACED, Traits { generation: Generation::ContentOrLabels, ..PLAIN };
    }
    "coordination.k8s.io" "v1" {
        "Lease" "leases" [], &[], NAMESPACED, Traits { upsert: true, needs_version: true, ..PLAIN };
    }
    "events.k8s.io" "v1" {
        "Event" "events" ["ev"], &[], NAMESPACED, UPSERT;
    }
    "networking.k8s.io" "v1" {
        "Ingress" "ingresses" ["ing"], &[], NAMESPACED, SPEC;
        "IngressClass" "ingressclasses" [], &[], CLUSTER, Traits { status: false, ..SPEC };
        "NetworkPolicy" "networkpolicies" ["netpol"], &[], NAMESPACED, Traits { status: false, ..SPEC };
    }
    "scheduling.k8s.io" "v1" {
        "PriorityClass" "priorityclasses" ["pc"], &[], CLUSTER, Traits { generation: Generation::Spec, ..PLAIN };
    }
    "rbac.authorization.k8s.io" "v1" {
        "Role" "roles" [], &[], NAMESPACED, UPSERT;
        "RoleBinding" "rolebindings" [], &[], NAMESPACED, UPSERT;
        "ClusterRole" "clusterroles" [], &[], CLUSTER, UPSERT;
        "ClusterRoleBinding" "clusterrolebindings" [], &[], CLUSTER, UPSERT;
    }
    "apiextensions.k8s.io" "v1" {
        "CustomResourceDefinition" "customresourcedefinitions" ["crd", "crds"], EXTENSIONS, CLUSTER, Traits { needs_version: true, ..SPEC };
    }
    "authentication.k8s.io" "v1" {
        "TokenReview" "tokenreviews" [], &[], CLUSTER, REVIEW;
        "SelfSubjectReview" "selfsubjectreviews" [], &[], CLUSTER, REVIEW;
    }
    "authorization.k8s.io" "v1" {
        "SubjectAccessReview" "subjectaccessreviews" [], &[], CLUSTER, REVIEW;
        "SelfSubjectAccessReview" "selfsubjectaccessreviews" [], &[], CLUSTER, REVIEW;
        "LocalSubjectAccessReview" "localsubjectaccessreviews" [], &[], NAMESPACED, REVIEW;
        "SelfSubjectRulesReview" "selfsubjectrulesreviews" [], &[], CLUSTER, REVIEW;
    }
};

/// The built-in resources, shared by all clusters of the process: they never change.
pub(super) fn resources() -> &'static [Arc<Resource>] {
    static RESOURCES: LazyLock<Vec<Arc<Resource>>> =
        LazyLock::new(|| ROWS.iter().map(|row| Arc::new(resource(row))).collect());
    &RESOURCES
}

fn resource(row: &Row) -> Resource {
    let api_version = super::api_version(row.group, row.version);
    // Both Event APIs are views of the same objects, stored as core/v1.
    let is_event_view = row.group == "events.k8s.io";
    let collection =
        if is_event_view { "/events".into() } else { format!("{}/{}", row.group, row.plural).into() };
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: owned(row.short),
        categories: owned(row.categories),
        namespaced: row.namespaced,
        traits: row.traits,
        collection,
        shape: types::shape(&api_version, row.kind).unwrap_or(Shape::Open),
        source: Source::Builtin(types::find(&api_version, row.kind)),
        empty: types::find(&api_version, row.kind).map(empty),
        view: if is_event_view { View::Events } else { View::Stored },
        stored_api_version: if is_event_view { "v1".to_owned() } else { api_version },
    }
}

fn empty(ty: types::TypeRef) -> serde_json::Value {
    let mut value = serde_json::json!({});
    types::normalize(ty, &mut value);
    value
}
