//! What happens when: the rows L1 to L20.

use jiff::Timestamp;
use serde_json::{Value, json};
use tombolo_api::loadbalancer::{self, Profile, Service};

use super::lab::{
    Bench, FAILED, NORMAL, REFUSED, annotated, condition, edit, ingress, named, said, service, times,
};
use crate::balancer::{forget, unreleasable};

const BUILDING: &str = "P=True/Provisioning S=False/Provisioning";
const REBUILDING: &str = "P=True/Provisioning S=True/Serving";

/// A load balancer that serves, at second 10.
fn running(profile: Profile) -> (Bench, Service) {
    let (mut bench, mut service) = (Bench::new(profile), service(json!({})));
    let mut decision = bench.look(&mut service);
    while decision.building.is_some() {
        decision = bench.finish(&mut service, decision);
    }
    assert_eq!(said(&service), NORMAL);
    bench.second = super::lab::START + 10;
    (bench, service)
}

/// An edit, and the transition times of both conditions after it: `true` where they must have moved to second 10.
fn check_edit(row: &str, spec: Value, moved: (bool, bool)) {
    let (mut bench, mut service) = running(Profile::Full);
    let before = times(&service);
    edit(&mut service, spec);
    bench.look(&mut service);
    assert_eq!(said(&service), NORMAL, "{row}");
    let expected = (if moved.0 { 10 } else { before.0 }, if moved.1 { 10 } else { before.1 });
    assert_eq!(times(&service), expected, "{row}");
}

#[test]
fn l1_available_at_once_all_is_said_in_the_first_write() {
    let (mut bench, mut service) = (Bench::new(Profile::Full), service(json!({})));
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service)), (NORMAL, (0, 0)));
    assert_eq!(ingress(&service), ["192.0.2.0"]);
    assert_eq!(service.ingress()[0].ip_mode.as_deref(), Some("VIP"));
    let finalizers = service.metadata.finalizers.unwrap();
    assert_eq!(finalizers, ["service.kubernetes.io/load-balancer-cleanup"]);
}

#[test]
fn l2_a_slow_one_is_building_and_then_serves() {
    for profile in [Profile::SlowHitless, Profile::SlowCutover] {
        let (mut bench, mut service) = (Bench::new(profile), service(json!({})));
        let decision = bench.look(&mut service);
        assert_eq!((said(&service).as_str(), ingress(&service).len()), (BUILDING, 0));
        bench.finish(&mut service, decision);
        assert_eq!((said(&service).as_str(), ingress(&service).len()), (NORMAL, 1));
        assert_eq!(times(&service), (1, 1));
    }
}

#[test]
fn l3_a_slow_one_that_breaks_ends_without_an_address() {
    let mut service = annotated(service(json!({})), "tombolo.dev/fail", "provision");
    let mut bench = Bench::new(Profile::SlowHitless);
    let decision = bench.look(&mut service);
    assert_eq!(said(&service), BUILDING);
    bench.finish(&mut service, decision);
    assert_eq!((said(&service).as_str(), ingress(&service).len()), (FAILED, 0));
    // The status stayed False, but the reason changed: that is news, too.
    assert_eq!(times(&service), (1, 1));
}

#[test]
fn l4_an_impossible_one_is_refused_in_the_first_write() {
    let (mut bench, mut service) = (Bench::new(Profile::V4Only), service(json!({"ipFamilies": ["IPv6"]})));
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service)), (REFUSED, (0, 0)));
    assert_eq!(ingress(&service).len(), 0);
}

#[test]
fn l5_an_edit_that_clients_notice_moves_both_times() {
    for spec in [
        json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}),
        json!({"ports": [{"port": 81}]}),
        json!({"externalTrafficPolicy": "Local"}),
        json!({"sessionAffinity": "ClientIP"}),
        json!({"ipFamilies": ["IPv4", "IPv6"]}),
        json!({"loadBalancerIP": "192.0.2.2"}),
    ] {
        check_edit(&format!("L5 {spec}"), spec, (true, true));
    }
}

#[test]
fn l6_a_slow_edit_without_interruption_serves_the_former_state_meanwhile() {
    let (mut bench, mut service) = running(Profile::SlowHitless);
    let before = times(&service);
    edit(&mut service, json!({"loadBalancerIP": "192.0.2.2"}));
    let decision = bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service)), (REBUILDING, vec!["192.0.2.0"]));
    assert_eq!(times(&service), (10, before.1), "seen, but clients notice nothing yet");
    // Neither the former address nor the next one is free for others.
    let mut other = named("other", json!({}));
    bench.look(&mut other);
    let had = bench.ledger.addresses_of(&super::lab::owner("other"));
    assert_eq!(had, ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
    bench.finish(&mut service, decision);
    assert_eq!((said(&service).as_str(), ingress(&service)), (NORMAL, vec!["192.0.2.2"]));
    assert_eq!(times(&service), (12, 12));
}

#[test]
fn l7_a_slow_edit_with_an_interruption_keeps_the_address() {
    let (mut bench, mut service) = running(Profile::SlowCutover);
    edit(&mut service, json!({"ports": [{"port": 81}]}));
    let decision = bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service).len()), (BUILDING, 1));
    assert_eq!(times(&service), (10, 10));
    bench.finish(&mut service, decision);
    assert_eq!((said(&service).as_str(), times(&service)), (NORMAL, (11, 11)));
}

#[test]
fn l8_an_edit_that_clients_do_not_notice_is_only_acknowledged() {
    for spec in [
        json!({"requiredLoadBalancerFeatures": ["Ports"]}),
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}),
        json!({"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}),
        json!({"allocateLoadBalancerNodePorts": false}),
        json!({"loadBalancerIP": "192.0.2.0"}),
    ] {
        check_edit(&format!("L8 {spec}"), spec, (true, false));
    }
}

#[test]
fn l9_what_has_nothing_to_do_with_the_load_balancer_moves_nothing() {
    check_edit("L9 selector", json!({"selector": {"app": "web"}}), (false, false));
    check_edit("L9 internal policy", json!({"internalTrafficPolicy": "Local"}), (false, false));
    let (mut bench, mut service) = running(Profile::Full);
    let before = times(&service);
    service = annotated(service, "example.com/note", "hello");
    service.metadata.labels.get_or_insert_default().insert("a".into(), "b".into());
    bench.look(&mut service);
    assert_eq!(times(&service), before);
}

#[test]
fn l10_an_edit_while_another_is_under_way_is_acknowledged() {
    let (mut bench, mut service) = running(Profile::SlowHitless);
    edit(&mut service, json!({"ports": [{"port": 81}]}));
    bench.look(&mut service);
    edit(&mut service, json!({"ports": [{"port": 82}]}));
    let decision = bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service).0), (REBUILDING, 11));
    bench.finish(&mut service, decision);
    assert_eq!(said(&service), NORMAL);
}

#[test]
fn l11_and_l12_an_edit_makes_it_impossible_and_another_mends_it() {
    let (mut bench, mut service) = running(Profile::Proxy);
    edit(&mut service, json!({"sessionAffinity": "ClientIP"}));
    bench.look(&mut service);
    assert!(said(&service).ends_with("D=True/SessionAffinityNotSupported"));
    edit(&mut service, json!({"requiredLoadBalancerFeatures": ["SessionAffinity"]}));
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service)), (REFUSED, (11, 11)));
    assert!(ingress(&service).is_empty());
    assert!(bench.ledger.addresses_of(&super::lab::owner("web")).is_empty());
    edit(&mut service, json!({"sessionAffinity": "None"}));
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service)), (NORMAL, (12, 12)));
}

#[test]
fn l13_one_that_dies_by_itself_keeps_its_address() {
    let (mut bench, mut service) = running(Profile::Full);
    bench.announcing = false;
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service).len()), (FAILED, 1));
    assert_eq!(times(&service).1, 10);
    bench.announcing = true;
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), times(&service).1), (NORMAL, 11));
    service = annotated(service, "tombolo.dev/fail", "serve");
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service).len()), (FAILED, 1));
}

#[test]
fn l14_a_change_of_address_or_filter_moves_serving() {
    check_edit("L14 address", json!({"loadBalancerIP": "192.0.2.3"}), (true, true));
    check_edit("L14 filter", json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}), (true, true));
}

#[test]
fn l15_degraded_comes_changes_and_goes_and_is_never_false() {
    let (mut bench, mut service) = running(Profile::Proxy);
    let since = |service: &Service| {
        let found = condition(service, loadbalancer::Condition::Degraded);
        found.map(|found| found.last_transition_time.0.as_second() - super::lab::START)
    };
    assert_eq!(since(&service), None);
    for (spec, reason, second) in [
        (json!({"sessionAffinity": "ClientIP"}), Some("SessionAffinityNotSupported"), 10),
        (json!({"externalTrafficPolicy": "Local"}), Some("Multiple"), 11),
        (json!({"sessionAffinity": "None"}), Some("ExternalTrafficPolicyNotSupported"), 12),
        (json!({"externalTrafficPolicy": "Cluster"}), None, 13),
    ] {
        edit(&mut service, spec);
        bench.look(&mut service);
        let found = condition(&service, loadbalancer::Condition::Degraded);
        assert_eq!(found.map(|found| found.reason.as_str()), reason);
        assert_eq!(since(&service), reason.map(|_| second));
        assert_eq!(times(&service), (second, second));
    }
}

#[test]
fn l16_who_leaves_the_type_keeps_nothing() {
    let (_, mut service) = running(Profile::Full);
    edit(&mut service, json!({"type": "ClusterIP"}));
    service.status.conditions.as_mut().unwrap().push(
        serde_json::from_value(json!({
            "type": "example.com/Painted", "status": "True", "reason": "Blue", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap(),
    );
    let forgotten = forget(&service);
    assert_eq!((said(&forgotten).as_str(), ingress(&forgotten).len()), ("", 0));
    assert_eq!(forgotten.conditions().len(), 1, "the conditions of others stay");
}

#[test]
fn l17_a_load_balancer_that_cannot_be_taken_down_says_so() {
    let (_, service) = running(Profile::Full);
    assert_eq!(unreleasable(&service), None);
    let failing = annotated(service, "tombolo.dev/fail", "release");
    assert!(unreleasable(&failing).unwrap().contains("release"));
}

#[test]
fn l18_a_load_balancer_from_before_gets_its_conditions_and_keeps_its_address() {
    let mut service = service(json!({}));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}});
    service.status = serde_json::from_value(status).unwrap();
    Bench::new(Profile::Full).look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service)), (NORMAL, vec!["192.0.2.3"]));
}

#[test]
fn l20_a_provider_that_starts_anew_changes_nothing() {
    for profile in Profile::ALL {
        let (_, service) = running(*profile);
        let mut again = service.clone();
        let mut bench = Bench::new(*profile);
        bench.second = super::lab::START + 1_000;
        let decision = bench.look(&mut again);
        assert_eq!(again, service, "{profile}");
        assert_eq!(decision.building, None, "{profile}");
    }
}

#[test]
fn a_change_that_fails_while_the_former_state_is_served_says_both() {
    let (mut bench, service) = running(Profile::Full);
    let mut service = annotated(service, "tombolo.dev/fail", "update");
    edit(&mut service, json!({"loadBalancerIP": "192.0.2.2"}));
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service)), (REBUILDING, vec!["192.0.2.0"]));
    for kind in [loadbalancer::Condition::Provisioning, loadbalancer::Condition::Serving] {
        let message = &condition(&service, kind).unwrap().message;
        assert!(message.contains("serves as before: the step update fails"), "{message}");
    }
    service.metadata.annotations.as_mut().unwrap().remove("tombolo.dev/fail");
    bench.look(&mut service);
    assert_eq!((said(&service).as_str(), ingress(&service)), (NORMAL, vec!["192.0.2.2"]));
}

#[test]
fn transition_times_increase_even_within_one_second() {
    let (mut bench, mut service) = running(Profile::Full);
    for (place, port) in (81..85).enumerate() {
        edit(&mut service, json!({"ports": [{ "port": port }]}));
        bench.look_at_once(&mut service);
        let second = 10 + i64::try_from(place).unwrap();
        assert_eq!(times(&service), (second, second));
    }
    // A clock that was set back does not take them back.
    bench.second = 7;
    edit(&mut service, json!({"ports": [{ "port": 90 }]}));
    bench.look_at_once(&mut service);
    assert_eq!(times(&service), (14, 14));
}

#[test]
fn times_are_written_in_whole_seconds() {
    let (mut bench, mut service) = (Bench::new(Profile::Full), service(json!({})));
    let decision = bench.look_at_once(&mut service.clone());
    let late: Timestamp = "2026-01-01T00:00:00.999Z".parse().unwrap();
    service = decision.apply(&service, late);
    let time = condition(&service, loadbalancer::Condition::Serving).unwrap().last_transition_time.0;
    assert_eq!(time.subsec_nanosecond(), 0);
}

#[test]
fn where_services_have_a_generation_it_is_repeated() {
    let (mut bench, mut service) = (Bench::new(Profile::Full), service(json!({})));
    service.metadata.generation = Some(7);
    bench.look(&mut service);
    assert!(service.conditions().iter().all(|condition| condition.observed_generation == Some(7)));
}
