//! Services, EndpointSlices and what the feature gates decide.

use serde_json::{Value, json};
use tombolo_apiserver::{Features, Options};

use crate::client::*;

fn with_features(internal_traffic_policy: bool, load_balancer: bool) -> Wire {
    let features = Features {
        service_internal_traffic_policy: internal_traffic_policy,
        load_balancer_status_improvements: load_balancer,
    };
    Wire::with(Options { features, ..repeatable() })
}

fn service_with(spec: Value) -> Value {
    let mut object = service("a");
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_everything_its_type_calls_for() {
    let wire = Wire::new();
    let stored = wire.create(SERVICES, &service("a")).await["spec"].clone();
    assert_eq!((&stored["type"], &stored["sessionAffinity"]), (&json!("ClusterIP"), &json!("None")));
    assert_eq!(stored["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(stored["internalTrafficPolicy"], "Cluster");
    assert_eq!((&stored["ipFamilies"], &stored["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    assert_eq!(stored["clusterIPs"], json!([stored["clusterIP"]]));
    assert!(stored["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert_eq!(
        (stored.get("externalTrafficPolicy"), stored.get("allocateLoadBalancerNodePorts")),
        (None, None)
    );

    wire.delete(&format!("{SERVICES}/a")).await.ok(200);
    let stored = wire.create(SERVICES, &service_with(json!({"type": "LoadBalancer"}))).await["spec"].clone();
    assert_eq!(
        (&stored["externalTrafficPolicy"], &stored["allocateLoadBalancerNodePorts"]),
        (&json!("Cluster"), &json!(true))
    );
    assert!((30_000..=32_767).contains(&stored["ports"][0]["nodePort"].as_i64().unwrap()));
    wire.delete(&format!("{SERVICES}/a")).await.ok(200);
    let affinity = wire.create(SERVICES, &service_with(json!({"sessionAffinity": "ClientIP"}))).await;
    assert_eq!(affinity["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10_800}}));
    let kubernetes = wire.get(&format!("{SERVICES}/kubernetes")).await.ok(200);
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.96.0.1");
}

#[tokio::test(start_paused = true)]
async fn a_put_without_addresses_and_node_ports_keeps_them() {
    let wire = Wire::new();
    let object = service_with(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}));
    let first = wire.create(SERVICES, &object).await;
    let after = wire.put(&format!("{SERVICES}/a"), &object).await.ok(200);
    assert_eq!(after, first);
    let mut other = first.clone();
    other["spec"]["clusterIP"] = json!("10.96.9.9");
    other["spec"]["clusterIPs"] = json!(["10.96.9.9"]);
    let reply = wire.put(&format!("{SERVICES}/a"), &other).await;
    assert_eq!(reply.code, 422);
    assert!(
        reply
            .message()
            .contains("spec.clusterIPs[0]: Invalid value: [\"10.96.9.9\"]: may not change once set"),
        "{}",
        reply.message()
    );
}

#[tokio::test(start_paused = true)]
async fn the_type_of_a_service_may_change() {
    let wire = Wire::new();
    let path = format!("{SERVICES}/a");
    let first = wire.create(SERVICES, &service("a")).await;
    let node_port = wire.patch(&path, MERGE, &json!({"spec": {"type": "NodePort"}})).await.ok(200);
    assert_eq!(node_port["spec"]["clusterIP"], first["spec"]["clusterIP"]);
    assert!(node_port["spec"]["ports"][0]["nodePort"].as_i64().is_some());
    let back = wire.patch(&path, MERGE, &json!({"spec": {"type": "ClusterIP"}})).await.ok(200);
    assert_eq!(
        (back["spec"]["ports"][0].get("nodePort"), back["spec"].get("externalTrafficPolicy")),
        (None, None)
    );
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let external = wire.patch(&path, MERGE, &external).await.ok(200);
    for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        assert_eq!(external["spec"].get(gone), None, "{gone}");
    }
    // Its address is free again.
    let mut again = service("b");
    again["spec"]["clusterIP"] = first["spec"]["clusterIP"].clone();
    wire.create(SERVICES, &again).await;
    let home =
        wire.patch(&path, MERGE, &json!({"spec": {"type": "ClusterIP", "externalName": null}})).await.ok(200);
    assert!(home["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert_eq!(home["spec"]["internalTrafficPolicy"], "Cluster");
}

#[tokio::test(start_paused = true)]
async fn headless_and_external_services_have_no_address() {
    let wire = Wire::new();
    let headless = wire.create(SERVICES, &service_with(json!({"clusterIP": "None"}))).await["spec"].clone();
    assert_eq!((&headless["clusterIP"], &headless["clusterIPs"]), (&json!("None"), &json!(["None"])));
    assert_eq!(
        (&headless["ipFamilyPolicy"], &headless["ipFamilies"]),
        (&json!("SingleStack"), &json!(["IPv4"]))
    );
    let mut free = service_with(json!({"clusterIP": "None"}));
    free["metadata"]["name"] = json!("free");
    free["spec"].as_object_mut().unwrap().remove("selector");
    let free = wire.create(SERVICES, &free).await["spec"].clone();
    assert_eq!(
        (&free["ipFamilyPolicy"], &free["ipFamilies"]),
        (&json!("RequireDualStack"), &json!(["IPv4", "IPv6"]))
    );
    let reply = wire.post(SERVICES, &json!({"metadata": {"name": "x"}, "spec": {"type": "LoadBalancer", "clusterIP": "None", "ports": [{"port": 1}]}})).await;
    assert_eq!((reply.code, reply.causes()[0].0), (422, "spec.clusterIPs[0]"), "{}", reply.json);
    let reply =
        wire.post(SERVICES, &json!({"metadata": {"name": "x"}, "spec": {"type": "ExternalName"}})).await;
    assert_eq!((reply.code, reply.causes()[0].0), (422, "spec.externalName"), "{}", reply.json);
    let reply = wire.post(SERVICES, &service_with(json!({"ipFamilyPolicy": "RequireDualStack"}))).await;
    assert_eq!(reply.code, 422, "one stack is not two: {}", reply.json);
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_a_service_are_named() {
    let wire = Wire::new();
    let cases = [
        (json!({"ports": []}), "spec.ports", "FieldValueRequired"),
        (json!({"ports": [{"port": 80}, {"port": 81}]}), "spec.ports[0].name", "FieldValueRequired"),
        (
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}),
            "spec.ports[1]",
            "FieldValueDuplicate",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 30_001}]}),
            "spec.ports[0].nodePort",
            "FieldValueForbidden",
        ),
        (
            json!({"ports": [{"port": 80, "protocol": "QUIC"}]}),
            "spec.ports[0].protocol",
            "FieldValueNotSupported",
        ),
        (json!({"type": "Other"}), "spec.type", "FieldValueNotSupported"),
        (json!({"sessionAffinity": "Sticky"}), "spec.sessionAffinity", "FieldValueNotSupported"),
        (json!({"internalTrafficPolicy": "local"}), "spec.internalTrafficPolicy", "FieldValueNotSupported"),
        (json!({"externalTrafficPolicy": "Local"}), "spec.externalTrafficPolicy", "FieldValueInvalid"),
        (json!({"clusterIP": "10.200.0.1"}), "spec.clusterIPs", "FieldValueInvalid"),
        (json!({"clusterIP": "nonsense"}), "spec.clusterIPs[0]", "FieldValueInvalid"),
        (json!({"loadBalancerClass": "example.com/x"}), "spec.loadBalancerClass", "FieldValueForbidden"),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort",
            "FieldValueInvalid",
        ),
    ];
    for (spec, field, reason) in cases {
        let reply = wire.post(SERVICES, &service_with(spec.clone())).await;
        assert_eq!(reply.code, 422, "{spec}: {}", reply.json);
        assert!(reply.causes().contains(&(field, reason)), "{spec}: {:?}", reply.causes());
    }
    assert_eq!(names(&wire.get(SERVICES).await.json), ["kubernetes"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_port_belongs_to_one_service_and_there_once_per_protocol() {
    let wire = Wire::new();
    let asking = |name: &str, protocols: &[&str]| {
        let ports = protocols.iter().map(|protocol| {
            json!({"name": protocol.to_lowercase(), "port": 80, "nodePort": 30_080, "protocol": protocol})
        });
        let mut object = service_with(json!({"type": "NodePort", "ports": ports.collect::<Vec<_>>()}));
        object["metadata"]["name"] = json!(name);
        object
    };
    wire.create(SERVICES, &asking("a", &["TCP", "UDP"])).await;
    let reply = wire.post(SERVICES, &asking("c", &["SCTP"])).await;
    let message = "Service \"c\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated";
    reply.refuses(422, "Invalid", message);
}

#[tokio::test(start_paused = true)]
async fn the_internal_traffic_policy_is_defaulted_reset_and_hidden_by_type() {
    let wire = Wire::new();
    let path = format!("{SERVICES}/a");
    for (spec, expected) in [
        (json!({}), json!("Cluster")),
        (json!({"internalTrafficPolicy": null}), json!("Cluster")),
        (json!({"internalTrafficPolicy": "Local"}), json!("Local")),
        (json!({"clusterIP": "None", "internalTrafficPolicy": "Local"}), json!("Local")),
        (json!({"type": "NodePort"}), json!("Cluster")),
        (json!({"type": "LoadBalancer"}), json!("Cluster")),
        (json!({"clusterIP": "None"}), json!("Cluster")),
        (
            json!({"type": "ExternalName", "externalName": "e.com", "internalTrafficPolicy": "Local"}),
            Value::Null,
        ),
        (json!({"type": "ExternalName", "externalName": "e.com"}), Value::Null),
    ] {
        let stored = wire.create(SERVICES, &service_with(spec.clone())).await;
        assert_eq!(stored["spec"]["internalTrafficPolicy"], expected, "{spec}");
        assert_eq!(wire.get(&path).await.json["spec"]["internalTrafficPolicy"], expected, "{spec}");
        wire.delete(&path).await.ok(200);
    }
    wire.create(SERVICES, &service_with(json!({"internalTrafficPolicy": "Local"}))).await;
    let after = wire.put(&path, &service("a")).await.ok(200);
    assert_eq!(after["spec"]["internalTrafficPolicy"], "Cluster", "a PUT that says nothing resets it");
    let after = wire.patch(&path, MERGE, &json!({"spec": {"internalTrafficPolicy": "Local"}})).await.ok(200);
    assert_eq!(after["spec"]["internalTrafficPolicy"], "Local");
    wire.patch(&path, MERGE, &json!({"spec": {"type": "ExternalName", "externalName": "e.com"}}))
        .await
        .ok(200);
    let watched =
        wire.watch(&format!("{SERVICES}?fieldSelector=metadata.name%3Da")).await.next().await.unwrap();
    assert_eq!(watched["object"]["spec"].get("internalTrafficPolicy"), None);
    let list = wire.get(SERVICES).await.json;
    assert_eq!(list["items"][0]["spec"].get("internalTrafficPolicy"), None);
    let home = json!({"spec": {"type": "ClusterIP", "externalName": null}});
    let patched = wire.patch(&path, MERGE, &home).await.ok(200);
    assert_eq!(patched["spec"]["internalTrafficPolicy"], "Local", "a patch gives the stored value back");
    wire.patch(&path, MERGE, &json!({"spec": {"type": "ExternalName", "externalName": "e.com"}}))
        .await
        .ok(200);
    let put = wire.put(&path, &service("a")).await.ok(200);
    assert_eq!(put["spec"]["internalTrafficPolicy"], "Cluster", "a PUT does not");
}

#[tokio::test(start_paused = true)]
async fn the_internal_traffic_policy_goes_with_every_other_setting_of_traffic() {
    let wire = Wire::new();
    let path = format!("{SERVICES}/a");
    for spec in [
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}),
        json!({"type": "NodePort", "externalTrafficPolicy": "Local"}),
        json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/x"}),
        json!({"sessionAffinity": "ClientIP"}),
        json!({"trafficDistribution": "PreferClose"}),
        json!({"trafficDistribution": "PreferSameZone"}),
        json!({"trafficDistribution": "PreferSameNode"}),
    ] {
        let mut object = service_with(spec.clone());
        object["spec"]["internalTrafficPolicy"] = json!("Local");
        let stored = wire.create(SERVICES, &object).await;
        assert_eq!(stored["spec"]["internalTrafficPolicy"], "Local", "{spec}");
        for (field, value) in spec.as_object().unwrap() {
            assert_eq!(&stored["spec"][field], value, "{spec}");
        }
        wire.delete(&path).await.ok(200);
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_closed_the_policy_is_dropped_unless_it_is_stored() {
    let wire = with_features(false, true);
    let stored = wire.create(SERVICES, &service_with(json!({"internalTrafficPolicy": "Local"}))).await;
    assert_eq!(stored["spec"].get("internalTrafficPolicy"), None);
    let patch = json!({"spec": {"internalTrafficPolicy": "Local"}});
    let after = wire.patch(&format!("{SERVICES}/a"), MERGE, &patch).await.ok(200);
    assert_eq!(after["spec"].get("internalTrafficPolicy"), None);

    // Stored while the gate was open, read and written since it was closed.
    let open = with_features(true, true);
    open.create(SERVICES, &service_with(json!({"internalTrafficPolicy": "Local"}))).await;
    let closed = with_features(false, true);
    closed.cluster.restore(&open.cluster.backup());
    let path = format!("{SERVICES}/a");
    assert_eq!(closed.get(&path).await.json["spec"]["internalTrafficPolicy"], "Local");
    let labelled = closed.patch(&path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    assert_eq!(labelled["spec"]["internalTrafficPolicy"], "Local");
    let patch = json!({"spec": {"internalTrafficPolicy": "Cluster"}});
    let changed = closed.patch(&path, MERGE, &patch).await.ok(200);
    assert_eq!(changed["spec"]["internalTrafficPolicy"], "Cluster", "what is stored may be changed");
}

#[tokio::test(start_paused = true)]
async fn required_load_balancer_features_exist_behind_their_gate() {
    let asks =
        json!({"type": "LoadBalancer", "requiredLoadBalancerFeatures": ["example.com/a", "example.com/b"]});
    let open = with_features(true, true);
    let stored = open.create(SERVICES, &service_with(asks.clone())).await;
    assert_eq!(stored["spec"]["requiredLoadBalancerFeatures"], asks["requiredLoadBalancerFeatures"]);
    let twice =
        json!({"type": "LoadBalancer", "requiredLoadBalancerFeatures": ["example.com/a", "example.com/a"]});
    let mut twice = service_with(twice);
    twice["metadata"]["name"] = json!("b");
    let reply = open.post(SERVICES, &twice).await;
    assert_eq!((reply.code, reply.causes()[0].1), (422, "FieldValueDuplicate"), "{}", reply.json);
    let closed = with_features(true, false);
    let stored = closed.create(SERVICES, &service_with(asks)).await;
    assert_eq!(stored["spec"].get("requiredLoadBalancerFeatures"), None);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_slice_has_defaults_and_limits() {
    let wire = Wire::new();
    let slice = |change: Value| {
        let mut object = json!({"metadata": {"name": "s"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
        for (key, value) in change.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let stored = wire.create(SLICES, &slice(json!({}))).await;
    assert_eq!(stored["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
    let reply = wire
        .patch(
            &format!("{SLICES}/s"),
            MERGE,
            &json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}),
        )
        .await;
    assert_eq!(reply.code, 422);
    assert!(reply.causes().contains(&("addressType", "FieldValueInvalid")), "{:?}", reply.causes());
    wire.delete(&format!("{SLICES}/s")).await.ok(200);
    let zones: Vec<Value> = (0..9).map(|zone| json!({"name": format!("z{zone}")})).collect();
    let many: Vec<Value> = (0..1001).map(|_| json!({"addresses": ["10.0.0.1"]})).collect();
    let cases = [
        (json!({"addressType": "IPv5"}), "addressType"),
        (json!({"addressType": ""}), "addressType"),
        (json!({"endpoints": [{"addresses": []}]}), "endpoints[0].addresses"),
        (json!({"endpoints": [{"addresses": ["fd00::1"]}]}), "endpoints[0].addresses"),
        (json!({"endpoints": [{"addresses": ["127.0.0.1"]}]}), "endpoints[0].addresses[0]"),
        (json!({"endpoints": [{"addresses": ["169.254.1.1"]}]}), "endpoints[0].addresses[0]"),
        (json!({"endpoints": [{"addresses": ["nonsense"]}]}), "endpoints[0].addresses[0]"),
        (json!({"ports": [{"port": 1, "name": "x"}, {"port": 2, "name": "x"}]}), "ports[1].name"),
        (
            json!({"endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": zones}}]}),
            "endpoints[0].hints.forZones",
        ),
        (json!({"endpoints": many}), "endpoints"),
    ];
    for (change, field) in cases {
        let reply = wire.post(SLICES, &slice(change)).await;
        assert_eq!(reply.code, 422, "{field}: {}", reply.json);
        assert!(reply.causes().iter().any(|(found, _)| *found == field), "{field}: {:?}", reply.causes());
        assert_eq!(reply.json["details"]["kind"], "EndpointSlice");
    }
    let empty = wire.create(SLICES, &slice(json!({"endpoints": [], "ports": []}))).await;
    assert!(empty["endpoints"].is_null() || empty["endpoints"] == json!([]));
}

#[tokio::test(start_paused = true)]
async fn what_the_server_chooses_for_a_service_belongs_to_nobody() {
    let wire = Wire::new();
    let stored = wire.create(SERVICES, &service("a")).await;
    let owned = &stored["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(owned.get("f:type").is_some(), "{owned}");
    for field in ["f:clusterIP", "f:clusterIPs", "f:ipFamilies", "f:ipFamilyPolicy"] {
        assert!(owned.get(field).is_none(), "{field} in {owned}");
    }
}
