//! What becomes of a Service that is written, case by case, and properties of the address pool.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::invalid::{FieldError, Problem};

fn single_stack() -> Network {
    Network { service_cidrs: vec!["10.0.0.0/24".parse().expect("a network")], node_ports: 30000..=32767 }
}

fn dual_stack() -> Network {
    let cidrs = ["10.0.0.0/24", "fd00::/112"].map(|cidr| cidr.parse().expect("a network"));
    Network { service_cidrs: cidrs.to_vec(), node_ports: 30000..=32767 }
}

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "a"}, "spec": spec})
}

fn one_port() -> Value {
    json!([{"port": 80}])
}

/// Lets the pool choose the first free place of every range.
fn lowest(_: u64) -> u64 {
    0
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The whole way of a write, as the server goes it.
fn write(
    pool: &mut Addresses,
    old: Option<&Value>,
    spec: Value,
    gates: &Features,
) -> Result<Value, Vec<String>> {
    let mut new = object(spec);
    let network = pool.network().clone();
    default(&mut new, gates);
    match old {
        None => prepare_create(&mut new, gates, &network),
        Some(old) => prepare_update(old, &mut new, gates, &network),
    }
    .map_err(|wrong| texts(&wrong))?;
    let wrong = validate(&new, old);
    if !wrong.is_empty() {
        return Err(texts(&wrong));
    }
    allocate(pool, old, &mut new, &mut lowest).map_err(|wrong| texts(&wrong))?;
    Ok(new)
}

fn create(spec: Value) -> Result<Value, Vec<String>> {
    write(&mut Addresses::new(single_stack()), None, spec, &Features::default())
}

fn created(spec: Value) -> Value {
    create(spec).expect("a good service")
}

/// Creates a service and replaces it in the same pool.
fn update(before: Value, after: Value) -> Result<(Value, Value, Addresses), Vec<String>> {
    let mut pool = Addresses::new(single_stack());
    let old = write(&mut pool, None, before, &Features::default())?;
    let new = write(&mut pool, Some(&old), after, &Features::default())?;
    Ok((old, new, pool))
}

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

#[test]
fn what_the_server_chose_comes_back_when_left_out() {
    let ports = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]);
    let balancer = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports});
    let (old, new, pool) = update(balancer.clone(), balancer).expect("a good update");
    assert_eq!(new["spec"], old["spec"]);
    let mut again = Addresses::new(single_stack());
    again.adopt(&new);
    assert_eq!(format!("{again:?}"), format!("{pool:?}"));
}

#[test]
fn a_node_port_that_another_port_asks_for_does_not_come_back() {
    let before = json!({"type": "NodePort", "ports": [{"port": 80, "name": "a", "nodePort": 30001}]});
    let after = json!({"type": "NodePort", "ports": [
        {"port": 80, "name": "a"}, {"port": 81, "name": "b", "nodePort": 30001}]});
    let (_, new, _) = update(before, after).expect("a good update");
    assert_eq!(node_ports(&new).collect::<Vec<_>>(), [30086, 30001]);
}

#[test]
fn the_cluster_address_is_for_life() {
    let cases = [
        (json!({"ports": one_port(), "clusterIP": "10.0.0.9"}), "[\"10.0.0.9\"]"),
        (json!({"ports": one_port(), "clusterIP": "None"}), "[\"None\"]"),
    ];
    for (after, shown) in cases {
        let wrong = update(json!({"ports": one_port()}), after).expect_err("a bad update");
        assert_eq!(wrong[0], format!("spec.clusterIPs[0]: Invalid value: {shown}: may not change once set"));
    }
}

#[test]
fn becoming_an_external_name_releases_everything() {
    let before = json!({"type": "LoadBalancer", "ports": one_port(), "loadBalancerClass": "a/b"});
    let mut pool = Addresses::new(single_stack());
    let mut old = write(&mut pool, None, before, &Features::default()).expect("good");
    old["status"] =
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}, "conditions": [{"type": "X"}]});
    let mut spec = old["spec"].clone();
    spec["type"] = "ExternalName".into();
    spec["externalName"] = "a.example.com".into();
    let new = write(&mut pool, Some(&old), spec, &Features::default()).expect("a good update");
    for key in [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "loadBalancerClass",
        "externalTrafficPolicy",
        "allocateLoadBalancerNodePorts",
    ] {
        assert_eq!(new["spec"].get(key), None, "{key}");
    }
    assert_eq!(node_ports(&new).count(), 0);
    assert_eq!(new["status"], json!({"loadBalancer": {}, "conditions": [{"type": "X"}]}));
    assert_eq!(format!("{pool:?}"), format!("{:?}", Addresses::new(single_stack())));
}

#[test]
fn leaving_load_balancer_for_node_port_keeps_the_node_ports() {
    let (old, new, _) = update(
        json!({"type": "LoadBalancer", "ports": one_port()}),
        json!({"type": "NodePort", "ports": one_port()}),
    )
    .expect("a good update");
    assert_eq!(node_ports(&new).collect::<Vec<_>>(), node_ports(&old).collect::<Vec<_>>());
    assert_eq!(new["status"], json!({"loadBalancer": {}}));
}

#[test]
fn source_ranges_do_not_survive_leaving_load_balancer_silently() {
    let spec =
        |kind: &str| json!({"type": kind, "ports": one_port(), "loadBalancerSourceRanges": ["10.0.0.0/8"]});
    let wrong = update(spec("LoadBalancer"), spec("ClusterIP")).expect_err("a bad update");
    assert_eq!(
        wrong,
        ["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"]
    );
}

#[test]
fn the_class_is_frozen_while_the_type_stays() {
    let plain = json!({"type": "LoadBalancer", "ports": one_port()});
    let classy = json!({"type": "LoadBalancer", "ports": one_port(), "loadBalancerClass": "a/b"});
    let wrong = update(plain, classy.clone()).expect_err("a bad update");
    assert_eq!(wrong, ["spec.loadBalancerClass: Invalid value: \"a/b\": may not change once set"]);
    let (_, new, _) = update(classy, json!({"ports": one_port()})).expect("a good update");
    assert_eq!(new["spec"].get("loadBalancerClass"), None);
}

#[test]
fn the_health_port_is_frozen_while_it_is_needed() {
    let spec = |port: i64| {
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": one_port(),
            "healthCheckNodePort": port})
    };
    let wrong = update(spec(30500), spec(30501)).expect_err("a bad update");
    assert_eq!(wrong, ["spec.healthCheckNodePort: Forbidden: field is immutable"]);
    let mut cluster = spec(30500);
    cluster["externalTrafficPolicy"] = "Cluster".into();
    let (_, new, mut pool) = update(spec(30500), cluster).expect("a good update");
    assert_eq!(new["spec"].get("healthCheckNodePort"), None);
    assert_eq!(pool.take_port_for_test(30500), Ok(30500));
}

#[test]
fn a_second_family_comes_and_goes() {
    let gates = Features::default();
    let mut pool = Addresses::new(dual_stack());
    let old = write(&mut pool, None, json!({"ports": one_port()}), &gates).expect("good");
    let dual = json!({"ports": one_port(), "ipFamilyPolicy": "PreferDualStack"});
    let both = write(&mut pool, Some(&old), dual, &gates).expect("an upgrade");
    assert_eq!(both["spec"]["clusterIPs"], json!(["10.0.0.17", "fd00::101"]));
    let mut spec = both["spec"].clone();
    spec["ipFamilyPolicy"] = "SingleStack".into();
    let single = write(&mut pool, Some(&both), spec, &gates).expect("a downgrade");
    assert_eq!(single["spec"]["clusterIPs"], json!(["10.0.0.17"]));
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
    let other = write(&mut pool, None, json!({"ports": one_port(), "clusterIP": "fd00::101"}), &gates);
    assert!(other.is_ok(), "the second address is free again: {other:?}");
}

#[test]
fn a_closed_gate_drops_the_field_unless_it_is_stored() {
    let closed =
        Features { service_internal_traffic_policy: false, load_balancer_status_improvements: false };
    let spec = json!({"type": "LoadBalancer", "ports": one_port(), "internalTrafficPolicy": "Local",
        "requiredLoadBalancerFeatures": ["Ports"]});
    let mut pool = Addresses::new(single_stack());
    let dropped = write(&mut pool, None, spec.clone(), &closed).expect("good");
    assert_eq!(dropped["spec"].get("internalTrafficPolicy"), None);
    assert_eq!(dropped["spec"].get("requiredLoadBalancerFeatures"), None);
    let stored = write(&mut pool, None, spec.clone(), &Features::default()).expect("good");
    let kept = write(&mut pool, Some(&stored), spec, &closed).expect("good");
    assert_eq!(kept["spec"]["internalTrafficPolicy"], "Local");
    assert_eq!(kept["spec"]["requiredLoadBalancerFeatures"], json!(["Ports"]));
}

#[test]
fn an_external_name_never_shows_an_internal_policy() {
    let spec = json!({"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Local"});
    let mut service = created(spec);
    assert_eq!(service["spec"]["internalTrafficPolicy"], "Local", "it is stored");
    on_read(&mut service);
    assert_eq!(service["spec"].get("internalTrafficPolicy"), None);
}

#[test]
fn a_provider_writes_the_status_only_and_correctly() {
    let old = created(json!({"type": "LoadBalancer", "ports": one_port()}));
    let status = |ingress: Value| {
        let mut new = json!({"metadata": {"name": "web"}, "spec": {"type": "ClusterIP"}, "status": {
            "loadBalancer": {"ingress": ingress}}});
        prepare_status(&old, &mut new);
        default(&mut new, &Features::default());
        let wrong = texts(&validate_status(&new, &old));
        (new, wrong)
    };
    let (new, wrong) = status(json!([{"ip": "192.0.2.1"}, {"hostname": "lb.example.com"}]));
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(
        new["status"]["loadBalancer"]["ingress"],
        json!([{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "lb.example.com"}])
    );
    let path = "status.loadBalancer.ingress[0]";
    let cases = [
        (
            json!([{"ip": "x"}]),
            format!(
                "{path}.ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            ),
        ),
        (
            json!([{"ip": "192.0.2.1", "ipMode": "Odd"}]),
            format!("{path}.ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\""),
        ),
        (
            json!([{"hostname": "a.b", "ipMode": "VIP"}]),
            format!("{path}.ipMode: Forbidden: may not be specified when `ip` is not set"),
        ),
        (
            json!([{"hostname": "192.0.2.1"}]),
            format!("{path}.hostname: Invalid value: \"192.0.2.1\": must be a DNS name, not an IP address"),
        ),
    ];
    for (ingress, expected) in cases {
        assert_eq!(status(ingress).1, [expected]);
    }
}

#[test]
fn only_load_balancers_have_ingress() {
    let old = created(json!({"ports": one_port()}));
    let mut new = old.clone();
    new["status"]["loadBalancer"]["ingress"] = json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]);
    assert_eq!(
        texts(&validate_status(&new, &old)),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
}

#[test]
fn a_taken_address_is_refused_and_leaves_no_trace() {
    let mut pool = Addresses::new(single_stack());
    let gates = Features::default();
    write(&mut pool, None, json!({"ports": one_port(), "clusterIP": "10.0.0.5"}), &gates).expect("good");
    let before = format!("{pool:?}");
    let wrong = write(&mut pool, None, json!({"ports": one_port(), "clusterIP": "10.0.0.5"}), &gates);
    assert_eq!(
        wrong.expect_err("taken"),
        [
            "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: failed to allocate IP 10.0.0.5: provided IP is already \
             allocated",
        ]
    );
    assert_eq!(format!("{pool:?}"), before);
}

#[test]
fn a_full_range_says_so() {
    let network =
        Network { service_cidrs: vec!["10.0.0.0/30".parse().expect("a network")], node_ports: 30000..=30000 };
    let mut pool = Addresses::new(network);
    let gates = Features::default();
    let node_port = json!({"type": "NodePort", "ports": one_port()});
    let first = write(&mut pool, None, node_port.clone(), &gates).expect("room for one");
    assert_eq!(first["spec"]["clusterIP"], "10.0.0.2", "the first address is the kubernetes service's");
    let full = write(&mut pool, None, json!({"ports": one_port()}), &gates).expect_err("no room");
    assert_eq!(
        full,
        [
            "spec.clusterIPs: Internal error: failed to allocate a serviceIP for Service \"web\": range is full"
        ]
    );
    let kubernetes = json!({"ports": one_port(), "clusterIP": "10.0.0.1"});
    assert!(write(&mut pool, None, kubernetes, &gates).is_ok());
    release(&mut pool, &first);
    assert!(write(&mut pool, None, node_port, &gates).is_ok());
}

#[test]
fn reasons_that_are_nobodys_mistake_are_internal() {
    let network =
        Network { service_cidrs: vec!["10.0.0.0/31".parse().expect("a network")], node_ports: 1..=1 };
    let mut service = object(json!({"type": "ClusterIP", "ipFamilies": ["IPv4"]}));
    let wrong = allocate(&mut Addresses::new(network), None, &mut service, &mut lowest).expect_err("full");
    assert_eq!(wrong[0].problem, Problem::Internal);
}

impl Addresses {
    /// Takes a port, to see whether it is free.
    fn take_port_for_test(&mut self, port: i64) -> Result<u16, String> {
        let mut service = object(
            json!({"type": "NodePort", "ipFamilies": ["IPv4"], "ports": [{"port": 1, "nodePort": port}]}),
        );
        allocate(self, None, &mut service, &mut lowest).map_err(|wrong| wrong[0].detail.clone())?;
        u16::try_from(port).map_err(|error| error.to_string())
    }
}

/// One thing that happens to the pool.
#[derive(Clone, Debug)]
enum Step {
    Create { kind: &'static str, ip: Option<u8>, node_port: Option<u16>, local: bool },
    Change { which: usize, kind: &'static str, node_port: Option<u16>, local: bool },
    Delete { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = || prop::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let port = || prop::option::of(29998u16..30012);
    let create = (kind(), prop::option::of(any::<u8>()), port(), any::<bool>())
        .prop_map(|(kind, ip, node_port, local)| Step::Create { kind, ip, node_port, local });
    let change = (any::<usize>(), kind(), port(), any::<bool>())
        .prop_map(|(which, kind, node_port, local)| Step::Change { which, kind, node_port, local });
    let delete = any::<usize>().prop_map(|which| Step::Delete { which });
    prop::collection::vec(prop_oneof![3 => create, 2 => change, 1 => delete], 1..40)
}

fn requested(kind: &str, ip: Option<u8>, node_port: Option<u16>, local: bool) -> Value {
    let mut spec = json!({"type": kind, "ports": [{"port": 80}]});
    let uses_ports = matches!(kind, "NodePort" | "LoadBalancer");
    if kind == "ExternalName" {
        return json!({"type": kind, "externalName": "a.example.com", "ports": [{"port": 80}]});
    }
    if let Some(ip) = ip {
        spec["clusterIP"] = format!("10.0.0.{ip}").into();
    }
    if let (true, Some(port)) = (uses_ports, node_port) {
        spec["ports"][0]["nodePort"] = port.into();
    }
    if uses_ports && local {
        spec["externalTrafficPolicy"] = "Local".into();
    }
    spec
}

proptest! {
    /// Whatever happens: no address is held twice, the pool holds exactly what the services hold, and a refused write
    /// changes nothing.
    #[test]
    fn the_pool_is_what_the_services_hold(steps in steps(), seed in any::<u64>()) {
        let network = Network { service_cidrs: vec!["10.0.0.0/27".parse().expect("a network")], node_ports: 30000..=30009 };
        let mut pool = Addresses::new(network.clone());
        let mut services: Vec<Value> = Vec::new();
        let mut state = seed;
        for step in steps {
            let (old, spec) = match step {
                Step::Delete { which } => {
                    if !services.is_empty() {
                        let gone = services.swap_remove(which % services.len());
                        release(&mut pool, &gone);
                    }
                    continue;
                }
                Step::Create { kind, ip, node_port, local } => (None, requested(kind, ip, node_port, local)),
                Step::Change { which, kind, node_port, local } => {
                    if services.is_empty() { continue; }
                    (Some(which % services.len()), requested(kind, None, node_port, local))
                }
            };
            let before = format!("{pool:?}");
            let stored = old.map(|index| services[index].clone());
            let mut new = object(spec);
            let gates = Features::default();
            default(&mut new, &gates);
            let prepared = match &stored {
                None => prepare_create(&mut new, &gates, &network),
                Some(stored) => prepare_update(stored, &mut new, &gates, &network),
            };
            let unallocated = new.clone();
            let mut pick = |bound: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % bound
            };
            if prepared.is_err() || !validate(&new, stored.as_ref()).is_empty() {
                prop_assert_eq!(format!("{pool:?}"), before);
                continue;
            }
            match allocate(&mut pool, stored.as_ref(), &mut new, &mut pick) {
                Err(_) => {
                    prop_assert_eq!(format!("{pool:?}"), before);
                    prop_assert_eq!(&new, &unallocated);
                }
                Ok(()) => {
                    prop_assert!(validate(&new, stored.as_ref()).is_empty(), "what is chosen is valid");
                    match old {
                        None => services.push(new),
                        Some(index) => services[index] = new,
                    }
                }
            }
            let mut ips: Vec<_> = services.iter().filter(|one| needs_cluster_ip(one)).flat_map(parsed_ips).collect();
            let count = ips.len();
            ips.sort_unstable();
            ips.dedup();
            prop_assert_eq!(ips.len(), count, "no address twice");
            let mut ports: Vec<_> = services.iter().flat_map(node_ports).collect();
            let health = services.iter().filter(|one| needs_health_check(one));
            ports.extend(health.map(|one| field::number(one, "spec.healthCheckNodePort")));
            let count = ports.len();
            ports.sort_unstable();
            ports.dedup();
            prop_assert_eq!(ports.len(), count, "no port twice");
            let mut rebuilt = Addresses::new(network.clone());
            services.iter().for_each(|service| rebuilt.adopt(service));
            prop_assert_eq!(format!("{rebuilt:?}"), format!("{pool:?}"));
        }
    }
}
