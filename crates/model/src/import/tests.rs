//! The objects that an import becomes.

use std::net::IpAddr;

use serde_json::{Value, json};
use tombolo_api::kep;

use super::*;
use crate::merge::merge;
use crate::offer::affinity_config;
use crate::testing::{echo, id, offer, ports, with};

fn vips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn import_of(dialect: Dialect, change: fn(&mut tombolo_api::tombolo::ServiceOfferSpec)) -> Import {
    let offers = [with(offer(dialect, "b"), change), with(offer(dialect, "a"), change)];
    merge(Policy::of(dialect), &echo(), &offers).import.unwrap()
}

fn value(object: impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

#[test]
fn an_imported_service_has_ports_family_address_and_what_each_cluster_brings() {
    let import = import_of(Dialect::Kep, |spec| {
        spec.topology_keys = vec!["topology.kubernetes.io/zone".into()];
        spec.publish_not_ready_addresses = spec.cluster == "b";
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10));
    });
    let lowered = import.kep_import(&vips(&["fd00::1", "42.42.42.42"]));
    let affinity = json!({ "clientIP": { "timeoutSeconds": 10 } });
    assert_eq!(
        value(&lowered.spec),
        json!({
            "ipFamily": "IPv4",
            "ip": "42.42.42.42",
            "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }],
            "clusters": [
                {
                    "cluster": "a", "topologyKeys": ["topology.kubernetes.io/zone"],
                    "sessionAffinity": "ClientIP", "sessionAffinityConfig": affinity,
                },
                {
                    "cluster": "b", "topologyKeys": ["topology.kubernetes.io/zone"],
                    "publishNotReadyAddresses": true,
                    "sessionAffinity": "ClientIP", "sessionAffinityConfig": affinity,
                },
            ],
        })
    );
    assert_eq!(
        (lowered.metadata.namespace.as_deref(), lowered.metadata.name.as_deref()),
        (Some("demo"), Some("echo"))
    );
    assert_eq!(import.kep_import(&[]).spec.ip, None);
}

#[test]
fn a_service_import_has_type_families_addresses_policies_and_its_clusters_in_status() {
    let import = import_of(Dialect::Mcs, |spec| {
        spec.ip_families = vec![IpFamily::V6, IpFamily::V4];
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.session_affinity_config = Some(affinity_config(10));
        spec.internal_traffic_policy = Some(InternalTrafficPolicy::Cluster);
        spec.traffic_distribution = Some("PreferClose".into());
        spec.ports[0].app_protocol = Some("http".into());
    });
    let lowered = value(import.mcs_import(&vips(&["fd00::7", "10.96.0.7"])));
    assert_eq!(
        lowered["spec"],
        json!({
            "type": "ClusterSetIP",
            "ips": ["fd00::7", "10.96.0.7"],
            "ipFamilies": ["IPv6", "IPv4"],
            "ports": [{ "name": "http", "protocol": "TCP", "appProtocol": "http", "port": 80 }],
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10 } },
            "internalTrafficPolicy": "Cluster",
            "trafficDistribution": "PreferClose",
        })
    );
    assert_eq!(
        lowered["status"],
        json!({ "clusters": [{ "cluster": "a" }, { "cluster": "b" }], "endpointSliceObjects": "Present" })
    );
}

#[test]
fn addresses_and_families_of_a_service_import_match_one_to_one() {
    let import = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V4, IpFamily::V6]);
    for (given, ips, families) in [
        (vec!["10.0.0.1", "fd00::1"], vec!["10.0.0.1", "fd00::1"], vec!["IPv4", "IPv6"]),
        (vec!["fd00::1", "10.0.0.1"], vec!["fd00::1", "10.0.0.1"], vec!["IPv6", "IPv4"]),
        (vec!["fd00::1"], vec!["fd00::1"], vec!["IPv6"]),
        (vec!["10.0.0.1", "10.0.0.2"], vec!["10.0.0.1"], vec!["IPv4"]),
        (vec![], vec![], vec!["IPv4", "IPv6"]),
    ] {
        let spec = import.mcs_import(&vips(&given)).spec;
        assert_eq!((spec.ips, spec.ip_families), (strings(&ips), strings(&families)));
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

#[test]
fn a_headless_service_has_no_address_no_affinity_no_derived_service_but_families_and_ports() {
    let import = import_of(Dialect::Mcs, |spec| {
        spec.type_ = OfferType::Headless;
        spec.ports.clear();
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.exported_annotations =
            [("multicluster.kubernetes.io/derived-service".into(), "forged".into())].into();
    });
    let lowered = value(import.mcs_import(&vips(&["10.0.0.1"])));
    assert_eq!(lowered["spec"], json!({ "type": "Headless", "ipFamilies": ["IPv4"], "ports": [] }));
    assert_eq!(lowered["metadata"].get("annotations"), None);
    assert_eq!(import.derived_service(&[IpFamily::V4], None, None), Err(NotDerived::Headless));
    assert_eq!(import.kep_import(&vips(&["10.0.0.1"])).spec.ip, None);
}

#[test]
fn exported_labels_and_annotations_are_on_the_import_but_never_replace_ours() {
    let import = import_of(Dialect::Mcs, |spec| {
        spec.exported_labels =
            [("team".into(), "red".into()), ("app.kubernetes.io/managed-by".into(), "Helm".into())].into();
        spec.exported_annotations = [
            ("note".into(), "hello".into()),
            ("multicluster.kubernetes.io/derived-service".into(), "kubernetes".into()),
            ("discovery.karmada.io/strategy".into(), "RemoteOnly".into()),
            ("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into()),
        ]
        .into();
    });
    let metadata = import.mcs_import(&[]).metadata;
    let (labels, annotations) = (metadata.labels.unwrap(), metadata.annotations.unwrap());
    assert_eq!(
        (labels["team"].as_str(), labels["app.kubernetes.io/managed-by"].as_str()),
        ("red", "tombolo")
    );
    assert_eq!(annotations["note"], "hello");
    let derived = import.derived_service_name().unwrap();
    assert_eq!(annotations["multicluster.kubernetes.io/derived-service"], derived);
    assert_eq!(annotations.len(), 2, "no exporting cluster decides what a name means here: {annotations:?}");
}

#[test]
fn the_derived_service_has_the_ports_and_families_of_the_import_and_no_selector() {
    let import = import_of(Dialect::Mcs, |spec| {
        spec.ports = ports(&["http:80", "dns:53/UDP"]);
        spec.ip_families = vec![IpFamily::V6, IpFamily::V4];
        spec.session_affinity = SessionAffinity::ClientIp;
        spec.prefer = vec![Tier::Zone, Tier::Any];
        spec.internal_traffic_policy = Some(InternalTrafficPolicy::Cluster);
        spec.traffic_distribution = Some("PreferClose".into());
    });
    let owner = import.owner_reference("u-1");
    let service = import.derived_service(&[IpFamily::V4, IpFamily::V6], None, Some(owner)).unwrap();
    assert_eq!(
        value(&service),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": import.derived_service_name().unwrap(),
                "namespace": "demo",
                "labels": {
                    "app.kubernetes.io/managed-by": "tombolo",
                    "multicluster.kubernetes.io/service-name": "echo",
                },
                "annotations": { "tombolo.dev/prefer": "zone,any" },
                "ownerReferences": [{
                    "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "name": "echo",
                    "uid": "u-1", "controller": false,
                }],
            },
            "spec": {
                "type": "ClusterIP",
                "ports": [
                    { "name": "http", "protocol": "TCP", "port": 80, "targetPort": 80 },
                    { "name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53 },
                ],
                "ipFamilies": ["IPv6", "IPv4"],
                "ipFamilyPolicy": "PreferDualStack",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10800 } },
                "internalTrafficPolicy": "Cluster",
                "trafficDistribution": "PreferClose",
            },
        })
    );
}

#[test]
fn the_derived_service_has_only_families_its_cluster_supports() {
    let import = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V6, IpFamily::V4]);
    let spec = import.derived_service(&[IpFamily::V4], None, None).unwrap().spec.unwrap();
    assert_eq!(spec.ip_families, Some(vec!["IPv4".to_owned()]));
    assert_eq!(spec.ip_family_policy.as_deref(), Some("SingleStack"));

    let only_v6 = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V6]);
    let refused = only_v6.derived_service(&[IpFamily::V4], None, None).unwrap_err();
    assert_eq!(refused, NotDerived::FamilyNotSupported(vec![IpFamily::V6]));
    assert_eq!(refused.to_string(), "the service is IPv6, which this cluster does not have");
}

#[test]
fn the_address_of_a_derived_service_outlives_the_export_that_chose_its_family() {
    let v6_first = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V6, IpFamily::V4]);
    let v4_first = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V4, IpFamily::V6]);
    let v4_only = import_of(Dialect::Mcs, |spec| spec.ip_families = vec![IpFamily::V4]);
    let both = [IpFamily::V4, IpFamily::V6];
    let existing = v6_first.derived_service(&both, None, None).unwrap();
    for (import, families, replaced) in [
        (&v6_first, vec!["IPv6", "IPv4"], false),
        (&v4_first, vec!["IPv6", "IPv4"], false),
        (&v4_only, vec!["IPv4"], true),
    ] {
        let wanted = import.derived_service(&both, Some(&existing), None).unwrap();
        assert_eq!(wanted.spec.as_ref().unwrap().ip_families, Some(strings(&families)));
        assert_eq!(must_be_replaced(&existing, &wanted), replaced);
    }
}

#[test]
fn a_service_without_ports_cannot_have_an_address() {
    let import = import_of(Dialect::Mcs, |spec| spec.ports.clear());
    assert_eq!(import.derived_service(&[IpFamily::V4], None, None), Err(NotDerived::NoPorts));
}

#[test]
fn a_traffic_distribution_that_no_server_knows_stays_on_the_import_only() {
    let import = import_of(Dialect::Mcs, |spec| spec.traffic_distribution = Some("PreferFar".into()));
    assert_eq!(import.mcs_import(&[]).spec.traffic_distribution.as_deref(), Some("PreferFar"));
    let service = import.derived_service(&[IpFamily::V4], None, None).unwrap();
    assert_eq!(service.spec.unwrap().traffic_distribution, None);
}

#[test]
fn the_two_dialects_of_one_name_have_two_derived_services_and_owners() {
    let (kep, mcs) = (import_of(Dialect::Kep, |_| {}), import_of(Dialect::Mcs, |_| {}));
    assert_ne!(kep.derived_service_name(), mcs.derived_service_name());
    let owner = kep.owner_reference("u");
    assert_eq!(
        (owner.api_version.as_str(), owner.kind.as_str()),
        ("multicluster.k8s.io/v1alpha1", "ImportedService")
    );
    let service = kep.derived_service(&[IpFamily::V4], None, None).unwrap();
    assert_eq!(service.metadata.labels.unwrap()[kep::IMPORTED_SERVICE_NAME_LABEL], "echo");
}

#[test]
fn the_part_of_a_cluster_is_found_by_its_id() {
    let import = import_of(Dialect::Mcs, |_| {});
    assert_eq!(import.contribution(&id("b")).unwrap().cluster, id("b"));
    assert_eq!(import.contribution(&id("c")), None);
}

#[test]
fn an_unreadable_protocol_of_a_foreign_import_is_skipped_and_said() {
    let mut spec = import_of(Dialect::Mcs, |spec| spec.ports = ports(&["a:1", "b:2"])).mcs_import(&[]).spec;
    spec.ports[0].protocol = Some("QUIC".into());
    spec.ports[1].protocol = None;
    let (read, complaints) = read_ports(&spec);
    assert_eq!(read, ports(&["b:2"]));
    assert_eq!(complaints.len(), 1);
}
