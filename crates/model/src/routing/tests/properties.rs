//! What holds for any Service, any slices and any node, sense or nonsense.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_api::kep::ImportedService;

use super::lab::{Lab, node};
use crate::routing::endpoint::{Endpoint, Endpoints, State};
use crate::routing::gathered::Gathered;
use crate::routing::{Action, Balance, Imported, Reason, Route, Tier, explain};

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

fn maybe(words: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(one_of(words))
}

/// As a rule the same word, so that what belongs together meets.
fn mostly(usual: &'static str, odd: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![6 => Just(Some(usual)), 1 => maybe(odd)]
}

prop_compose! {
    fn any_port()(
        name in mostly("a", &["b", ""]),
        port in prop_oneof![8 => 80..82, 1 => -1..1, 1 => Just(70000)],
        protocol in mostly("TCP", &["UDP", "SCTP", "DCCP"]),
        node_port in prop::option::of(prop_oneof![4 => 30000..30003, 1 => -1..1]),
    ) -> Value {
        json!({ "name": name, "port": port, "protocol": protocol, "nodePort": node_port })
    }
}

prop_compose! {
    fn any_addresses()(
        cluster_ips in prop_oneof![
            3 => Just(json!(["10.96.0.1"])),
            3 => Just(json!(["10.96.0.1", "fd00:96::1"])),
            1 => Just(json!(["None"])),
            1 => Just(json!(["x", "10.96.0.1", "10.96.0.2"])),
        ],
        external in prop::collection::vec(
            one_of(&["198.51.100.1", "2001:db8::1", "10.96.0.1", "203.0.113.1", "x", "127.0.0.1"]), 0..3),
        ingress in prop::collection::vec((one_of(&["203.0.113.1", "2001:db8::2", ""]), maybe(&["VIP", "Proxy"])), 0..3),
        ranges in prop::collection::vec(one_of(&["10.0.0.0/8", "fd00::/8", "0.0.0.0/0", "::/0", "x"]), 0..3),
    ) -> (Value, Value, Value, Value) {
        let ingress: Vec<Value> = ingress.iter().map(|(ip, mode)| json!({ "ip": ip, "ipMode": mode })).collect();
        (cluster_ips, json!(external), json!(ingress), json!(ranges))
    }
}

prop_compose! {
    fn any_service()(
        type_ in one_of(&["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName", "Other"]),
        (cluster_ips, external, ingress, ranges) in any_addresses(),
        ports in prop::collection::vec(any_port(), 0..3),
        internal in maybe(&["Cluster", "Local", "Local", "x"]),
        outside in maybe(&["Cluster", "Local", "Local", "x"]),
        affinity in maybe(&["None", "ClientIP", "x"]),
        seconds in prop::option::of(-1..100_000),
        check in prop::option::of(-1..70_000),
        prefer in maybe(&["zone,any", "region", "cluster,zone", "x", ""]),
    ) -> Service {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "annotations": prefer.map(|prefer| json!({ "tombolo.dev/prefer": prefer })) },
            "spec": {
                "type": type_, "clusterIP": cluster_ips[0], "clusterIPs": cluster_ips, "externalIPs": external,
                "ports": ports, "internalTrafficPolicy": internal, "externalTrafficPolicy": outside,
                "sessionAffinity": affinity, "healthCheckNodePort": check, "loadBalancerSourceRanges": ranges,
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": seconds } },
            },
            "status": { "loadBalancer": { "ingress": ingress } },
        }))
        .unwrap()
    }
}

prop_compose! {
    fn any_endpoint()(
        v4 in one_of(&["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "127.0.0.1", "x", "fd00:1::1"]),
        node in maybe(&["n1", "n1", "n2"]),
        zone in maybe(&["z1", "z2"]),
        conditions in prop::array::uniform3(prop::option::of(any::<bool>())),
        for_zones in prop::option::weighted(0.7, prop::collection::vec(one_of(&["z1", "z2"]), 0..3)),
        for_nodes in prop::option::weighted(0.4, prop::collection::vec(one_of(&["n1", "n2"]), 0..3)),
    ) -> Value {
        let named = |names: Vec<&str>| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        json!({
            "addresses": [v4], "nodeName": node, "zone": zone,
            "conditions": { "ready": conditions[0], "serving": conditions[1], "terminating": conditions[2] },
            "hints": { "forZones": for_zones.map(named), "forNodes": for_nodes.map(named) },
        })
    }
}

prop_compose! {
    fn any_slice()(
        source in maybe(&["here", "east", "west", "No Id"]),
        region in maybe(&["r1", "r2"]),
        family in prop_oneof![8 => Just("IPv4"), 1 => Just("IPv6"), 1 => Just("FQDN")],
        ports in prop::collection::vec(
            (
                mostly("a", &["b", ""]),
                prop_oneof![6 => Just(Some(8080)), 1 => prop::option::of(-1..3)],
                mostly("TCP", &["UDP", "x"]),
            ),
            0..3
        ),
        endpoints in prop::collection::vec(any_endpoint(), 0..5),
    ) -> EndpointSlice {
        let port = |(name, port, protocol): &(_, _, _)| json!({ "name": name, "port": port, "protocol": protocol });
        let labels = source.map(|source| json!({ "multicluster.kubernetes.io/source-cluster": source }));
        serde_json::from_value(json!({
            "metadata": {
                "name": "web-1", "labels": labels,
                "annotations": region.map(|region| json!({ "tombolo.dev/region": region })),
            },
            "addressType": family, "ports": ports.iter().map(port).collect::<Vec<_>>(), "endpoints": endpoints,
        }))
        .unwrap()
    }
}

fn any_import() -> impl Strategy<Value = Imported> {
    let keys = prop::collection::vec(
        one_of(&[
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
            "topology.kubernetes.io/region",
            "*",
            "x",
        ]),
        0..3,
    );
    let cluster = (one_of(&["here", "east", "west", "No Id"]), keys, one_of(&["None", "ClientIP"]));
    let prefer = maybe(&["zone,any", "region,cluster", "zone", "x"]);
    (prop::collection::vec(cluster, 0..4), prefer).prop_map(|(clusters, prefer)| {
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|(id, keys, affinity)| json!({ "cluster": id, "topologyKeys": keys, "sessionAffinity": affinity }))
            .collect();
        let import: ImportedService = serde_json::from_value(json!({
            "apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ImportedService",
            "metadata": { "annotations": prefer.map(|prefer| json!({ "tombolo.dev/prefer": prefer })) },
            "spec": { "ports": [], "ipFamily": "IPv4", "clusters": clusters },
        }))
        .unwrap();
        Imported::kep(&import)
    })
}

/// No import.
fn any_plain_lab() -> impl Strategy<Value = Lab> {
    any_lab().prop_map(|lab| Lab { imported: None, ..lab })
}

prop_compose! {
    fn any_lab()(
        service in any_service(),
        slices in prop::collection::vec(any_slice(), 0..5),
        imported in prop::option::of(any_import()),
        labelled in prop::bool::weighted(0.8),
        member in prop::bool::weighted(0.8),
    ) -> Lab {
        let mut node = node();
        if !labelled {
            node.labels.clear();
        }
        node.cluster = node.cluster.filter(|_| member);
        Lab { service, slices, node, imported }
    }
}

/// The endpoints that a route could have.
fn endpoints<'e>(read: &'e Endpoints<'e>, route: &'e Route) -> &'e [Endpoint<'e>] {
    read.of(route.frontend.family, route.frontend.protocol, &route.port_name)
}

fn actions(route: &Route) -> impl Iterator<Item = &Action> {
    [Some(&route.action), route.from_this_node.as_ref()].into_iter().flatten()
}

/// Whether some slice says that what is at this address can serve, judged by its conditions alone.
fn may_serve(lab: &Lab, address: IpAddr) -> bool {
    let all = lab.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let mut named = all.filter(|endpoint| endpoint.addresses[0] == address.to_string());
    named.any(|endpoint| {
        let said = endpoint.conditions.clone().unwrap_or_default();
        said.ready != Some(false) || (said.serving != Some(false) && said.terminating == Some(true))
    })
}

fn states(balance: &Balance, endpoints: &[Endpoint<'_>]) -> BTreeSet<State> {
    let find = |address, port| endpoints.iter().find(|e| (e.address, e.port) == (address, port));
    balance
        .backends
        .iter()
        .map(|b| find(b.address, b.port).expect("an endpoint that is there").state)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_endpoint_gets_traffic_that_cannot_serve_and_ready_ones_come_before_terminating_ones(lab in any_lab()) {
        let slices: Vec<&EndpointSlice> = lab.slices.iter().collect();
        let read = Endpoints::read(&slices, &lab.node, &mut Gathered::default());
        for route in lab.run().0.routes {
            let all = endpoints(&read, &route);
            for action in actions(&route) {
                let Action::Balance(balance) = action else { continue };
                let states = states(balance, all);
                prop_assert!(!states.contains(&State::Unusable));
                prop_assert!(balance.backends.iter().all(|backend| may_serve(&lab, backend.address)));
                prop_assert_eq!(states.len(), 1, "ready and terminating ones are never mixed, and some are there");
                prop_assert_eq!(states.contains(&State::Draining), balance.tier == Tier::Terminating);
                prop_assert!(balance.backends.is_sorted_by(|a, b| (a.address, a.port) < (b.address, b.port)));
                if balance.tier == Tier::Terminating && lab.imported.is_none() && balance.backends.iter().any(|b| !b.local) {
                    prop_assert!(all.iter().all(|endpoint| endpoint.state != State::Ready), "ready beats terminating");
                }
            }
        }
    }

    #[test]
    fn traffic_is_dropped_only_if_an_endpoint_exists_elsewhere_and_rejected_only_if_none_may_be_used(lab in any_lab()) {
        let slices: Vec<&EndpointSlice> = lab.slices.iter().collect();
        let read = Endpoints::read(&slices, &lab.node, &mut Gathered::default());
        for route in lab.run().0.routes {
            let all = endpoints(&read, &route);
            let usable: Vec<_> = all.iter().filter(|endpoint| endpoint.state != State::Unusable).collect();
            for action in actions(&route) {
                match action {
                    Action::Drop(_) => {
                        prop_assert!(!usable.is_empty());
                        prop_assert!(usable.iter().all(|endpoint| endpoint.remote));
                    }
                    Action::Reject(Reason::NoEndpoints) => prop_assert!(usable.is_empty()),
                    Action::Reject(reason) => {
                        prop_assert_eq!(*reason, Reason::Topology);
                        prop_assert!(!usable.is_empty() && lab.imported.is_some());
                    }
                    Action::Balance(_) => {}
                }
            }
        }
    }

    #[test]
    fn hints_are_ignored_unless_every_ready_endpoint_has_one_that_counts(lab in any_plain_lab()) {
        let slices: Vec<&EndpointSlice> = lab.slices.iter().collect();
        let read = Endpoints::read(&slices, &lab.node, &mut Gathered::default());
        for route in lab.run().0.routes {
            let all = endpoints(&read, &route);
            let ready: Vec<_> = all.iter().filter(|endpoint| endpoint.state == State::Ready).collect();
            let complete = ready.iter().all(|endpoint| !endpoint.zone_hints.is_empty())
                || ready.iter().all(|endpoint| !endpoint.node_hints.is_empty());
            for action in actions(&route) {
                let Action::Balance(balance) = action else { continue };
                match balance.tier {
                    Tier::Near(_) => prop_assert!(complete),
                    Tier::All => prop_assert_eq!(balance.backends.len(), ready.len()),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_order_of_slices_and_endpoints_does_not_matter(
        (lab, slices) in any_lab().prop_flat_map(|lab| (Just(lab.clone()), Just(lab.slices).prop_shuffle())),
        reversed in any::<bool>(),
    ) {
        let first = lab.run();
        let mut other = Lab { slices, ..lab };
        if reversed {
            other.slices.iter_mut().filter_map(|slice| slice.endpoints.as_mut()).for_each(|list| list.reverse());
        }
        prop_assert_eq!(first, other.run());
    }

    #[test]
    fn no_frontend_is_there_twice_and_every_one_can_be_explained(lab in any_lab()) {
        let (routes, _) = lab.run();
        let claims: BTreeSet<_> = routes.routes.iter().map(|route| route.frontend.claim()).collect();
        prop_assert_eq!(claims.len(), routes.routes.len());
        prop_assert!(routes.routes.is_sorted_by_key(|route| route.frontend));
        prop_assert!(routes.routes.iter().all(|route| route.frontend.port != 0));
        prop_assert!(explain(&lab.input(), &routes).len() >= routes.routes.len());
    }
}
