//! The spellings that other programs read, written out once more so that a slip in the source is seen.

use tombolo_api::condition::Status;
use tombolo_api::karmada::cluster::SyncMode;
use tombolo_api::karmada::networking::{
    ExposureType, MultiClusterServiceCondition, MultiClusterServiceReason,
};
use tombolo_api::karmada::strategy::{
    ImportStrategy, MultiClusterStrategy, StrategyCondition, StrategyReason,
};
use tombolo_api::service::{InternalTrafficPolicy, IpFamily, Protocol, SessionAffinity};
use tombolo_api::tombolo::{Dialect, Tier};
use tombolo_api::{kep, loadbalancer, mcs};

macro_rules! spelled {
    ($($name:ident: $type:ty = [$($word:literal),+];)+) => {$(
        #[test]
        fn $name() {
            let words: Vec<&str> = <$type>::ALL.iter().map(|word| word.as_str()).collect();
            assert_eq!(words, [$($word),+]);
            for (word, value) in words.iter().zip(<$type>::ALL) {
                assert_eq!(serde_json::to_value(value).unwrap(), *word);
                assert_eq!(word.parse(), Ok(*value));
            }
        }
    )+};
}

spelled! {
    profiles: loadbalancer::Profile = [
        "FULL", "V4-ONLY", "TCP-ONLY", "NODEPORT-ONLY", "PROXY", "SLOW-HITLESS", "SLOW-CUTOVER", "POOL-OF-ONE"
    ];
    steps_that_fail: loadbalancer::FailStep = ["allocate", "provision", "update", "serve", "release"];
    condition_status: Status = ["True", "False", "Unknown"];
    ip_families: IpFamily = ["IPv4", "IPv6"];
    protocols: Protocol = ["TCP", "UDP", "SCTP"];
    session_affinities: SessionAffinity = ["None", "ClientIP"];
    internal_traffic_policies: InternalTrafficPolicy = ["Cluster", "Local"];
    dialects: Dialect = ["kep", "mcs"];
    tiers: Tier = ["zone", "region", "cluster", "any"];
    kep_conditions: kep::ExportCondition = ["Initialized", "Exported", "Conflict"];
    export_conditions: mcs::ExportCondition = ["Valid", "Ready", "Conflict"];
    export_valid_reasons: mcs::ValidReason = ["Valid", "NoService", "InvalidServiceType"];
    export_ready_reasons: mcs::ReadyReason = ["Exported", "Ready", "Pending", "Failed"];
    export_conflict_reasons: mcs::ConflictReason = [
        "PortConflict", "TypeConflict", "SessionAffinityConflict", "SessionAffinityConfigConflict", "LabelsConflict",
        "AnnotationsConflict", "InternalTrafficPolicyConflict", "TrafficDistributionConflict", "IPFamilyConflict",
        "NoConflicts"
    ];
    import_ready_reasons: mcs::ImportReadyReason = ["Ready", "Pending", "IPFamilyNotSupported"];
    import_types: mcs::ServiceImportType = ["ClusterSetIP", "Headless"];
    endpoint_slice_objects: mcs::EndpointSliceObjects = ["Present", "Absent"];
    import_strategies: ImportStrategy = ["LocalOnly", "LocalAndRemote", "RemoteOnly"];
    multi_cluster_strategies: MultiClusterStrategy = ["RemoteAndLocal", "LocalFirst"];
    strategy_conditions: StrategyCondition = ["StrategyApplied"];
    strategy_reasons: StrategyReason = [
        "Applied", "LocalServicePresent", "UnknownStrategy", "NoRemoteEndpoints", "LocalEndpointsRemain",
        "ServiceNotUsable", "SlicesRefused"
    ];
    exposure_types: ExposureType = ["CrossCluster", "LoadBalancer"];
    multi_cluster_service_conditions: MultiClusterServiceCondition =
        ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"];
    multi_cluster_service_reasons: MultiClusterServiceReason = [
        "ServiceAppliedSuccess", "ServiceAppliedFailed", "EndpointSliceCollectedSuccess",
        "EndpointSliceCollectedFailed", "EndpointSliceAppliedSuccess", "EndpointSliceAppliedFailed"
    ];
    sync_modes: SyncMode = ["Push", "Pull"];
    load_balancer_conditions: loadbalancer::Condition =
        ["LoadBalancerServing", "LoadBalancerProvisioning", "LoadBalancerDegraded"];
    serving_reasons: loadbalancer::ServingReason = ["Serving", "Provisioning", "Unsupported", "Infrastructure"];
    provisioning_reasons: loadbalancer::ProvisioningReason = ["Provisioning", "Complete"];
    degraded_reasons: loadbalancer::DegradedReason = [
        "IPFamiliesNotSupported", "PortsNotSupported", "LoadBalancerIPNotSupported", "SessionAffinityNotSupported",
        "ExternalTrafficPolicyNotSupported", "LoadBalancerSourceRangesNotSupported", "Multiple"
    ];
    required_features: loadbalancer::Feature = [
        "IPFamilies", "Ports", "SessionAffinity", "LoadBalancerIP", "ExternalTrafficPolicy", "LoadBalancerSourceRanges"
    ];
}
