//! Words of KEP-4631: what a LoadBalancer Service says about its load balancer.
//!
//! Three conditions on `Service.status.conditions`, their reasons, and the features a user may require. The reasons of
//! "degraded" and the features are both named after fields of the Service's spec, so one is derived from the other.

mod service;

use crate::vocabulary::vocabulary;

pub use service::{Service, Spec};

vocabulary! {
    /// Conditions of a LoadBalancer Service (KEP-4631, `Service.Status.Conditions`).
    Condition {
        /// The load balancer takes connections at the addresses in the status (KEP-4631, The `LoadBalancerServing`
        /// Condition). Never `Unknown`.
        Serving = "LoadBalancerServing",
        /// The provider waits for a slow step (KEP-4631, The `LoadBalancerProvisioning` Condition). Never `Unknown`.
        Provisioning = "LoadBalancerProvisioning",
        /// The load balancer knowingly lacks something the Service asks for (KEP-4631, The `LoadBalancerDegraded`
        /// Condition). `True` or absent, never `False`.
        Degraded = "LoadBalancerDegraded",
    }
}

vocabulary! {
    /// Reasons of `LoadBalancerServing` (KEP-4631, its well-known reasons).
    ServingReason {
        /// `True`: connections are taken.
        Serving = "Serving",
        /// `False`: not now, it is being built or rebuilt.
        Provisioning = "Provisioning",
        /// `False`: the provider cannot do what the Service asks for.
        Unsupported = "Unsupported",
        /// `False`: the environment failed, for example an empty address pool.
        Infrastructure = "Infrastructure",
    }
}

vocabulary! {
    /// Reasons of `LoadBalancerProvisioning` (KEP-4631, its well-known reasons).
    ProvisioningReason {
        /// `True`: work is under way.
        Provisioning = "Provisioning",
        /// `False`: nothing more is being tried, with or without success.
        Complete = "Complete",
    }
}

vocabulary! {
    /// Reasons of `LoadBalancerDegraded` (KEP-4631, its well-known reasons).
    DegradedReason {
        /// Dual-stack was asked for, one family is served.
        IpFamiliesNotSupported = "IPFamiliesNotSupported",
        /// Some of the ports are not served.
        PortsNotSupported = "PortsNotSupported",
        /// The address that was asked for is not the one in use.
        LoadBalancerIpNotSupported = "LoadBalancerIPNotSupported",
        /// Clients do not stick to an endpoint.
        SessionAffinityNotSupported = "SessionAffinityNotSupported",
        /// The policy is `Local`, but the client's address is lost.
        ExternalTrafficPolicyNotSupported = "ExternalTrafficPolicyNotSupported",
        /// Source ranges are not enforced. Formed by the KEP's naming rule; its list leaves this one out (reference,
        /// ambiguity A1).
        LoadBalancerSourceRangesNotSupported = "LoadBalancerSourceRangesNotSupported",
        /// More than one of the above; the message says which.
        Multiple = "Multiple",
    }
}

vocabulary! {
    /// Features a Service may require (KEP-4631, `Service.Spec.RequiredLoadBalancerFeatures`).
    Feature {
        /// All families of the Service are served.
        IpFamilies = "IPFamilies",
        /// All ports and protocols are served.
        Ports = "Ports",
        /// The session affinity that is asked for works.
        SessionAffinity = "SessionAffinity",
        /// The `loadBalancerIP` that is asked for is used.
        LoadBalancerIp = "LoadBalancerIP",
        /// The external traffic policy works; with `Local` the client's address is kept.
        ExternalTrafficPolicy = "ExternalTrafficPolicy",
        /// Source ranges are enforced (KEP-4631, Test Plan; absent from its constants, ambiguity A1).
        LoadBalancerSourceRanges = "LoadBalancerSourceRanges",
    }
}

impl Feature {
    /// How a load balancer without this feature says so.
    pub const fn degraded_reason(self) -> DegradedReason {
        match self {
            Feature::IpFamilies => DegradedReason::IpFamiliesNotSupported,
            Feature::Ports => DegradedReason::PortsNotSupported,
            Feature::SessionAffinity => DegradedReason::SessionAffinityNotSupported,
            Feature::LoadBalancerIp => DegradedReason::LoadBalancerIpNotSupported,
            Feature::ExternalTrafficPolicy => DegradedReason::ExternalTrafficPolicyNotSupported,
            Feature::LoadBalancerSourceRanges => DegradedReason::LoadBalancerSourceRangesNotSupported,
        }
    }
}

vocabulary! {
    /// What a provider can do, as a value to try: sets of capabilities that cover every rule of KEP-4631.
    Profile {
        /// Everything: both families, all protocols, any port, sticky, filtered, the client's address kept.
        Full = "FULL",
        /// No IPv6.
        V4Only = "V4-ONLY",
        /// No UDP and no SCTP.
        TcpOnly = "TCP-ONLY",
        /// Reaches Services through their node ports only.
        NodePortOnly = "NODEPORT-ONLY",
        /// The client's address is lost, and clients do not stick.
        Proxy = "PROXY",
        /// Changes take a while, during which the former state is served.
        SlowHitless = "SLOW-HITLESS",
        /// Changes take a while, during which nothing is served.
        SlowCutover = "SLOW-CUTOVER",
        /// One address per family, whatever the pools have.
        PoolOfOne = "POOL-OF-ONE",
    }
}

vocabulary! {
    /// The steps that a provider fails when the annotation `tombolo.dev/fail` names them (KEP-4631, Test Plan).
    FailStep {
        /// No address can be had.
        Allocate = "allocate",
        /// Building begins and then breaks.
        Provision = "provision",
        /// A change cannot be made; the former state is served.
        Update = "update",
        /// What was served is served no more.
        Serve = "serve",
        /// The load balancer cannot be taken down.
        Release = "release",
    }
}

/// Field of `Service.spec` that lists required features (KEP-4631, `Service.Spec.RequiredLoadBalancerFeatures`).
pub const REQUIRED_FEATURES_FIELD: &str = "requiredLoadBalancerFeatures";

/// Feature gate of that field (KEP-4631, Feature Enablement and Rollback).
pub const FEATURE_GATE: &str = "LoadBalancerStatusImprovements";

/// Finalizer that keeps a Service until its load balancer is gone (k8s.io/cloud-provider, service controller; KEP-4631,
/// Test Plan, "load balancer cleanup finalizer").
pub const CLEANUP_FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_reported_under_its_own_name() {
        for feature in Feature::ALL {
            assert_eq!(feature.degraded_reason().as_str(), format!("{feature}NotSupported"));
        }
        // Every reason but `Multiple` belongs to one feature.
        assert_eq!(DegradedReason::ALL.len(), Feature::ALL.len() + 1);
    }
}
