//! Derived Services of imports: sources, topology keys, affinity, preferences.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use tombolo_api::kep::ImportedService;
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::{Dialect, ServiceRef, Tier};

use super::lab::{Lab, say};
use crate::routing::{Action, FrontendKind, Imported, import_of};
use crate::testing::{echo, offer, with};
use crate::{Policy, merge};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const HOST: &str = "kubernetes.io/hostname";

/// An ImportedService with these clusters.
fn kep(clusters: Value) -> Imported {
    kep_preferring(clusters, None)
}

fn kep_preferring(clusters: Value, prefer: Option<&str>) -> Imported {
    let annotations = prefer.map(|prefer| json!({ "tombolo.dev/prefer": prefer }));
    let import: ImportedService = serde_json::from_value(json!({
        "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ImportedService",
        "metadata": { "name": "web", "namespace": "demo", "annotations": annotations },
        "spec": { "ports": [], "ipFamily": "IPv4", "clusters": clusters },
    }))
    .unwrap();
    Imported::kep(&import)
}

fn keys(cluster: &str, keys: &[&str]) -> Value {
    json!({ "cluster": cluster, "topologyKeys": keys })
}

#[test]
fn topology_keys_are_walked_in_order_and_the_first_match_wins() {
    let endpoints = ["10.1.0.1 z1", "10.1.0.2 z2"];
    let all = "10.1.0.1 10.1.0.2";
    for (row, list, expected) in [
        ("no keys", &[][..], format!("All: {all}")),
        ("the zone", &[ZONE], format!("{ZONE}: 10.1.0.1")),
        ("the zone before the region", &[ZONE, REGION, "*"], format!("{ZONE}: 10.1.0.1")),
        ("the region before the zone", &[REGION, ZONE], format!("{REGION}: {all}")),
        ("a node is nowhere near: the next key", &[HOST, ZONE], format!("{ZONE}: 10.1.0.1")),
        ("a label that the node does not have", &["example.com/rack", "*"], format!("*: {all}")),
        ("the same, and nothing after it", &["example.com/rack"], "reject Topology".to_owned()),
        ("no match but any", &[HOST, "*"], format!("*: {all}")),
        ("no match", &[HOST], "reject Topology".to_owned()),
        ("any", &["*"], format!("*: {all}")),
    ] {
        let lab = Lab::new(json!({})).from("east", &endpoints).in_region("r1");
        let lab = lab.importing(kep(json!([keys("east", list)])));
        assert_eq!(lab.internal(), expected, "{row}");
    }
}

#[test]
fn a_node_without_labels_gets_all_if_the_keys_end_with_any_and_else_none() {
    for (list, expected) in [
        (&[ZONE, "*"][..], "*: 10.1.0.1"),
        (&["*"], "*: 10.1.0.1"),
        (&[ZONE], "reject Topology"),
        (&[], "All: 10.1.0.1"),
    ] {
        let lab = Lab::new(json!({})).from("east", &["10.1.0.1 z1"]);
        let lab = lab.importing(kep(json!([keys("east", list)]))).on(|node| node.labels.clear());
        assert_eq!(lab.internal(), expected, "{list:?}");
    }
}

#[test]
fn each_source_is_filtered_by_its_own_keys_alone() {
    let lab = |clusters: Value| {
        let lab = Lab::new(json!({})).from("east", &["10.1.0.1 z1", "10.1.0.2 z2"]);
        lab.from("west", &["10.2.0.1 z3", "10.2.0.2 z4"]).importing(kep(clusters)).internal()
    };
    let east = keys("east", &[ZONE]);
    assert_eq!(
        lab(json!([east, keys("west", &[])])),
        format!("{ZONE}: 10.1.0.1 10.2.0.1 10.2.0.2"),
        "one source has keys"
    );
    assert_eq!(
        lab(json!([east, keys("west", &[ZONE])])),
        format!("{ZONE}: 10.1.0.1"),
        "none for that source"
    );
    assert_eq!(
        lab(json!([east, keys("west", &[ZONE, "*"])])),
        format!("*+{ZONE}: 10.1.0.1 10.2.0.1 10.2.0.2")
    );
    assert_eq!(lab(json!([keys("east", &[HOST]), keys("west", &[HOST])])), "reject Topology");
    assert_eq!(
        lab(json!([keys("east", &[HOST])])),
        "All: 10.2.0.1 10.2.0.2",
        "a source without properties has no keys"
    );
}

#[test]
fn topology_keys_look_at_ready_endpoints_and_bind_the_last_resort_too() {
    let run = |endpoints: &[&str]| {
        let lab = Lab::new(json!({})).from("east", endpoints);
        lab.importing(kep(json!([keys("east", &[ZONE])]))).internal()
    };
    assert_eq!(run(&["10.1.0.1 z1 unready", "10.1.0.2 z2"]), "reject Topology");
    assert_eq!(run(&["10.1.0.1 z1 terminating", "10.1.0.2 z2"]), "Terminating: 10.1.0.1");
    assert_eq!(run(&["10.1.0.1 z1 terminating", "10.1.0.2 z2 terminating"]), "Terminating: 10.1.0.1");
    assert_eq!(run(&["10.1.0.2 z2 terminating"]), "reject Topology");
    assert_eq!(run(&["10.1.0.2 z2 gone"]), "reject NoEndpoints");
}

#[test]
fn only_endpoints_of_the_own_cluster_can_be_on_this_node() {
    let local = json!({ "internalTrafficPolicy": "Local" });
    for (row, source, expected) in [
        ("a foreign node of the same name", "east", "drop NoLocalInternal"),
        ("our own", "here", "Local: 10.1.0.1"),
    ] {
        let lab = Lab::new(local.clone()).from(source, &["10.1.0.1 n1", "10.1.0.2 n2"]);
        assert_eq!(lab.importing(kep(json!([]))).internal(), expected, "{row}");
    }
    let by_host = |source| {
        let lab = Lab::new(json!({})).from(source, &["10.1.0.1 n1", "10.1.0.2 n2"]);
        lab.importing(kep(json!([keys(source, &[HOST])]))).internal()
    };
    assert_eq!(by_host("here"), format!("{HOST}: 10.1.0.1"));
    assert_eq!(by_host("east"), "reject Topology");
}

#[test]
fn a_proxy_that_does_not_know_its_cluster_believes_names_of_nodes_only_in_slices_of_the_agent() {
    let run = |manager: Option<&str>| {
        let mut lab = Lab::new(json!({ "internalTrafficPolicy": "Local" })).from("here", &["10.1.0.1 n1"]);
        lab = lab.on(|node| node.cluster = None);
        let labels = lab.slices[0].metadata.labels.as_mut().unwrap();
        labels.extend(
            manager.map(|name| ("endpointslice.kubernetes.io/managed-by".to_owned(), name.to_owned())),
        );
        lab.internal()
    };
    assert_eq!(run(Some("agent.tombolo.dev")), "Local: 10.1.0.1");
    assert_eq!(run(Some("somebody.else")), "drop NoLocalInternal");
    assert_eq!(run(None), "drop NoLocalInternal");
}

#[test]
fn affinity_is_that_of_the_source() {
    let clusters = json!([
        { "cluster": "east", "sessionAffinity": "ClientIP" },
        { "cluster": "west", "sessionAffinity": "None" },
        {
            "cluster": "north", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
        },
    ]);
    let lab = Lab::new(json!({})).from("east", &["10.1.0.1"]).from("west", &["10.2.0.1"]);
    let lab = lab.from("north", &["10.3.0.1"]).from("unknown", &["10.4.0.1"]).importing(kep(clusters));
    let Action::Balance(balance) = lab.route(FrontendKind::ClusterIp).action else { panic!("no backends") };
    let sticky: Vec<Option<u64>> =
        balance.backends.iter().map(|backend| backend.sticky.map(|time| time.as_secs())).collect();
    assert_eq!(sticky, [Some(10800), None, Some(60), None]);
    let sources: Vec<&str> =
        balance.backends.iter().filter_map(|backend| Some(backend.source.as_ref()?.as_str())).collect();
    assert_eq!(sources, ["east", "west", "north", "unknown"]);
}

#[test]
fn todays_edition_has_one_affinity_for_all_sources() {
    let import: ServiceImport = serde_json::from_value(json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": { "name": "web", "namespace": "demo" },
        "spec": { "ports": [], "type": "ClusterSetIP", "sessionAffinity": "ClientIP" },
        "status": { "clusters": [{ "cluster": "east" }] },
    }))
    .unwrap();
    let lab = Lab::new(json!({})).from("east", &["10.1.0.1"]).importing(Imported::mcs(&import));
    let Action::Balance(balance) = lab.route(FrontendKind::ClusterIp).action else { panic!("no backends") };
    assert_eq!(balance.backends[0].sticky, Some(Duration::from_secs(10800)));
}

/// Our own zone, our region, our cluster, and the rest of the world.
const OWN_ZONE: &str = "10.1.0.1";
const OWN_CLUSTER: &str = "10.1.0.2";
const NEAR_ZONE: &str = "10.2.0.1";
const NEAR_REGION: &str = "10.2.0.2";
const FAR: &str = "10.3.0.1";

/// An import with those endpoints ready, from ourselves, a cluster of our region and one far away.
fn world(prefer: &str, ready: &[&str]) -> Lab {
    let state = |address: &str, zone: &str| {
        format!("{address} {zone}{}", if ready.contains(&address) { "" } else { " unready" })
    };
    let own = [state(OWN_ZONE, "z1"), state(OWN_CLUSTER, "z2")];
    let near = [state(NEAR_ZONE, "z1"), state(NEAR_REGION, "z3")];
    let far = state(FAR, "z1");
    let lab = Lab::new(json!({})).from("here", &[&own[0], &own[1]]).from("near", &[&near[0], &near[1]]);
    let lab = lab.in_region("r1").from("far", &[&far]).in_region("r9");
    lab.importing(kep_preferring(json!([]), Some(prefer)))
}

#[test]
fn traffic_goes_to_the_nearest_tier_with_ready_endpoints_across_clusters() {
    let every = [OWN_ZONE, OWN_CLUSTER, NEAR_ZONE, NEAR_REGION, FAR];
    for (prefer, ready, expected) in [
        ("zone,region,cluster,any", &every[..], "Zone: 10.1.0.1 10.2.0.1"),
        ("zone,region,cluster,any", &[OWN_CLUSTER, NEAR_ZONE, FAR], "Zone: 10.2.0.1"),
        ("zone,region,cluster,any", &[OWN_CLUSTER, NEAR_REGION, FAR], "Region: 10.1.0.2 10.2.0.2"),
        ("zone,cluster,any", &[OWN_CLUSTER, NEAR_REGION, FAR], "Cluster: 10.1.0.2"),
        ("cluster,region,any", &every, "Cluster: 10.1.0.1 10.1.0.2"),
        ("cluster,region,any", &[NEAR_ZONE, NEAR_REGION, FAR], "Region: 10.2.0.1 10.2.0.2"),
        ("zone,region,cluster,any", &[FAR], "All: 10.3.0.1"),
        ("any", &every, "All: 10.1.0.1 10.1.0.2 10.2.0.1 10.2.0.2 10.3.0.1"),
        ("zone,region,cluster", &[FAR], "reject Topology"),
        ("zone", &[OWN_CLUSTER, NEAR_REGION, FAR], "reject Topology"),
        ("zone", &[], "reject NoEndpoints"),
    ] {
        assert_eq!(world(prefer, ready).internal(), expected, "{prefer} with {ready:?}");
    }
}

#[test]
fn a_zone_of_the_same_name_in_another_region_is_not_ours() {
    assert_eq!(world("zone,any", &[FAR]).internal(), "All: 10.3.0.1");
    let lab = Lab::new(json!({})).from("somewhere", &["10.4.0.1 z1"]);
    let lab = lab.importing(kep_preferring(json!([]), Some("zone")));
    assert_eq!(lab.internal(), "Zone: 10.4.0.1", "unless its region is not known");
}

#[test]
fn the_region_that_the_cluster_declares_goes_before_the_label_of_the_node() {
    let lab = world("region,any", &[NEAR_REGION, FAR]).on(|node| node.region = Some("r9".into()));
    assert_eq!(lab.internal(), "Region: 10.3.0.1");
}

#[test]
fn a_preference_is_read_from_the_import_and_else_from_the_derived_service() {
    let derived = |imported: Option<&str>| {
        let mut lab = Lab::new(json!({})).from("here", &["10.1.0.1 z1"]).from("east", &["10.2.0.1 z2"]);
        let annotations = [("tombolo.dev/prefer".to_owned(), "cluster".to_owned())];
        lab.service.metadata.annotations = Some(annotations.into());
        lab.importing(kep_preferring(json!([]), imported)).internal()
    };
    assert_eq!(derived(None), "Cluster: 10.1.0.1");
    assert_eq!(derived(Some("any")), "All: 10.1.0.1 10.2.0.1");
    assert_eq!(derived(Some("")), "All: 10.1.0.1 10.2.0.1", "an empty one prefers nothing");
}

#[test]
fn the_annotation_of_an_exporting_service_is_for_those_who_import_it() {
    let mut lab = Lab::new(json!({})).with(&["10.1.0.1 z2"]);
    lab.service.metadata.annotations = Some([("tombolo.dev/prefer".to_owned(), "zone".to_owned())].into());
    assert_eq!(lab.internal(), "All: 10.1.0.1");
}

#[test]
fn a_wrong_preference_is_complained_about_and_counts_as_none() {
    let lab = world("zone,everywhere", &[FAR]);
    assert_eq!(lab.internal(), "All: 10.3.0.1");
    assert_eq!(
        lab.complaints(),
        ["tombolo.dev/prefer: unknown Tier \"everywhere\", expected one of zone, region, cluster, any; \
          the annotation is ignored"]
    );
}

#[test]
fn preferences_choose_among_what_the_topology_keys_allow() {
    let lab = Lab::new(json!({})).from("east", &["10.1.0.1 z1", "10.1.0.2 z2"]).in_region("r1");
    let lab = lab.from("here", &["10.2.0.1 z2"]);
    let imported = kep_preferring(json!([keys("here", &[ZONE])]), Some("cluster,region,any"));
    assert_eq!(lab.importing(imported).internal(), "Region: 10.1.0.1 10.1.0.2");
}

#[test]
fn the_last_resort_is_as_near_as_a_preference_demands() {
    let run = |prefer| {
        let lab = Lab::new(json!({})).from("here", &["10.1.0.1 z2 terminating"]);
        let lab = lab.from("east", &["10.2.0.1 z3 terminating"]).in_region("r2");
        lab.importing(kep_preferring(json!([]), Some(prefer))).internal()
    };
    assert_eq!(run("cluster"), "Terminating: 10.1.0.1");
    assert_eq!(run("zone"), "reject Topology");
    assert_eq!(run("zone,any"), "Terminating: 10.1.0.1 10.2.0.1");
}

#[test]
fn one_address_in_two_clusters_is_one_backend_and_a_complaint() {
    for (first, second) in [("east", "west"), ("west", "east")] {
        let lab = Lab::new(json!({})).from(first, &["10.1.0.1"]).from(second, &["10.1.0.1"]);
        let lab = lab.importing(kep(json!([])));
        let route = lab.route(FrontendKind::ClusterIp);
        assert_eq!(say(&route.action), "All: 10.1.0.1");
        let Action::Balance(balance) = route.action else { panic!("no backends") };
        assert_eq!(balance.backends[0].source.as_ref().unwrap().as_str(), "east");
        assert_eq!(
            lab.complaints(),
            [
                "EndpointSlices: 10.1.0.1 port 8080: slices of different clusters name the same address; one of \
              them is used"
            ]
        );
    }
}

#[test]
fn a_derived_service_is_known_by_its_labels_and_its_name() {
    for &dialect in Dialect::ALL {
        let offers = [with(offer(dialect, "a"), |spec| spec.prefer = vec![Tier::Zone])];
        let import = merge(Policy::of(dialect), &echo(), &offers).import.unwrap();
        let derived = import.derived_service(&[IpFamily::V4], None, None).unwrap();
        let expected = ServiceRef { namespace: "demo".into(), name: "echo".into() };
        assert_eq!(import_of(&derived), Some((dialect, expected)));
        let mut imitation = derived.clone();
        imitation.metadata.name = Some("echo".into());
        assert_eq!(import_of(&imitation), None);
        imitation = derived;
        imitation.metadata.labels.as_mut().unwrap().remove("app.kubernetes.io/managed-by");
        assert_eq!(import_of(&imitation), None);
    }
    assert_eq!(import_of(&Service::default()), None);
}
