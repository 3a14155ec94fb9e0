//! Input that makes no sense: the best result, and a word about what was wrong.

use serde_json::json;

use super::lab::{Lab, name, say, slice};
use crate::routing::FrontendKind;

#[test]
fn an_endpoint_named_by_two_slices_is_one_and_the_one_that_does_not_terminate() {
    for (first, second, expected) in [
        ("10.1.0.1", "10.1.0.1", "All: 10.1.0.1"),
        ("10.1.0.1 terminating", "10.1.0.1", "All: 10.1.0.1"),
        ("10.1.0.1", "10.1.0.1 unready", "All: 10.1.0.1"),
        ("10.1.0.1 terminating", "10.1.0.1 unready", "reject NoEndpoints"),
    ] {
        for pair in [[first, second], [second, first]] {
            let lab = Lab::new(json!({})).with(&[pair[0]]).with(&[pair[1]]);
            assert_eq!(lab.internal(), expected, "{pair:?}");
            let contradiction = "EndpointSlices: 10.1.0.1 port 8080: slices contradict each other about its \
                                 conditions; the better ones are believed";
            let expected: &[&str] = if first == second { &[] } else { &[contradiction] };
            assert_eq!(lab.complaints(), expected, "{pair:?}");
        }
    }
}

#[test]
fn impossible_addresses_are_left_out_and_said_once() {
    let lab = Lab::new(json!({})).with(&["10.1.0.1", "127.0.0.1", "127.0.0.2", "nonsense", "0.0.0.0"]);
    assert_eq!(lab.internal(), "All: 10.1.0.1");
    assert_eq!(
        lab.complaints(),
        [
            "EndpointSlices: \"127.0.0.1\" in web-0 and 1 more: a loopback address; left out",
            "EndpointSlices: \"nonsense\" in web-0: no IP address; left out",
            "EndpointSlices: \"0.0.0.0\" in web-0: the unspecified address; left out",
        ]
    );
}

#[test]
fn only_the_first_address_of_an_endpoint_counts_and_names_are_no_addresses() {
    let mut lab = Lab::new(json!({})).with(&["10.1.0.1", "10.1.0.3"]).with(&["10.1.0.9"]);
    let endpoints = lab.slices[0].endpoints.as_mut().unwrap();
    endpoints[0].addresses.push("10.1.0.2".into());
    endpoints[1].addresses.clear();
    lab.slices[1].address_type = "FQDN".into();
    assert_eq!(lab.internal(), "All: 10.1.0.1");
    assert_eq!(lab.complaints(), [""; 0]);
}

#[test]
fn an_address_of_the_wrong_family_is_left_out() {
    let mut lab = Lab::new(json!({})).with(&["10.1.0.1"]).with(&["fd00::1"]);
    lab.slices[1].address_type = "IPv4".into();
    assert_eq!(lab.internal(), "All: 10.1.0.1");
    assert_eq!(
        lab.complaints(),
        ["EndpointSlices: \"fd00::1\" in web-1: not of the family of its slice; left out"]
    );
}

#[test]
fn ports_that_no_packet_can_have_are_left_out() {
    for odd in [0, -1, 65536] {
        let mut lab = Lab::new(json!({})).with(&["10.1.0.1"]).with(&["10.1.0.2"]);
        lab.slices[1].ports.as_mut().unwrap()[0].port = Some(odd);
        assert_eq!(lab.internal(), "All: 10.1.0.1", "{odd}");
        assert_eq!(
            lab.complaints(),
            [format!("EndpointSlices: {odd} in web-1: no port number; left out")],
            "{odd}"
        );
        let ports = json!([{ "name": "http", "port": 80 }, { "name": "odd", "port": odd }]);
        let lab = Lab::new(json!({ "ports": ports })).with(&["10.1.0.1"]);
        assert_eq!(lab.run().0.routes.len(), 1);
        assert_eq!(lab.complaints(), [format!("spec.ports: {odd}: no port number; left out")]);
    }
}

#[test]
fn words_that_are_none_are_taken_for_the_default() {
    let spec = json!({
        "type": "NodePort", "internalTrafficPolicy": "Nearby", "externalTrafficPolicy": "", "sessionAffinity": "Cookie",
        "ports": [
            { "name": "http", "port": 80, "nodePort": 30080 }, { "name": "x", "port": 81, "protocol": "DCCP" },
            { "name": "y", "port": 82, "nodePort": 70000 },
        ],
        "externalIPs": ["nowhere", "2001:db8::1", "127.0.0.1"], "loadBalancerSourceRanges": ["10.0.0.0"],
    });
    let lab = Lab::new(spec).with(&["10.1.0.1 n2"]);
    assert_eq!(lab.internal(), "All: 10.1.0.1");
    assert_eq!(
        lab.complaints(),
        [
            "spec.externalIPs: \"nowhere\": no IP address; left out",
            "spec.externalIPs: \"127.0.0.1\": no address that clients can connect to; left out",
            "spec.externalIPs: \"2001:db8::1\": of a family that the Service does not have; left out",
            "spec.internalTrafficPolicy: \"Nearby\": neither Cluster nor Local; taken for Cluster",
            "spec.loadBalancerSourceRanges: \"10.0.0.0\": no network; nobody is let in by it",
            "spec.ports: 70000: no port number; there is no node port",
            "spec.ports: \"DCCP\": unknown protocol; left out",
            "spec.sessionAffinity: \"Cookie\": neither None nor ClientIP; taken for None",
        ]
    );
}

#[test]
fn source_ranges_of_which_nothing_can_be_read_let_nobody_in() {
    let spec = json!({
        "type": "LoadBalancer", "ingress": [{ "ip": "203.0.113.1" }], "loadBalancerSourceRanges": ["office"],
    });
    let route = Lab::new(spec).route(FrontendKind::LoadBalancer);
    assert_eq!(route.allowed_sources, Some(Vec::new()));
}

#[test]
fn no_frontend_is_there_twice() {
    let spec = json!({
        "type": "LoadBalancer", "externalIPs": ["203.0.113.1", "203.0.113.1", "10.96.0.1"],
        "ingress": [{ "ip": "203.0.113.1" }],
        "ports": [{ "name": "http", "port": 80 }, { "name": "again", "port": 80 }],
    });
    let lab = Lab::new(spec).with(&["10.1.0.1"]);
    let (routes, complaints) = lab.run();
    let names: Vec<String> = routes.routes.iter().map(|route| name(&route.frontend)).collect();
    assert_eq!(names, ["ClusterIp 10.96.0.1 80/TCP", "LoadBalancer 203.0.113.1 80/TCP"]);
    assert!(routes.routes.iter().all(|route| route.port_name == "http"));
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].problem.contains("used twice by the Service"), "{}", complaints[0]);
}

#[test]
fn two_services_on_one_address_and_port_claim_the_same() {
    let claims = |spec| -> Vec<_> {
        Lab::new(spec).routes().routes.iter().map(|route| route.frontend.claim()).collect()
    };
    let external = claims(
        json!({ "clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"], "externalIPs": ["10.96.0.1"] }),
    );
    let cluster = claims(json!({}));
    assert!(external.contains(&cluster[0]), "another kind of frontend, but the same packets");
    assert!(!claims(json!({ "ports": [{ "name": "http", "port": 81 }] })).contains(&cluster[0]));
}

#[test]
fn a_hundred_thousand_endpoints_that_are_all_wrong_make_few_complaints() {
    let mut lab = Lab::new(json!({}));
    let bad: Vec<String> = (0..1000).map(|_| "127.0.0.1".to_owned()).collect();
    let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
    for place in 0..100 {
        lab.slices.push(slice(&format!("web-{place}"), &[], &bad));
    }
    assert_eq!(lab.complaints().len(), 1);
    assert_eq!(say(&lab.route(FrontendKind::ClusterIp).action), "reject NoEndpoints");
}
