//! What may change in a Service, and what its status may say.

use serde_json::{Value, json};

use super::*;

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
