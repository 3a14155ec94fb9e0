//! What protects running parts from people and neighbours.

use k8s_openapi::api::core::v1::{
    ResourceQuota, ResourceQuotaSpec, ScopeSelector, ScopedResourceSelectorRequirement,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use tombolo_api::tombolo::MANAGED_BY_LABEL;

use crate::manifest::Manifest;
use crate::part::{INSTALLER, NAME_LABEL, Part};
use crate::pod::{DNS_PORT, PRIORITY_CLASSES};
use crate::settings::Settings;

/// Some clusters (GKE) admit pods of these priorities only where a quota says how many there may be. It limits nothing.
pub(crate) fn quota(settings: &Settings) -> Manifest {
    let labels = [(NAME_LABEL, "tombolo"), (MANAGED_BY_LABEL, INSTALLER)];
    let critical = ScopedResourceSelectorRequirement {
        scope_name: "PriorityClass".to_owned(),
        operator: "In".to_owned(),
        values: Some(PRIORITY_CLASSES.map(str::to_owned).to_vec()),
    };
    Manifest::of(&ResourceQuota {
        metadata: ObjectMeta {
            name: Some("tombolo-critical-pods".to_owned()),
            namespace: Some(settings.namespace.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: Some(ResourceQuotaSpec {
            hard: Some([("pods".to_owned(), Quantity("1G".to_owned()))].into()),
            scope_selector: Some(ScopeSelector { match_expressions: Some(vec![critical]) }),
            ..ResourceQuotaSpec::default()
        }),
        ..ResourceQuota::default()
    })
}

/// One at a time may be taken away on purpose; one that runs and is not ready, always: where two are not, such as servers that
/// do not reach their API server, nobody who empties a node would get anywhere.
pub(crate) fn disruption_budget(part: Part, settings: &Settings) -> Manifest {
    let spec = PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(selector(part)),
        unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        ..PodDisruptionBudgetSpec::default()
    };
    let metadata = part.metadata(settings);
    Manifest::of(&PodDisruptionBudget { metadata, spec: Some(spec), ..PodDisruptionBudget::default() })
}

/// Nothing but what the part listens on can be reached. Where its pods connect to is not limited: that is the API server
/// of the cluster and of the hub, at addresses that nobody here knows.
pub(crate) fn network_policy(part: Part, settings: &Settings) -> Manifest {
    let port = |protocol: &str, number: i32| NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        ..NetworkPolicyPort::default()
    };
    let mut ports = vec![port("TCP", part.admin_port())];
    if part == Part::Dns {
        ports.extend([port("UDP", DNS_PORT), port("TCP", DNS_PORT)]);
    }
    let open = NetworkPolicyIngressRule { ports: Some(ports), ..NetworkPolicyIngressRule::default() };
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector(part)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![open]),
        ..NetworkPolicySpec::default()
    };
    Manifest::of(&NetworkPolicy { metadata: part.metadata(settings), spec: Some(spec) })
}

fn selector(part: Part) -> LabelSelector {
    LabelSelector { match_labels: Some(part.selector()), ..LabelSelector::default() }
}
