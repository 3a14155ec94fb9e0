//! What is wrong with a Service is said where it is.

use serde_json::{Value, json};

use super::*;

#[test]
fn each_mistake_is_named_where_it_is() {
    let with = |key: &str, value: Value| {
        let mut spec = json!({"ports": one_port()});
        spec[key] = value;
        spec
    };
    let balancer = |key: &str, value: Value| {
        let mut spec = json!({"ports": one_port(), "type": "LoadBalancer"});
        spec[key] = value;
        spec
    };
    let cases = [
        (json!({}), vec!["spec.ports: Required value"]),
        (
            with("type", json!("Magic")),
            vec![
                "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \
                 \"LoadBalancer\", \"NodePort\"",
            ],
        ),
        (
            with("ports", json!([{"port": 0}])),
            vec![
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            with("ports", json!([{"port": 80, "name": "a"}, {"port": 81}])),
            vec!["spec.ports[1].name: Required value"],
        ),
        (
            with("ports", json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}])),
            vec!["spec.ports[1].name: Duplicate value: \"a\""],
        ),
        (
            with("ports", json!([{"port": 80, "protocol": "ICMP"}])),
            vec![
                "spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            with("ports", json!([{"port": 80, "targetPort": "no_name"}])),
            vec![
                "spec.ports[0].targetPort: Invalid value: \"no_name\": must contain only alpha-numeric characters \
                 (a-z, 0-9), and hyphens (-)",
            ],
        ),
        (
            with("ports", json!([{"port": 80, "nodePort": 30000}])),
            vec!["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None", "ports": one_port()}),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
            ],
        ),
        (json!({"type": "ExternalName"}), vec!["spec.externalName: Required value"]),
        (
            json!({"type": "ExternalName", "externalName": "a.example.com", "clusterIP": "10.0.0.5"}),
            vec!["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            with("sessionAffinity", json!("Cookie")),
            vec![
                "spec.sessionAffinity: Unsupported value: \"Cookie\": supported values: \"ClientIP\", \"None\"",
            ],
        ),
        (
            json!({"ports": one_port(), "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}),
            vec![
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and \
                 less than 86400",
            ],
        ),
        (
            with("internalTrafficPolicy", json!("local")),
            vec![
                "spec.internalTrafficPolicy: Unsupported value: \"local\": supported values: \"Cluster\", \"Local\"",
            ],
        ),
        (
            with("internalTrafficPolicy", json!("")),
            vec![
                "spec.internalTrafficPolicy: Unsupported value: \"\": supported values: \"Cluster\", \"Local\"",
            ],
        ),
        (
            with("externalTrafficPolicy", json!("Local")),
            vec![
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible \
                 services",
            ],
        ),
        (
            balancer("healthCheckNodePort", json!(30500)),
            vec![
                "spec.healthCheckNodePort: Invalid value: 30500: may only be set when `type` is 'LoadBalancer' and \
                 `externalTrafficPolicy` is 'Local'",
            ],
        ),
        (
            with("trafficDistribution", json!("Near")),
            vec![
                "spec.trafficDistribution: Unsupported value: \"Near\": supported values: \"PreferClose\", \
                 \"PreferSameZone\", \"PreferSameNode\"",
            ],
        ),
        (
            with("loadBalancerClass", json!("x/y")),
            vec!["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
        (
            with("loadBalancerSourceRanges", json!(["10.0.0.0/8"])),
            vec!["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
        (
            balancer("loadBalancerSourceRanges", json!([" 10.0.0.0/8 ", "10.0.0.0/33"])),
            vec![
                "spec.LoadBalancerSourceRanges[1]: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. \
                 10.9.8.0/24 or 2001:db8::/64)",
            ],
        ),
        (
            with("allocateLoadBalancerNodePorts", json!(false)),
            vec![
                "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ],
        ),
        (
            balancer("requiredLoadBalancerFeatures", json!(["Ports", "", "Ports"])),
            vec![
                "spec.requiredLoadBalancerFeatures[1]: Required value",
                "spec.requiredLoadBalancerFeatures[2]: Duplicate value: \"Ports\"",
            ],
        ),
        (
            with("externalIPs", json!(["127.0.0.1"])),
            vec![
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
                 ::1/128)",
            ],
        ),
        (
            with("clusterIPs", json!(["10.0.0.5"])),
            vec![
                "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: must be empty when `clusterIP` is not specified",
            ],
        ),
        (
            json!({"ports": one_port(), "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.6"]}),
            vec!["spec.clusterIPs: Invalid value: [\"10.0.0.6\"]: first value must match `clusterIP`"],
        ),
        (
            with("clusterIP", json!("here")),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"here\": must be a valid IP address, (e.g. 10.9.8.7 or \
                 2001:db8::ffff)",
            ],
        ),
        (with("ipFamilies", json!(["IPv4", "IPv4"])), vec!["spec.ipFamilies[1]: Duplicate value: \"IPv4\""]),
    ];
    for (spec, expected) in cases {
        assert_eq!(create(spec.clone()).expect_err("a bad service"), expected, "{spec}");
    }
}

#[test]
fn the_same_port_twice_is_refused() {
    let ports = json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]);
    let wrong = create(json!({ "ports": ports })).expect_err("a bad service");
    assert!(wrong[0].starts_with("spec.ports[1]: Duplicate value: {"), "{wrong:?}");
}

#[test]
fn good_services_of_all_kinds_pass() {
    for spec in [
        json!({"clusterIP": "None", "internalTrafficPolicy": "Local"}),
        json!({"type": "ExternalName", "externalName": "a.example.com."}),
        json!({"type": "NodePort", "ports": [{"port": 53, "nodePort": 30053, "name": "a"},
            {"port": 53, "nodePort": 30053, "protocol": "UDP", "name": "b"}]}),
        json!({"type": "LoadBalancer", "ports": one_port(), "loadBalancerClass": "example.com/class",
            "requiredLoadBalancerFeatures": ["Ports", "SessionAffinity"]}),
        json!({"ports": one_port(), "trafficDistribution": "PreferSameNode"}),
        json!({"ports": [{"port": 80, "targetPort": "http"}]}),
    ] {
        created(spec);
    }
}
