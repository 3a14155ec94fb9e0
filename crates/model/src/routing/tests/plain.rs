//! Services of one cluster: policies, readiness, hints, frontends.

use std::time::Duration;

use serde_json::{Value, json};

use super::lab::{Lab, name, say};
use crate::routing::{Action, FrontendKind, HealthCheck, Routes, explain};

/// A balancer with every kind of frontend.
fn exposed(internal: &str, external: &str) -> Value {
    json!({
        "type": "LoadBalancer", "internalTrafficPolicy": internal, "externalTrafficPolicy": external,
        "externalIPs": ["198.51.100.1"], "ingress": [{ "ip": "203.0.113.1", "ipMode": "VIP" }],
        "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080 }],
    })
}

const EXTERNAL: [FrontendKind; 3] =
    [FrontendKind::ExternalIp, FrontendKind::LoadBalancer, FrontendKind::NodePort];

#[test]
fn every_row_of_the_policy_table() {
    let (here, there) = ("10.1.0.1 n1", "10.2.0.1 n2");
    let cluster = "All: 10.1.0.1 10.2.0.1";
    let remote = "All: 10.2.0.1";
    let local = "Local: 10.1.0.1";
    // internal, external policy, endpoints; cluster IP, external address from outside, the same from this node
    for (itp, etp, endpoints, internal, outside, inside) in [
        ("Cluster", "Cluster", &[here, there][..], cluster, cluster, cluster),
        ("Cluster", "Cluster", &[there], remote, remote, remote),
        ("Cluster", "Local", &[here, there], cluster, local, cluster),
        ("Cluster", "Local", &[there], remote, "drop NoLocalExternal", remote),
        ("Local", "Cluster", &[here, there], local, cluster, cluster),
        ("Local", "Cluster", &[there], "drop NoLocalInternal", remote, remote),
        ("Local", "Local", &[here, there], local, local, cluster),
        ("Local", "Local", &[there], "drop NoLocalInternal", "drop NoLocalExternal", remote),
        ("Cluster", "Cluster", &[], "reject NoEndpoints", "reject NoEndpoints", "reject NoEndpoints"),
        ("Cluster", "Local", &[], "reject NoEndpoints", "reject NoEndpoints", "reject NoEndpoints"),
        ("Local", "Cluster", &[], "reject NoEndpoints", "reject NoEndpoints", "reject NoEndpoints"),
        ("Local", "Local", &[], "reject NoEndpoints", "reject NoEndpoints", "reject NoEndpoints"),
    ] {
        let lab = Lab::new(exposed(itp, etp)).with(endpoints);
        assert_eq!(lab.internal(), internal, "{itp} {etp} {endpoints:?}");
        assert_eq!(lab.routes().routes.len(), 4);
        for kind in EXTERNAL {
            let route = lab.route(kind);
            assert_eq!(say(&route.action), outside, "{itp} {etp} {endpoints:?} {kind:?}");
            let from_here = route.from_this_node.as_ref().unwrap_or(&route.action);
            assert_eq!(say(from_here), inside, "{itp} {etp} {endpoints:?} {kind:?} from this node");
            assert_eq!(route.masquerade, etp == "Cluster", "{itp} {etp} {kind:?}");
        }
        assert!(!lab.route(FrontendKind::ClusterIp).masquerade);
    }
}

#[test]
fn the_overlap_of_policies_and_hints_is_that_of_the_specification() {
    let endpoints = ["10.1.0.1 n1 for:z2", "10.1.0.2 n2 for:z1"];
    for (itp, etp, internal, external) in [
        ("Cluster", "Cluster", "Zone: 10.1.0.2", "Zone: 10.1.0.2"),
        ("Cluster", "Local", "Zone: 10.1.0.2", "Local: 10.1.0.1"),
        ("Local", "Local", "Local: 10.1.0.1", "Local: 10.1.0.1"),
    ] {
        let lab = Lab::new(exposed(itp, etp)).with(&endpoints);
        assert_eq!(lab.internal(), internal, "{itp} {etp}");
        for kind in EXTERNAL {
            assert_eq!(say(&lab.route(kind).action), external, "{itp} {etp} {kind:?}");
        }
    }
}

#[test]
fn terminating_endpoints_are_the_last_resort_of_each_set_by_itself() {
    for (row, endpoints, internal, external) in [
        (
            "ready beats terminating",
            &["10.1.0.1 n1", "10.1.0.2 n1 terminating", "10.1.0.3 n2 terminating"][..],
            "All: 10.1.0.1",
            "Local: 10.1.0.1",
        ),
        (
            "ready elsewhere, terminating here",
            &["10.1.0.1 n1 terminating", "10.1.0.2 n2"],
            "All: 10.1.0.2",
            "Terminating: 10.1.0.1",
        ),
        (
            "only terminating ones",
            &["10.1.0.1 n1 terminating", "10.1.0.2 n2 terminating"],
            "Terminating: 10.1.0.1 10.1.0.2",
            "Terminating: 10.1.0.1",
        ),
        (
            "terminating ones elsewhere",
            &["10.1.0.2 n2 terminating"],
            "Terminating: 10.1.0.2",
            "drop NoLocalExternal",
        ),
        (
            "terminating and no longer serving",
            &["10.1.0.1 n1 gone"],
            "reject NoEndpoints",
            "reject NoEndpoints",
        ),
        ("not ready", &["10.1.0.1 n1 unready"], "reject NoEndpoints", "reject NoEndpoints"),
        ("ready before it serves", &["10.1.0.1 n1 early"], "All: 10.1.0.1", "Local: 10.1.0.1"),
        (
            "hints do not count for terminating ones",
            &["10.1.0.1 n1 for:z1 terminating", "10.1.0.2 n2 for:z2 terminating"],
            "Terminating: 10.1.0.1 10.1.0.2",
            "Terminating: 10.1.0.1",
        ),
    ] {
        let lab = Lab::new(exposed("Cluster", "Local")).with(endpoints);
        assert_eq!(lab.internal(), internal, "{row}");
        assert_eq!(say(&lab.route(FrontendKind::NodePort).action), external, "{row}");
    }
}

#[test]
fn conditions_that_are_not_said_mean_ready() {
    for conditions in [json!(null), json!({}), json!({ "ready": null, "serving": null, "terminating": null })]
    {
        let mut lab = Lab::new(json!({})).with(&["10.1.0.1"]);
        let endpoint = &mut lab.slices[0].endpoints.as_mut().unwrap()[0];
        endpoint.conditions = serde_json::from_value(conditions).unwrap();
        assert_eq!(lab.internal(), "All: 10.1.0.1");
    }
    let mut lab = Lab::new(json!({})).with(&["10.1.0.1"]);
    let endpoint = &mut lab.slices[0].endpoints.as_mut().unwrap()[0];
    endpoint.conditions = serde_json::from_value(json!({ "ready": false, "terminating": true })).unwrap();
    assert_eq!(lab.internal(), "Terminating: 10.1.0.1", "serving unless it says otherwise");
}

#[test]
fn hints_count_only_when_all_ready_endpoints_have_them_and_one_names_us() {
    for (row, endpoints, expected) in [
        ("zone", &["10.1.0.1 for:z1", "10.1.0.2 for:z2"][..], "Zone: 10.1.0.1"),
        ("one without a hint", &["10.1.0.1 for:z1", "10.1.0.2"], "All: 10.1.0.1 10.1.0.2"),
        ("nobody hints us", &["10.1.0.1 for:z2", "10.1.0.2 for:z3"], "All: 10.1.0.1 10.1.0.2"),
        (
            "one that is not ready needs no hint",
            &["10.1.0.1 for:z1", "10.1.0.2 for:z2", "10.1.0.3 unready", "10.1.0.4 terminating"],
            "Zone: 10.1.0.1",
        ),
        (
            "the one for us is not ready",
            &["10.1.0.1 for:z1 unready", "10.1.0.2 for:z2", "10.1.0.3 for:z2"],
            "All: 10.1.0.2 10.1.0.3",
        ),
        ("node before zone", &["10.1.0.1 for:n1 for:z1", "10.1.0.2 for:n2 for:z1"], "Node: 10.1.0.1"),
        (
            "no node hint for us: zone",
            &["10.1.0.1 for:n3 for:z1", "10.1.0.2 for:n2 for:z2"],
            "Zone: 10.1.0.1",
        ),
        (
            "one without a node hint: zone",
            &["10.1.0.1 for:n1 for:z1", "10.1.0.2 for:z1", "10.1.0.3 for:z2"],
            "Zone: 10.1.0.1 10.1.0.2",
        ),
    ] {
        assert_eq!(Lab::new(json!({})).with(endpoints).internal(), expected, "{row}");
    }
    let lab = Lab::new(json!({})).with(&["10.1.0.1 for:z1", "10.1.0.2 for:z2"]);
    let lab = lab.on(|node| node.labels.clear());
    assert_eq!(lab.internal(), "All: 10.1.0.1 10.1.0.2", "a node without a zone");
}

#[test]
fn the_traffic_distribution_of_a_service_works_through_hints_alone() {
    for word in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        let lab =
            Lab::new(json!({ "trafficDistribution": word })).with(&["10.1.0.1 n1 z1", "10.1.0.2 n2 z2"]);
        assert_eq!(lab.internal(), "All: 10.1.0.1 10.1.0.2", "{word}");
    }
}

#[test]
fn an_endpoint_without_the_name_of_a_node_is_never_on_this_one() {
    let lab = Lab::new(json!({ "internalTrafficPolicy": "Local" })).with(&["10.1.0.1"]);
    assert_eq!(lab.internal(), "drop NoLocalInternal");
}

#[test]
fn services_without_an_address_have_no_routes() {
    for spec in [
        json!({ "clusterIP": "None", "clusterIPs": ["None"] }),
        json!({ "clusterIP": "", "clusterIPs": [] }),
        json!({ "clusterIP": null, "clusterIPs": null }),
        json!({ "type": "ExternalName", "externalName": "example.com" }),
    ] {
        assert_eq!(Lab::new(spec).with(&["10.1.0.1"]).routes(), Routes::default());
    }
}

#[test]
fn a_service_of_another_proxy_has_no_routes_and_no_health_check() {
    let mut lab = Lab::new(exposed("Cluster", "Local")).with(&["10.1.0.1 n1"]);
    for name in ["example", ""] {
        let label = ("service.kubernetes.io/service-proxy-name".to_owned(), name.to_owned());
        lab.service.metadata.labels = Some([label].into());
        assert_eq!(lab.routes(), Routes::default());
        let told = explain(&lab.input(), &lab.routes());
        assert!(told[0].ends_with(&format!("service-proxy-name leaves it to {name:?}")), "{told:?}");
    }
    lab.service.metadata.labels = None;
    assert_eq!(lab.routes().routes.len(), 4);
}

#[test]
fn every_address_of_a_dual_stack_service_has_its_own_endpoints() {
    let mut spec = exposed("Cluster", "Cluster");
    spec["clusterIPs"] = json!(["10.96.0.1", "fd00:96::1"]);
    spec["externalIPs"] = json!(["2001:db8::1", "198.51.100.1"]);
    spec["ingress"] = json!([
        { "ip": "203.0.113.1" }, { "ip": "2001:db8::2", "ipMode": "VIP" }, { "ip": "203.0.113.9", "ipMode": "Proxy" },
        { "hostname": "lb.example.com" },
    ]);
    let lab = Lab::new(spec).with(&["10.1.0.1"]).with(&["fd00:1::1", "fd00:1::2"]);
    let routes = lab.routes().routes;
    let said: Vec<String> =
        routes.iter().map(|route| format!("{} {}", name(&route.frontend), say(&route.action))).collect();
    let (v4, v6) = ("All: 10.1.0.1", "All: fd00:1::1 fd00:1::2");
    let expected = [
        format!("ClusterIp 10.96.0.1 80/TCP {v4}"),
        format!("ClusterIp fd00:96::1 80/TCP {v6}"),
        format!("ExternalIp 198.51.100.1 80/TCP {v4}"),
        format!("ExternalIp 2001:db8::1 80/TCP {v6}"),
        format!("LoadBalancer 203.0.113.1 80/TCP {v4}"),
        format!("LoadBalancer 2001:db8::2 80/TCP {v6}"),
        format!("NodePort IPv4 30080/TCP {v4}"),
        format!("NodePort IPv6 30080/TCP {v6}"),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_port_that_the_load_balancer_says_it_does_not_serve_is_not_served_at_its_address() {
    let mut spec = exposed("Cluster", "Cluster");
    spec["ports"] = json!([{ "name": "web", "port": 80 }, { "name": "talk", "port": 81, "protocol": "UDP" }]);
    spec["ingress"] = json!([
        { "ip": "203.0.113.1", "ports": [
            { "port": 80, "protocol": "TCP" }, { "port": 81, "protocol": "UDP", "error": "PortsNotSupported" },
            { "port": 80, "protocol": "UDP", "error": "x" }, { "port": 0, "protocol": "TCP", "error": "x" }] },
        { "ip": "203.0.113.2" },
    ]);
    let routes = Lab::new(spec).with(&["10.1.0.1"]).routes().routes;
    let balanced = routes.iter().filter(|route| route.frontend.kind == FrontendKind::LoadBalancer);
    let balanced: Vec<String> = balanced.map(|route| name(&route.frontend)).collect();
    let expected = [
        "LoadBalancer 203.0.113.1 80/TCP",
        "LoadBalancer 203.0.113.2 80/TCP",
        "LoadBalancer 203.0.113.2 81/UDP",
    ];
    assert_eq!(balanced, expected);
}

#[test]
fn ports_are_tied_to_those_of_slices_by_name_and_protocol() {
    let ports = json!([
        { "name": "dns", "port": 53, "protocol": "UDP" }, { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
        { "name": "http", "port": 80 }, { "name": "sig", "port": 2905, "protocol": "SCTP" },
    ]);
    let mut lab = Lab::new(json!({ "ports": ports })).with(&["10.1.0.1"]);
    lab.slices[0].ports = serde_json::from_value(json!([
        { "name": "dns", "port": 5353, "protocol": "UDP" }, { "name": "dns-tcp", "port": 5354, "protocol": "UDP" },
        { "name": "http", "port": null }, { "port": 80 }, { "name": "sig", "port": 2905, "protocol": "SCTP" },
    ]))
    .unwrap();
    let routes = lab.routes().routes;
    let said: Vec<String> =
        routes.iter().map(|route| format!("{} {}", name(&route.frontend), say(&route.action))).collect();
    assert_eq!(
        said,
        [
            "ClusterIp 10.96.0.1 53/TCP reject NoEndpoints",
            "ClusterIp 10.96.0.1 80/TCP reject NoEndpoints",
            "ClusterIp 10.96.0.1 53/UDP All: 10.1.0.1",
            "ClusterIp 10.96.0.1 2905/SCTP All: 10.1.0.1",
        ]
    );
    let Action::Balance(balance) = &routes[2].action else { panic!("no backends") };
    assert_eq!(balance.backends[0].port, 5353);
}

#[test]
fn the_external_policy_means_nothing_without_external_addresses() {
    let spec = json!({ "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000 });
    let lab = Lab::new(spec).with(&["10.1.0.1 n2"]);
    assert_eq!(lab.internal(), "All: 10.1.0.1");
    assert_eq!(lab.routes().health_check, None);
    let spec = json!({ "externalTrafficPolicy": "Local", "externalIPs": ["198.51.100.1"] });
    let lab = Lab::new(spec).with(&["10.1.0.1 n2"]);
    assert_eq!(say(&lab.route(FrontendKind::ExternalIp).action), "drop NoLocalExternal");
}

#[test]
fn affinity_lasts_as_long_as_the_service_says_and_three_hours_if_it_does_not() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (spec, expected) in [
        (json!({}), None),
        (json!({ "sessionAffinity": "None" }), None),
        (json!({ "sessionAffinity": "ClientIP" }), seconds(10800)),
        (
            json!({
                "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } }
            }),
            seconds(60),
        ),
    ] {
        let route = Lab::new(spec).with(&["10.1.0.1"]).route(FrontendKind::ClusterIp);
        let Action::Balance(balance) = route.action else { panic!("no backends") };
        assert_eq!(balance.backends[0].sticky, expected);
    }
}

#[test]
fn the_health_check_counts_addresses_of_ready_endpoints_on_this_node() {
    let mut spec = exposed("Cluster", "Local");
    spec["healthCheckNodePort"] = json!(31000);
    spec["clusterIPs"] = json!(["10.96.0.1", "fd00:96::1"]);
    let v4 = ["10.1.0.1 n1", "10.1.0.2 n1", "10.1.0.3 n1 terminating", "10.1.0.4 n2", "10.1.0.5 n1 unready"];
    let lab = Lab::new(spec.clone()).with(&v4).with(&["10.1.0.1 n1"]).with(&["fd00:1::1 n1", "fd00:1::2 n1"]);
    assert_eq!(lab.routes().health_check, Some(HealthCheck { port: 31000, local_endpoints: 2 }));
    spec["externalTrafficPolicy"] = json!("Cluster");
    assert_eq!(Lab::new(spec).with(&v4).routes().health_check, None);
}

#[test]
fn source_ranges_guard_the_balancer_and_nothing_else() {
    let guarded = |ranges: Value| {
        let mut spec = exposed("Cluster", "Cluster");
        spec["clusterIPs"] = json!(["10.96.0.1", "fd00:96::1"]);
        spec["ingress"] = json!([{ "ip": "203.0.113.1" }, { "ip": "2001:db8::2" }]);
        spec["loadBalancerSourceRanges"] = ranges;
        let routes = Lab::new(spec).with(&["10.1.0.1"]).routes().routes;
        let (balancers, others): (Vec<_>, Vec<_>) =
            routes.into_iter().partition(|route| route.frontend.kind == FrontendKind::LoadBalancer);
        assert!(others.iter().all(|route| route.allowed_sources.is_none()));
        let said = |place: usize| {
            let networks = balancers[place].allowed_sources.as_ref()?;
            Some(networks.iter().map(|network| network.to_string()).collect::<Vec<_>>().join(" "))
        };
        (said(0), said(1))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(guarded(json!([])), (None, None));
    assert_eq!(guarded(json!([" 10.0.0.0/8 ", "10.0.0.0/8"])), (some("10.0.0.0/8"), some("")));
    assert_eq!(guarded(json!(["fd00::/8"])), (some(""), some("fd00::/8")));
    assert_eq!(guarded(json!(["10.0.0.0/8", "fd00::/8"])), (some("10.0.0.0/8"), some("fd00::/8")));
    assert_eq!(guarded(json!(["0.0.0.0/0", "10.0.0.0/8"])), (None, None));
    assert_eq!(guarded(json!(["0.0.0.0/0", "fd00::/8"])), (None, some("fd00::/8")));
    assert_eq!(guarded(json!(["10.1.2.3/8"])), (some("10.0.0.0/8"), some("")));
    // The node itself may connect: then also when it sends from the balancer's address, which it may have taken over.
    assert_eq!(guarded(json!(["192.0.2.0/24"])), (some("192.0.2.0/24 203.0.113.1/32"), some("")));
}
