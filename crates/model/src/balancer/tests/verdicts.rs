//! What a Service asks for, times what a provider can do: the rows R1 to R17.

use serde_json::{Value, json};
use tombolo_api::loadbalancer::{self, Profile};

use super::lab::{Bench, FAILED, NORMAL, REFUSED, annotated, condition, ingress, pool, said, service};
use crate::balancer::Capabilities;

/// Looks at a Service once and compares its conditions.
fn check(row: &str, bench: &mut Bench, spec: Value, expected: &str) {
    let mut service = service(spec);
    bench.look(&mut service);
    assert_eq!(said(&service), expected, "{row}");
    let serving = expected.contains("S=True");
    assert_eq!(!ingress(&service).is_empty(), serving, "{row}: addresses exactly while it serves");
    for condition in service.conditions() {
        assert!(!condition.message.is_empty(), "{row}: {}", condition.type_);
    }
}

/// The same Service at a provider that has a capability, at one that lacks it, and at one that lacks it while the Service
/// requires the feature.
fn check_feature(row: &str, lacking: Capabilities, spec: Value, feature: &str, lacks: &str) {
    let bench = |capabilities: Capabilities| Bench { capabilities, ..Bench::new(Profile::Full) };
    let mut required = spec.clone();
    required["requiredLoadBalancerFeatures"] = json!([feature]);
    check(&format!("{row} present"), &mut bench(Capabilities::full()), spec.clone(), NORMAL);
    check(
        &format!("{row} present, required (R12)"),
        &mut bench(Capabilities::full()),
        required.clone(),
        NORMAL,
    );
    check(&format!("{row} lacking"), &mut bench(lacking.clone()), spec, lacks);
    check(&format!("{row} lacking, required"), &mut bench(lacking), required, REFUSED);
}

fn degraded(reason: &str) -> String {
    format!("{NORMAL} D=True/{reason}")
}

fn lacking(profile: Profile) -> Capabilities {
    profile.into()
}

#[test]
fn r1_one_family_that_is_not_supported_is_refused() {
    let spec = json!({"ipFamilies": ["IPv6"]});
    check_feature("R1", lacking(Profile::V4Only), spec, "IPFamilies", REFUSED);
}

#[test]
fn r2_one_family_of_two_is_served_and_told() {
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"});
    check_feature("R2", lacking(Profile::V4Only), spec, "IPFamilies", &degraded("IPFamiliesNotSupported"));
    let mut both = service(json!({"ipFamilies": ["IPv6", "IPv4"]}));
    Bench::new(Profile::Full).look(&mut both);
    assert_eq!(ingress(&both), ["2001:db8::1", "192.0.2.0"]);
    let one = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"});
    check("R2: only the families that were settled count", &mut Bench::new(Profile::V4Only), one, NORMAL);
    let must = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
    check("R2: RequireDualStack", &mut Bench::new(Profile::V4Only), must.clone(), REFUSED);
    check("R2: RequireDualStack", &mut Bench::new(Profile::Full), must, NORMAL);
}

#[test]
fn r2_a_family_without_addresses_is_as_one_that_is_not_supported() {
    let bench = || Bench::with_pools(Profile::Full, &[pool("v4", json!(["192.0.2.0/30"]))]);
    let spec = |policy: &str| json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": policy});
    check("prefer", &mut bench(), spec("PreferDualStack"), &degraded("IPFamiliesNotSupported"));
    check("require", &mut bench(), spec("RequireDualStack"), REFUSED);
}

#[test]
fn r3_protocols_of_which_none_is_supported_are_refused() {
    let spec = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "SCTP"}]});
    check_feature("R3", lacking(Profile::TcpOnly), spec, "Ports", REFUSED);
}

#[test]
fn r4_ports_that_cannot_be_served_are_left_out_and_told() {
    let mixed = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]});
    check_feature("R4", lacking(Profile::TcpOnly), mixed.clone(), "Ports", &degraded("PortsNotSupported"));
    let one_at_a_time = Capabilities { mixed_protocols: false, ..Capabilities::full() };
    check_feature("R4 mix", one_at_a_time, mixed.clone(), "Ports", &degraded("PortsNotSupported"));
    let mut service = service(mixed);
    Bench::new(Profile::TcpOnly).look(&mut service);
    let ports = serde_json::to_value(&service.ingress()[0].ports).unwrap();
    let error = "tombolo.dev/PortsNotSupported";
    let expected = json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "error": error}]);
    assert_eq!(ports, expected);
    assert!(service.conditions().iter().all(|condition| condition.type_ != "LoadBalancerPortsError"));
}

#[test]
fn r5_without_node_ports_there_is_nothing_for_who_needs_them() {
    let spec = json!({"allocateLoadBalancerNodePorts": false});
    check("R5 present", &mut Bench::new(Profile::Full), spec.clone(), NORMAL);
    check("R5 lacking", &mut Bench::new(Profile::NodePortOnly), spec, REFUSED);
}

#[test]
fn r6_affinity_that_is_not_kept_is_told() {
    let spec = json!({"sessionAffinity": "ClientIP"});
    let reason = degraded("SessionAffinityNotSupported");
    check_feature("R6", lacking(Profile::Proxy), spec, "SessionAffinity", &reason);
}

#[test]
fn r7_source_ranges_that_are_not_enforced_are_told() {
    let spec = json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]});
    let lacking = Capabilities { source_ranges: false, ..Capabilities::full() };
    let reason = degraded("LoadBalancerSourceRangesNotSupported");
    check_feature("R7", lacking, spec, "LoadBalancerSourceRanges", &reason);
}

#[test]
fn r8_an_address_that_cannot_be_had_is_told_and_another_is_used() {
    let reason = degraded("LoadBalancerIPNotSupported");
    let spec = json!({"loadBalancerIP": "192.0.2.2"});
    let unable = Capabilities { explicit_addresses: false, ..Capabilities::full() };
    check_feature("R8", unable, spec.clone(), "LoadBalancerIP", &reason);
    let mut exactly = service(spec);
    Bench::new(Profile::Full).look(&mut exactly);
    assert_eq!(ingress(&exactly), ["192.0.2.2"]);
    for (text, why) in [
        ("198.51.100.1", "198.51.100.1 is in no AddressPool"),
        ("2001:db8::1", "2001:db8::1 is of a family that is not served"),
        ("127.0.0.1", "\"127.0.0.1\" is no address that clients can connect to"),
        ("nonsense", "\"nonsense\" is no address that clients can connect to"),
    ] {
        let mut other = service(json!({ "loadBalancerIP": text }));
        Bench::new(Profile::Full).look(&mut other);
        assert_eq!(said(&other), reason, "{text}");
        assert_eq!(ingress(&other), ["192.0.2.0"]);
        let message = &condition(&other, loadbalancer::Condition::Degraded).unwrap().message;
        assert_eq!(*message, format!("LoadBalancerIP: {why}"));
        let mut insists =
            service(json!({"loadBalancerIP": text, "requiredLoadBalancerFeatures": ["LoadBalancerIP"]}));
        Bench::new(Profile::Full).look(&mut insists);
        assert_eq!(said(&insists), REFUSED, "{text}");
    }
}

#[test]
fn r9_a_client_address_that_is_lost_degrades_and_never_refuses_unless_required() {
    let spec = json!({"externalTrafficPolicy": "Local"});
    let reason = degraded("ExternalTrafficPolicyNotSupported");
    check_feature("R9", lacking(Profile::Proxy), spec, "ExternalTrafficPolicy", &reason);
}

#[test]
fn r10_and_a_required_feature_that_is_not_used_are_satisfied() {
    let cluster = json!({"requiredLoadBalancerFeatures": ["ExternalTrafficPolicy"]});
    check("R10", &mut Bench::new(Profile::Proxy), cluster, NORMAL);
    let unused = json!({"requiredLoadBalancerFeatures": loadbalancer::Feature::ALL});
    for profile in [Profile::V4Only, Profile::TcpOnly, Profile::Proxy, Profile::NodePortOnly] {
        check("not used", &mut Bench::new(profile), unused.clone(), NORMAL);
    }
}

#[test]
fn r11_a_required_feature_that_is_not_known_is_refused_whatever_else_is_true() {
    for name in ["TrafficDistribution", "ipFamilies", " Ports", "example.com/x"] {
        let spec = json!({"requiredLoadBalancerFeatures": ["Ports", name]});
        check("R11", &mut Bench::new(Profile::Full), spec, REFUSED);
    }
}

#[test]
fn r13_a_feature_that_is_required_and_there_does_not_hide_one_that_is_neither() {
    let spec = json!({"sessionAffinity": "ClientIP", "requiredLoadBalancerFeatures": ["Ports"]});
    check("R13", &mut Bench::new(Profile::Proxy), spec, &degraded("SessionAffinityNotSupported"));
}

#[test]
fn r14_several_degradations_are_one_condition_that_lists_them() {
    let spec = json!({"sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"});
    let mut both = service(spec.clone());
    Bench::new(Profile::Proxy).look(&mut both);
    assert_eq!(said(&both), degraded("Multiple"));
    let message = &condition(&both, loadbalancer::Condition::Degraded).unwrap().message;
    assert!(message.contains("SessionAffinity") && message.contains("ExternalTrafficPolicy"), "{message}");
    let mut named = spec;
    named["requiredLoadBalancerFeatures"] = json!(["SessionAffinity"]);
    check("R14 one of them required", &mut Bench::new(Profile::Proxy), named, REFUSED);
}

#[test]
fn r15_a_newer_field_that_nobody_requires_is_ignored() {
    let spec = json!({"trafficDistribution": "PreferSameZone"});
    check("R15", &mut Bench::new(Profile::Full), spec, NORMAL);
}

#[test]
fn r16_without_required_features_every_row_has_its_own_answer() {
    let everything = json!({
        "ipFamilies": ["IPv4", "IPv6"], "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["10.0.0.0/8"], "loadBalancerIP": "192.0.2.1",
        "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}],
    });
    check("R16 full", &mut Bench::new(Profile::Full), everything.clone(), NORMAL);
    let poor = Capabilities {
        families: vec![tombolo_api::service::IpFamily::V4],
        protocols: vec![tombolo_api::service::Protocol::Tcp],
        mixed_protocols: false,
        session_affinity: false,
        source_ranges: false,
        explicit_addresses: false,
        source_address: false,
        ..Capabilities::full()
    };
    let mut bench = Bench { capabilities: poor, ..Bench::new(Profile::Full) };
    check("R16 poor", &mut bench, everything, &degraded("Multiple"));
}

#[test]
fn r17_what_the_environment_lacks_is_infrastructure_and_named() {
    let mut service = service(json!({}));
    Bench::with_pools(Profile::Full, &[]).look(&mut service);
    assert_eq!(said(&service), FAILED);
    let message = |service: &loadbalancer::Service| {
        condition(service, loadbalancer::Condition::Serving).unwrap().message.clone()
    };
    assert_eq!(message(&service), "there is no AddressPool to take an address from");
    let mut failing = annotated(super::lab::service(json!({})), "tombolo.dev/fail", "allocate");
    Bench::new(Profile::Full).look(&mut failing);
    assert_eq!((said(&failing).as_str(), ingress(&failing).len()), (FAILED, 0));
    let mut bench = Bench::new(Profile::PoolOfOne);
    check("POOL-OF-ONE, the first", &mut bench, json!({}), NORMAL);
    let mut second = super::lab::named("second", json!({}));
    bench.look(&mut second);
    assert_eq!(said(&second), FAILED);
    assert_eq!(message(&second), "no IPv4 address is free in the pool main");
}

#[test]
fn an_unknown_step_to_fail_is_told_and_fails_nothing() {
    let mut odd = annotated(service(json!({})), "tombolo.dev/fail", "sneeze");
    Bench::new(Profile::Full).look(&mut odd);
    assert_eq!(said(&odd), NORMAL);
    let message = &condition(&odd, loadbalancer::Condition::Serving).unwrap().message;
    assert!(message.contains("unknown FailStep \"sneeze\""), "{message}");
}
