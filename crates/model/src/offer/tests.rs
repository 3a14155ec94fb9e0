//! What is offered of a Service, and what is not.

use proptest::prelude::*;
use serde_json::json;
use tombolo_api::service::{InternalTrafficPolicy, IpFamily, SessionAffinity};
use tombolo_api::tombolo::Tier;

use super::*;
use crate::testing::{any_offer, at, echo, id, ports};

fn export(dialect: Dialect) -> Export {
    let metadata = ObjectMeta {
        name: Some("echo".into()),
        namespace: Some("demo".into()),
        creation_timestamp: Some(at(100)),
        labels: Some([("team".into(), "red".into())].into()),
        ..ObjectMeta::default()
    };
    match dialect {
        Dialect::Kep => Export::from(&kep::ServiceExport { metadata, ..Default::default() }),
        Dialect::Mcs => {
            let mut export = mcs::ServiceExport { metadata, ..Default::default() };
            export.spec.spec = Some(mcs::ServiceExportSpec {
                exported_labels: [("tier".into(), "gold".into())].into(),
                exported_annotations: [("note".into(), "hello, world".into())].into(),
            });
            Export::from(&export)
        }
    }
}

fn a_service(spec: Value, annotations: Value) -> Service {
    let metadata = json!({ "name": "echo", "namespace": "demo", "labels": { "app": "echo" }, "annotations": annotations });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn offered(spec: Value, annotations: Value) -> Offer {
    offer(&id("east"), &export(Dialect::Mcs), Some(&a_service(spec, annotations)), None).unwrap()
}

#[test]
fn an_export_means_the_service_of_the_same_name_and_namespace_and_keeps_its_age() {
    let offer = offered(json!({ "ipFamilies": ["IPv4"], "ports": [{ "port": 80 }] }), json!({}));
    assert_eq!(offer.spec.service, echo());
    assert_eq!((offer.spec.cluster.as_str(), offer.spec.exported_at), ("east", at(100)));
    assert_eq!(offer.complaints, []);
}

#[test]
fn an_export_without_a_service_says_so_and_one_of_an_external_name_is_refused() {
    let export = export(Dialect::Mcs);
    let refused = |service: Option<&Service>| offer(&id("east"), &export, service, None).unwrap_err();
    assert_eq!(refused(None), Refusal::NoService(echo()));
    assert!(refused(None).to_string().starts_with("there is no Service echo in namespace demo"));
    let external = a_service(json!({ "type": "ExternalName", "externalName": "example.com" }), json!({}));
    assert_eq!(refused(Some(&external)), Refusal::ExternalName);
    let unknown = a_service(json!({ "type": "Novel" }), json!({}));
    assert_eq!(refused(Some(&unknown)), Refusal::UnknownType("Novel".into()));
    let mut derived = a_service(json!({}), json!({}));
    derived.metadata.labels = Some([(MANAGED_BY_LABEL.into(), MANAGER.into())].into());
    assert_eq!(refused(Some(&derived)), Refusal::Derived);
}

#[test]
fn node_port_and_load_balancer_services_are_offered_as_cluster_ip_services() {
    for type_ in [json!(null), json!("ClusterIP"), json!("NodePort"), json!("LoadBalancer")] {
        let port = json!({ "name": "http", "port": 80, "nodePort": 30080, "targetPort": 8080 });
        let spec = json!({ "type": type_, "clusterIP": "10.0.0.1", "ports": [port] });
        let offer = offered(spec, json!({})).spec;
        assert_eq!(offer.type_, OfferType::ClusterIp);
        assert_eq!(offer.ports, ports(&["http:80"]));
    }
}

#[test]
fn a_headless_service_is_offered_as_headless_with_or_without_ports() {
    let offer = offered(json!({ "clusterIP": "None", "ipFamilies": ["IPv6"] }), json!({}));
    assert_eq!((offer.spec.type_, offer.spec.ports.len()), (OfferType::Headless, 0));
    assert_eq!(offer.complaints, []);
}

#[test]
fn everything_that_is_merged_or_carried_is_in_the_offer() {
    let spec = json!({
        "clusterIP": "10.0.0.1",
        "ipFamilies": ["IPv6", "IPv4"],
        "ports": [
            { "name": "http", "port": 80, "appProtocol": "kubernetes.io/h2c" },
            { "name": "dns", "port": 53, "protocol": "UDP" },
        ],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10 } },
        "publishNotReadyAddresses": true,
        "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose",
    });
    let Offer { spec, complaints } = offered(spec, json!({ "tombolo.dev/prefer": "zone, region,any" }));
    assert_eq!(complaints, []);
    let mut expected = ports(&["http:80", "dns:53/UDP"]);
    expected[0].app_protocol = Some("kubernetes.io/h2c".into());
    assert_eq!(spec.ports, expected);
    assert_eq!(spec.ip_families, [IpFamily::V6, IpFamily::V4]);
    assert_eq!(spec.session_affinity, SessionAffinity::ClientIp);
    assert_eq!(spec.session_affinity_config, Some(affinity_config(10)));
    assert!(spec.publish_not_ready_addresses);
    assert_eq!(spec.internal_traffic_policy, Some(InternalTrafficPolicy::Local));
    assert_eq!(spec.traffic_distribution.as_deref(), Some("PreferClose"));
    assert_eq!(spec.prefer, [Tier::Zone, Tier::Region, Tier::Any]);
}

#[test]
fn only_labels_that_the_export_names_travel_none_of_its_own_or_the_services_metadata() {
    let service = a_service(json!({}), json!({ "secret": "x" }));
    let of = |dialect| offer(&id("east"), &export(dialect), Some(&service), None).unwrap().spec;
    let mcs = of(Dialect::Mcs);
    assert_eq!(mcs.exported_labels, [("tier".into(), "gold".into())].into());
    assert_eq!(mcs.exported_annotations, [("note".into(), "hello, world".into())].into());
    let kep = of(Dialect::Kep);
    assert!(kep.exported_labels.is_empty() && kep.exported_annotations.is_empty());
}

#[test]
fn topology_keys_come_from_the_field_where_the_server_has_it_and_else_from_the_annotation() {
    let annotated = a_service(json!({}), json!({ "tombolo.dev/topology-keys": "example.com/rack, *" }));
    let keys = |field: Option<Vec<String>>| {
        offer(&id("east"), &export(Dialect::Kep), Some(&annotated), field).unwrap().spec.topology_keys
    };
    assert_eq!(keys(None), ["example.com/rack", "*"]);
    assert_eq!(keys(Some(vec!["topology.kubernetes.io/zone".into()])), ["topology.kubernetes.io/zone"]);

    let raw = json!({ "spec": { "topologyKeys": ["kubernetes.io/hostname", 7, "*"] } });
    assert_eq!(topology_keys(&raw), Some(vec!["kubernetes.io/hostname".into(), "*".into()]));
    for none in
        [json!({}), json!({ "spec": { "topologyKeys": [] } }), json!({ "spec": { "topologyKeys": "x" } })]
    {
        assert_eq!(topology_keys(&none), None);
    }
}

#[test]
fn on_a_server_without_ip_families_the_addresses_tell() {
    for (spec, families) in [
        (json!({ "clusterIP": "10.0.0.1" }), vec![IpFamily::V4]),
        (json!({ "clusterIP": "fd00::1" }), vec![IpFamily::V6]),
        (
            json!({ "clusterIPs": ["fd00::1", "10.0.0.1"], "clusterIP": "fd00::1" }),
            vec![IpFamily::V6, IpFamily::V4],
        ),
        (json!({ "clusterIP": "None" }), vec![IpFamily::V4]),
    ] {
        assert_eq!(offered(spec, json!({})).spec.ip_families, families);
    }
}

#[test]
fn what_makes_no_sense_is_left_out_and_complained_about() {
    let cases = [
        (json!({ "ports": [{ "name": "a", "port": 0 }] }), "spec.ports: port 0 left out"),
        (
            json!({ "ports": [{ "name": "a", "port": 1 }, { "name": "a", "port": 2 }] }),
            "spec.ports: port 2 left out",
        ),
        (
            json!({ "ports": [{ "name": "a", "port": 1 }, { "port": 2 }, { "port": 3 }] }),
            "port 2 and 1 more left out",
        ),
        (json!({ "ports": [{ "port": 1, "protocol": "ICMP" }] }), "spec.ports: unknown Protocol \"ICMP\""),
        (json!({ "sessionAffinity": "Cookie" }), "spec.sessionAffinity: unknown SessionAffinity \"Cookie\""),
        (json!({ "ipFamilies": ["IPv5"] }), "spec.ipFamilies: unknown IpFamily \"IPv5\""),
        (json!({ "internalTrafficPolicy": "Lokal" }), "unknown InternalTrafficPolicy"),
        (json!({ "trafficDistribution": "a b" }), "spec.trafficDistribution"),
        (
            json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 0 } } }),
            "a timeout of 0 s is not allowed; 1 s is used",
        ),
    ];
    for (spec, expected) in cases {
        let complaints: Vec<_> =
            offered(spec, json!({})).complaints.iter().map(ToString::to_string).collect();
        assert!(complaints.iter().any(|said| said.contains(expected)), "{expected}: {complaints:?}");
    }
    let prefer = offered(json!({}), json!({ "tombolo.dev/prefer": "zone,planet,zone" }));
    assert_eq!(prefer.spec.prefer, []);
    assert!(prefer.complaints.iter().any(|said| said.to_string().contains("unknown Tier \"planet\"")));
    let keys = offered(json!({}), json!({ "tombolo.dev/topology-keys": "a,-,*,b" }));
    assert_eq!(keys.spec.topology_keys, ["a", "*"]);
    assert!(
        keys.complaints.iter().any(|said| said.to_string().starts_with("topology keys: 2 of 4 left out"))
    );
}

#[test]
fn labels_and_annotations_that_an_api_server_would_refuse_are_left_out() {
    let mut export = export(Dialect::Mcs);
    export.labels.insert("bad key".into(), "x".into());
    export.labels.insert("bad-value".into(), "ä".into());
    export.annotations.insert("huge".into(), "x".repeat(200 * 1024));
    let offer = offer(&id("east"), &export, Some(&a_service(json!({}), json!({}))), None).unwrap();
    assert_eq!(offer.spec.exported_labels.len(), 1);
    assert_eq!(offer.spec.exported_annotations.len(), 1);
    let said: Vec<_> = offer.complaints.iter().map(|complaint| complaint.about.as_str()).collect();
    assert!(said.contains(&"spec.exportedLabels") && said.contains(&"spec.exportedAnnotations"), "{said:?}");
}

proptest! {
    #[test]
    fn cleaning_twice_changes_nothing_and_complains_no_more(offer in any_offer(Dialect::Mcs)) {
        let (once, _) = clean(offer.spec.clone());
        let (twice, complaints) = clean(once.clone());
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(complaints, []);
        prop_assert!(!once.ip_families.is_empty());
        prop_assert!(once.ports.iter().all(|port| offer.spec.ports.contains(port)));
    }
}
