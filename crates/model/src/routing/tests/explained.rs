//! What a person is told.

use serde_json::{Value, json};
use tombolo_api::kep::ImportedService;

use super::lab::Lab;
use crate::routing::{Imported, explain};

fn check(lab: &Lab, expected: &[&str]) {
    let routes = lab.run().0;
    assert_eq!(explain(&lab.input(), &routes), expected);
}

fn importing(lab: Lab, prefer: &str, clusters: Value) -> Lab {
    let import: ImportedService = serde_json::from_value(json!({
        "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ImportedService",
        "metadata": { "name": "web", "annotations": { "tombolo.dev/prefer": prefer } },
        "spec": { "ports": [], "ipFamily": "IPv4", "clusters": clusters },
    }))
    .unwrap();
    lab.importing(Imported::kep(&import))
}

#[test]
fn every_endpoint_is_told_with_the_reason_why_it_is_used_or_not() {
    let endpoints =
        ["10.1.0.1 n1", "10.1.0.2 n2", "10.1.0.3 unready", "10.1.0.4 terminating", "10.1.0.5 gone"];
    let lab = Lab::new(json!({ "sessionAffinity": "ClientIP" })).with(&endpoints);
    check(
        &lab,
        &[
            "ClusterIP 10.96.0.1 port 80/TCP (http): 2 endpoints, all that are ready",
            "  -> 10.1.0.1:8080, on this node, keeps its clients for 10800 s",
            "  -> 10.1.0.2:8080, keeps its clients for 10800 s",
            "  not 10.1.0.3:8080: not ready",
            "  not 10.1.0.4:8080: terminating, and others are ready",
            "  not 10.1.0.5:8080: terminating and no longer serving",
        ],
    );
}

#[test]
fn traffic_that_is_refused_comes_with_the_policy_that_refuses_it() {
    let spec = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
        "ingress": [{ "ip": "203.0.113.1" }], "loadBalancerSourceRanges": ["10.0.0.0/8"],
    });
    check(
        &Lab::new(spec).with(&["10.1.0.2 n2", "10.1.0.3"]),
        &[
            "ClusterIP 10.96.0.1 port 80/TCP (http): 2 endpoints, all that are ready",
            "  -> 10.1.0.2:8080",
            "  -> 10.1.0.3:8080",
            "load balancer 203.0.113.1 port 80/TCP (http): dropped: externalTrafficPolicy is Local and none is on \
             this node, but elsewhere",
            "  may connect: 10.0.0.0/8",
            "  not 10.1.0.2:8080: on another node, n2",
            "  not 10.1.0.3:8080: on no node that is known",
            "  from this node: 2 endpoints, all that are ready",
            "  -> 10.1.0.2:8080",
            "  -> 10.1.0.3:8080",
            "health check on port 31000: unhealthy, 0 ready on this node",
        ],
    );
    check(
        &Lab::new(json!({})),
        &["ClusterIP 10.96.0.1 port 80/TCP (http): rejected: no endpoint is ready anywhere"],
    );
    check(
        &Lab::new(json!({ "clusterIP": "None", "clusterIPs": ["None"] })),
        &["no routes: the Service has no address (it is headless or only a name) or no ports"],
    );
}

#[test]
fn endpoints_that_are_too_far_away_are_told_with_their_place() {
    let lab = Lab::new(json!({})).from("east", &["10.1.0.1 z1", "10.1.0.2 z2", "10.1.0.3"]).in_region("r1");
    let lab = importing(lab, "zone,any", json!([]));
    check(
        &lab,
        &[
            "ClusterIP 10.96.0.1 port 80/TCP (http): 1 endpoint, those for this zone",
            "  -> 10.1.0.1:8080 of cluster east",
            "  not 10.1.0.2:8080: other zone, z2",
            "  not 10.1.0.3:8080: its zone is not known",
        ],
    );
    let lab = Lab::new(json!({})).from("east", &["10.1.0.1 z2"]);
    let keys = json!([{ "cluster": "east", "topologyKeys": ["topology.kubernetes.io/zone"] }]);
    check(
        &importing(lab, "", keys),
        &[
            "ClusterIP 10.96.0.1 port 80/TCP (http): rejected: there are endpoints, but topology keys or \
             tombolo.dev/prefer allow none here",
            "  not 10.1.0.1:8080: not where topology keys or tombolo.dev/prefer allow it",
        ],
    );
    let lab = Lab::new(json!({})).with(&["10.1.0.1 n1 for:z1", "10.1.0.2 n2 z1 for:z2"]);
    check(
        &lab,
        &[
            "ClusterIP 10.96.0.1 port 80/TCP (http): 1 endpoint, those for this zone",
            "  -> 10.1.0.1:8080, on this node",
            "  not 10.1.0.2:8080: zone z1, but not for this node",
        ],
    );
}

#[test]
fn a_long_list_is_cut_and_counted() {
    let texts: Vec<String> = (1..=25).map(|host| format!("10.1.0.{host}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let lab = Lab::new(json!({})).with(&texts);
    let lines = explain(&lab.input(), &lab.routes());
    assert_eq!(lines.len(), 22);
    assert_eq!(lines[21], "  and 5 more");
}
