//! What the server chooses for a new Service.

use serde_json::json;

use super::*;

#[test]
fn a_bare_service_gets_everything() {
    assert_eq!(
        created(json!({"ports": one_port(), "selector": {"app": "web"}})),
        json!({
            "metadata": {"name": "web", "namespace": "a"},
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.0.0.17", "clusterIPs": ["10.0.0.17"],
                "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"app": "web"},
                "sessionAffinity": "None",
            },
            "status": {"loadBalancer": {}},
        })
    );
}

#[test]
fn a_load_balancer_gets_node_ports_and_a_health_port() {
    let service = created(json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
        "ports": [{"port": 53, "name": "tcp"}, {"port": 53, "name": "udp", "protocol": "UDP"}, {"port": 80, "name": "x"}],
    }));
    let spec = &service["spec"];
    let ports: Vec<_> = node_ports(&service).collect();
    assert_eq!(ports, [30086, 30086, 30087], "one port over two protocols is one node port");
    assert_eq!(spec["healthCheckNodePort"], 30088);
    assert_eq!(spec["allocateLoadBalancerNodePorts"], true);
    assert_eq!(spec["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn a_load_balancer_may_do_without_node_ports() {
    let ports = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b", "nodePort": 31000}]);
    let service =
        created(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports}));
    assert_eq!(node_ports(&service).collect::<Vec<_>>(), [31000]);
}

#[test]
fn external_policy_follows_from_reachability() {
    let policy = |spec| created(spec)["spec"].get("externalTrafficPolicy").cloned();
    assert_eq!(policy(json!({"ports": one_port()})), None);
    assert_eq!(policy(json!({"ports": one_port(), "type": "NodePort"})), Some("Cluster".into()));
    assert_eq!(policy(json!({"ports": one_port(), "externalIPs": ["192.0.2.1"]})), Some("Cluster".into()));
}

#[test]
fn families_follow_from_the_network() {
    let headless = json!({"clusterIP": "None"});
    let both = json!(["IPv4", "IPv6"]);
    let cases = [
        (single_stack(), json!({"ports": one_port()}), "SingleStack", json!(["IPv4"])),
        (single_stack(), headless.clone(), "RequireDualStack", both.clone()),
        (
            single_stack(),
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            "SingleStack",
            json!(["IPv4"]),
        ),
        (
            single_stack(),
            json!({"ports": one_port(), "ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            json!(["IPv4"]),
        ),
        (dual_stack(), json!({"ports": one_port()}), "SingleStack", json!(["IPv4"])),
        (
            dual_stack(),
            json!({"ports": one_port(), "ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            both.clone(),
        ),
        (
            dual_stack(),
            json!({"ports": one_port(), "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            "RequireDualStack",
            json!(["IPv6", "IPv4"]),
        ),
        (dual_stack(), json!({"ports": one_port(), "clusterIP": "fd00::5"}), "SingleStack", json!(["IPv6"])),
    ];
    for (network, spec, policy, families) in cases {
        let service =
            write(&mut Addresses::new(network), None, spec.clone(), &Features::default()).expect("good");
        assert_eq!(service["spec"]["ipFamilyPolicy"], policy, "{spec}");
        assert_eq!(service["spec"]["ipFamilies"], families, "{spec}");
        if !is_headless(&service) {
            let found: Vec<_> = parsed_ips(&service).map(crate::rules::ip::family).collect();
            assert_eq!(json!(found), families, "{spec}");
        }
    }
}

#[test]
fn a_network_cannot_give_what_it_does_not_have() {
    let cases = [
        (
            json!({"ports": one_port(), "ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack \
             services",
        ),
        (
            json!({"ports": one_port(), "ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ports": one_port(), "clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"ports": one_port(), "clusterIP": "10.0.1.1"}),
            "spec.clusterIPs: Invalid value: [\"10.0.1.1\"]: failed to allocate IP 10.0.1.1: the provided network does \
             not match the current range",
        ),
        (
            json!({"ports": one_port(), "clusterIP": "10.0.0.255"}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.255\"]: failed to allocate IP 10.0.0.255: the provided IP \
             (10.0.0.255) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid \
             ports is 30000-32767",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(create(spec), Err(vec![expected.to_owned()]));
    }
}
