//! What protects running parts from people and neighbours.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::manifest::Manifest;
use crate::part::Part;
use crate::pod::DNS_PORT;
use crate::settings::Settings;

/// One at a time may be taken away on purpose.
pub(crate) fn disruption_budget(part: Part, settings: &Settings) -> Manifest {
    let spec = PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(selector(part)),
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
