//! What becomes of slices on their way.

use proptest::prelude::*;
use serde_json::{Value, json};
use tombolo_api::service::STOCK_SLICE_CONTROLLER;
use tombolo_api::tombolo::ServiceOfferSpec;

use super::*;
use crate::merge::merge;
use crate::policy::Policy;
use crate::testing::{echo, id, offer, ports, service, with};

/// A slice of demo/echo as the stock controller writes it.
fn source(change: impl FnOnce(&mut Value)) -> EndpointSlice {
    let mut slice = json!({
        "metadata": {
            "name": "echo-x7k2p", "namespace": "demo", "uid": "u", "resourceVersion": "5", "generation": 2,
            "labels": {
                "kubernetes.io/service-name": "echo",
                "endpointslice.kubernetes.io/managed-by": STOCK_SLICE_CONTROLLER,
                "app": "echo",
            },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z", "x": "y" },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "protocol": "TCP", "port": 8080, "appProtocol": "http" }],
        "endpoints": [{
            "addresses": ["10.1.2.3"],
            "conditions": { "ready": false, "serving": true, "terminating": true },
            "hostname": "echo-0",
            "zone": "us-west2-a",
            "nodeName": "node-1",
            "targetRef": { "kind": "Pod", "name": "echo-0", "namespace": "demo" },
            "hints": { "forZones": [{ "name": "us-west2-a" }] },
            "deprecatedTopology": { "rack": "7" },
        }],
    });
    change(&mut slice);
    serde_json::from_value(slice).unwrap()
}

fn publish_from_a(slice: &EndpointSlice) -> Selected {
    let publication = Publication {
        cluster: &id("a"),
        dialect: Dialect::Mcs,
        service: &echo(),
        declared: &Declared::Nothing,
        owner: None,
    };
    publish(&publication, slice)
}

type Change = fn(&mut ServiceOfferSpec);

/// The import of offers by `a` (the oldest) and `b`, each with its change.
fn import_of(dialect: Dialect, a: Change, b: Change) -> Import {
    let offers = [with(offer(dialect, "a"), a), with(offer(dialect, "b"), b)];
    merge(Policy::of(dialect), &echo(), &offers).import.unwrap()
}

const SAME: Change = |_| {};

/// What cluster `c` makes of a slice that `source` published.
fn consume(import: &Import, source: &str, published: &EndpointSlice) -> Selected {
    let owner = import.owner_reference("import-uid");
    super::import(
        &Consumption {
            import,
            source: &id(source),
            consumer: &id("c"),
            declared: &Declared::Nothing,
            region: None,
            owner: Some(&owner),
        },
        published,
    )
}

fn addresses(selected: &Selected) -> Vec<String> {
    let slice = selected.slice.iter();
    let endpoints = slice.flat_map(|slice| slice.endpoints.iter().flatten());
    endpoints.flat_map(|endpoint| endpoint.addresses.clone()).collect()
}

fn port_names(selected: &Selected) -> Vec<String> {
    let ports = selected.slice.as_ref().unwrap().ports.clone().unwrap();
    ports.into_iter().map(|port| port.name.unwrap_or_default()).collect()
}

#[test]
fn the_slices_of_a_service_are_its_own_ones_not_imported_ones() {
    let labelled = |key: &str, word: &str| source(|slice| slice["metadata"]["labels"][key] = word.into());
    assert!(is_source(&source(|_| {}), &echo()));
    assert!(is_source(&labelled("endpointslice.kubernetes.io/managed-by", "someone.example.com"), &echo()));
    for (slice, service) in [
        (source(|_| {}), service("demo", "other")),
        (source(|_| {}), service("other", "echo")),
        (labelled(SOURCE_CLUSTER_LABEL, "b"), echo()),
        (labelled("endpointslice.kubernetes.io/managed-by", SLICE_MANAGER), echo()),
        (EndpointSlice::default(), echo()),
    ] {
        assert!(!is_source(&slice, &service));
    }
}

#[test]
fn a_published_slice_says_whose_it_is_and_tells_nothing_but_its_endpoints() {
    let offer = names::offer(Dialect::Mcs, &echo());
    let published = publish_from_a(&source(|_| {})).slice.unwrap();
    assert_eq!(
        serde_json::to_value(&published).unwrap(),
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": names::hub_slice(Dialect::Mcs, &echo(), "echo-x7k2p"),
                "namespace": "tombolo-a",
                "labels": {
                    "tombolo.dev/offer": offer,
                    "multicluster.kubernetes.io/source-cluster": "a",
                    "endpointslice.kubernetes.io/managed-by": "agent.tombolo.dev",
                    "app.kubernetes.io/managed-by": "tombolo",
                },
                "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z" },
            },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "protocol": "TCP", "port": 8080, "appProtocol": "http" }],
            "endpoints": [{
                "addresses": ["10.1.2.3"],
                "conditions": { "ready": false, "serving": true, "terminating": true },
                "hostname": "echo-0",
                "zone": "us-west2-a",
                "nodeName": "node-1",
            }],
        })
    );
    crate::origin::check_slice(&id("a"), &published, |name| name == offer).unwrap();
}

#[test]
fn an_imported_slice_has_the_labels_of_its_dialect_its_source_its_manager_and_its_owner() {
    for (dialect, label, kind) in [
        (Dialect::Kep, "multicluster.kubernetes.io/imported-service-name", "ImportedService"),
        (Dialect::Mcs, "multicluster.kubernetes.io/service-name", "ServiceImport"),
    ] {
        let import = import_of(dialect, SAME, SAME);
        let published = publish_from_a(&source(|_| {})).slice.unwrap();
        let slice = consume(&import, "a", &published).slice.unwrap();
        let expected = [
            (label, "echo"),
            ("multicluster.kubernetes.io/source-cluster", "a"),
            ("endpointslice.kubernetes.io/managed-by", "agent.tombolo.dev"),
            ("app.kubernetes.io/managed-by", "tombolo"),
            ("kubernetes.io/service-name", &import.derived_service_name().unwrap()),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(slice.metadata.labels, Some(expected.into()));
        assert_eq!(slice.metadata.namespace.as_deref(), Some("demo"));
        let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.uid.as_str(), owner.controller),
            (kind, "import-uid", Some(false))
        );
    }
}

#[test]
fn conditions_hostname_zone_and_app_protocol_are_carried_and_nothing_that_points_into_the_source() {
    let published = publish_from_a(&source(|_| {})).slice.unwrap();
    let slice = consume(&import_of(Dialect::Mcs, SAME, SAME), "a", &published).slice.unwrap();
    assert_eq!(
        serde_json::to_value(&slice.endpoints).unwrap(),
        json!([{
            "addresses": ["10.1.2.3"],
            "conditions": { "ready": false, "serving": true, "terminating": true },
            "hostname": "echo-0",
            "zone": "us-west2-a",
        }])
    );
    assert_eq!(slice.ports.unwrap()[0].app_protocol.as_deref(), Some("http"));
}

#[test]
fn whatever_a_member_writes_at_the_hub_foreign_nodes_references_and_hints_do_not_get_in() {
    let forged = source(|_| {});
    let slice = consume(&import_of(Dialect::Mcs, SAME, SAME), "a", &forged).slice.unwrap();
    let endpoint = &slice.endpoints.unwrap()[0];
    assert_eq!((&endpoint.node_name, &endpoint.target_ref, &endpoint.hints), (&None, &None, &None));
    assert_eq!(endpoint.deprecated_topology, None);
}

#[test]
fn an_imported_slice_says_in_which_region_its_source_is() {
    let import = import_of(Dialect::Kep, SAME, SAME);
    let published = publish_from_a(&source(|_| {})).slice.unwrap();
    let annotation = |region| {
        let (source, consumer) = (id("a"), id("c"));
        let declared = &Declared::Nothing;
        let consumption = Consumption {
            import: &import,
            source: &source,
            consumer: &consumer,
            declared,
            region,
            owner: None,
        };
        let slice = super::import(&consumption, &published).slice.unwrap();
        slice.metadata.annotations.unwrap_or_default().remove("tombolo.dev/region")
    };
    assert_eq!(annotation(Some("north")), Some("north".to_owned()));
    assert_eq!(annotation(Some("")), None);
    assert_eq!(annotation(None), None);
}

#[test]
fn only_the_cluster_itself_knows_its_endpoints_nodes() {
    let import = import_of(Dialect::Mcs, SAME, SAME);
    let published = publish_from_a(&source(|_| {})).slice.unwrap();
    for (consumer, node) in [("a", Some("node-1")), ("b", None)] {
        let consumption = Consumption {
            import: &import,
            source: &id("a"),
            consumer: &id(consumer),
            declared: &Declared::Nothing,
            region: None,
            owner: None,
        };
        let slice = super::import(&consumption, &published).slice.unwrap();
        assert_eq!(slice.endpoints.unwrap()[0].node_name.as_deref(), node);
    }
}

#[test]
fn a_headless_service_has_slices_without_a_derived_service() {
    let headless: Change = |spec| spec.type_ = tombolo_api::tombolo::OfferType::Headless;
    let import = import_of(Dialect::Mcs, headless, headless);
    let slice = consume(&import, "a", &source(|_| {})).slice.unwrap();
    assert!(!slice.metadata.labels.unwrap().contains_key(SERVICE_NAME_LABEL));
}

#[test]
fn an_exporter_without_the_merged_port_gets_no_traffic_for_it() {
    // Both slices have a port of the name; only its exporter's number tells whether it is the merged one.
    let import = import_of(
        Dialect::Mcs,
        |spec| spec.ports = ports(&["http:42"]),
        |spec| spec.ports = ports(&["http:4242"]),
    );
    assert_eq!(addresses(&consume(&import, "a", &source(|_| {}))), ["10.1.2.3"]);
    let b = consume(&import, "b", &source(|_| {}));
    assert!(addresses(&b).is_empty() && port_names(&b).is_empty());
    assert_eq!(b.dropped, DropCount::new(), "the conflict is told");
}

#[test]
fn endpoints_without_a_port_that_their_own_service_has_are_left_out_and_counted() {
    let import = import_of(Dialect::Mcs, SAME, SAME);
    for (field, word) in [("name", "web"), ("protocol", "UDP")] {
        let slice = source(|slice| slice["ports"][0][field] = word.into());
        assert_eq!(consume(&import, "a", &slice).dropped, [(Dropped::NotExposed, 1)].into(), "{word}");
        let empty = source(|slice| {
            slice["ports"][0][field] = word.into();
            slice["endpoints"] = json!([]);
        });
        assert_eq!(consume(&import, "a", &empty).dropped, DropCount::new(), "{word}");
    }
}

#[test]
fn each_port_reaches_only_the_exporters_that_have_it() {
    let import = import_of(
        Dialect::Mcs,
        |spec| spec.ports = ports(&["tcp:42"]),
        |spec| spec.ports = ports(&["tcp2:4242"]),
    );
    assert_eq!(import.ports, ports(&["tcp:42", "tcp2:4242"]));
    let both =
        source(|slice| slice["ports"] = json!([{ "name": "tcp", "port": 1 }, { "name": "tcp2", "port": 2 }]));
    assert_eq!(port_names(&consume(&import, "a", &both)), ["tcp"]);
    assert_eq!(port_names(&consume(&import, "b", &both)), ["tcp2"]);
}

#[test]
fn a_port_of_the_same_name_but_another_protocol_is_another_port() {
    let import = import_of(Dialect::Mcs, SAME, SAME);
    let udp = source(|slice| slice["ports"][0]["protocol"] = "UDP".into());
    assert!(addresses(&consume(&import, "a", &udp)).is_empty());
    let unspoken = source(|slice| slice["ports"][0] = json!({ "name": "http", "port": 1 }));
    assert_eq!(port_names(&consume(&import, "a", &unspoken)), ["http"]);
}

#[test]
fn an_unnamed_port_is_matched_as_one() {
    let unnamed: Change = |spec| spec.ports = ports(&[":80"]);
    let import = import_of(Dialect::Mcs, unnamed, unnamed);
    for name in [json!(null), json!("")] {
        let slice = source(|slice| slice["ports"][0]["name"] = name);
        assert_eq!(addresses(&consume(&import, "a", &slice)), ["10.1.2.3"]);
    }
    assert!(addresses(&consume(&import, "a", &source(|_| {}))).is_empty());
}

#[test]
fn a_headless_service_keeps_endpoints_whose_ports_do_not_match_since_names_need_no_port() {
    use tombolo_api::tombolo::OfferType::Headless;
    let import = import_of(
        Dialect::Mcs,
        |spec| (spec.type_, spec.ports) = (Headless, ports(&["http:42"])),
        |spec| (spec.type_, spec.ports) = (Headless, ports(&["http:4242"])),
    );
    let b = consume(&import, "b", &source(|_| {}));
    assert_eq!((addresses(&b), port_names(&b)), (vec!["10.1.2.3".to_owned()], vec![]));
}

#[test]
fn a_cluster_that_does_not_export_the_service_contributes_nothing() {
    assert_eq!(consume(&import_of(Dialect::Mcs, SAME, SAME), "d", &source(|_| {})), Selected::default());
}

#[test]
fn slices_of_other_families_are_kept_apart_and_names_are_no_addresses() {
    let dual: Change = |spec| spec.ip_families = vec![IpFamily::V4, IpFamily::V6];
    let of = |family: &str, address: &str| {
        source(|slice| {
            slice["addressType"] = family.into();
            slice["endpoints"][0]["addresses"] = json!([address]);
        })
    };
    let v6 = of("IPv6", "fd00::1");
    assert_eq!(consume(&import_of(Dialect::Mcs, SAME, SAME), "a", &v6), Selected::default());
    assert_eq!(addresses(&consume(&import_of(Dialect::Mcs, dual, dual), "a", &v6)), ["fd00::1"]);
    assert_eq!(
        consume(&import_of(Dialect::Kep, dual, dual), "a", &v6),
        Selected::default(),
        "one family for all"
    );
    assert_eq!(consume(&import_of(Dialect::Mcs, SAME, dual), "a", &v6), Selected::default(), "not offered");
    let fqdn = of("FQDN", "example.com");
    assert_eq!(publish_from_a(&fqdn), Selected::default());
    assert_eq!(consume(&import_of(Dialect::Mcs, dual, dual), "a", &fqdn), Selected::default());
    let mixed = consume(&import_of(Dialect::Mcs, dual, dual), "a", &of("IPv4", "fd00::1"));
    assert_eq!(mixed.dropped, [(Dropped::WrongFamily, 1)].into());
}

#[test]
fn addresses_that_are_not_believed_are_dropped_and_counted_on_both_sides() {
    let slice = source(|slice| {
        slice["endpoints"] = json!([
            { "addresses": ["127.0.0.1", "10.1.0.1"] },
            { "addresses": ["169.254.169.254"] },
            { "addresses": ["10.2.0.1"] },
            { "addresses": ["10.3.0.1"] },
            { "addresses": [] },
        ]);
    });
    let (declared, _) = Declared::read(&["10.1.0.0/16".into()]);
    let expected =
        DropCount::from([(Dropped::Loopback, 1), (Dropped::Metadata, 1), (Dropped::Undeclared, 2)]);
    let import = import_of(Dialect::Mcs, SAME, SAME);
    let consumption = Consumption {
        import: &import,
        source: &id("a"),
        consumer: &id("c"),
        declared: &declared,
        region: None,
        owner: None,
    };
    let imported = super::import(&consumption, &slice);
    let publication = Publication {
        cluster: &id("a"),
        dialect: Dialect::Mcs,
        service: &echo(),
        declared: &declared,
        owner: None,
    };
    for selected in [imported, publish(&publication, &slice)] {
        assert_eq!(addresses(&selected), ["10.1.0.1"]);
        assert_eq!(selected.dropped, expected);
    }
}

#[test]
fn no_slice_has_more_than_a_thousand_endpoints() {
    let endpoints: Vec<Value> =
        (0..1003).map(|i| json!({ "addresses": [format!("10.1.{}.{}", i / 250, i % 250)] })).collect();
    let slice = source(|slice| slice["endpoints"] = endpoints.into());
    let selected = consume(&import_of(Dialect::Mcs, SAME, SAME), "a", &slice);
    assert_eq!(addresses(&selected).len(), MAX_ENDPOINTS);
    assert_eq!(selected.dropped, [(Dropped::TooMany, 3)].into());
}

#[test]
fn empty_slices_and_null_lists_stay_as_empty_slices() {
    let import = import_of(Dialect::Mcs, SAME, SAME);
    for (endpoints, ports) in [(json!(null), json!(null)), (json!([]), json!([]))] {
        let slice = source(|slice| (slice["endpoints"], slice["ports"]) = (endpoints, ports));
        let published = publish_from_a(&slice).slice.unwrap();
        let imported = consume(&import, "a", &published).slice.unwrap();
        assert_eq!((imported.endpoints, imported.ports), (Some(vec![]), Some(vec![])));
    }
}

#[test]
fn what_an_api_server_would_refuse_does_not_keep_the_rest_from_being_written() {
    let slice = source(|slice| {
        slice["endpoints"][0]["hostname"] = "Not A Host".into();
        slice["endpoints"][0]["zone"] = "no zone".into();
        slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] = "soon".into();
        slice["ports"] = json!([
            { "name": "http", "port": 8080 },
            { "name": "http", "port": 8081 },
            { "name": "bad", "port": 99999 },
            { "name": "BAD", "port": 1 },
            { "name": "odd", "port": 1, "protocol": "ICMP" },
        ]);
    });
    let published = publish_from_a(&slice);
    assert_eq!(port_names(&published), ["http"]);
    let published = published.slice.unwrap();
    let endpoint = &published.endpoints.unwrap()[0];
    assert_eq!((&endpoint.hostname, &endpoint.zone, &published.metadata.annotations), (&None, &None, &None));
}

#[test]
fn a_slice_keeps_its_name_whatever_happens_to_its_endpoints() {
    let import = import_of(Dialect::Mcs, SAME, SAME);
    let name = |slice: &EndpointSlice| {
        let published = publish_from_a(slice).slice.unwrap();
        let imported = consume(&import, "a", &published).slice.unwrap();
        (published.metadata.name, imported.metadata.name)
    };
    let before = name(&source(|_| {}));
    assert_eq!(before, name(&source(|slice| slice["endpoints"] = json!([]))));
    assert_ne!(before, name(&source(|slice| slice["metadata"]["name"] = "echo-other".into())));
}

fn any_slice() -> impl Strategy<Value = EndpointSlice> {
    let address = prop_oneof![
        4 => (0u8..3, 0u8..4).prop_map(|(a, b)| format!("10.{a}.0.{b}")),
        1 => prop_oneof![Just("127.0.0.1"), Just("169.254.0.1"), Just("::1"), Just("fd00::5"), Just("nonsense")]
            .prop_map(str::to_owned),
    ];
    let endpoints = prop::collection::vec(prop::collection::vec(address, 0..3), 0..6);
    let ports = prop::collection::vec(
        (prop_oneof![Just("http"), Just("a"), Just(""), Just("BAD")], prop::option::of(-1i32..3)),
        0..3,
    );
    let family = prop_oneof![8 => Just("IPv4"), 2 => Just("IPv6"), 1 => Just("FQDN"), 1 => Just("")];
    (endpoints, ports, family).prop_map(|(endpoints, ports, family)| {
        source(|slice| {
            slice["addressType"] = family.into();
            slice["endpoints"] = endpoints
                .iter()
                .map(|addresses| json!({ "addresses": addresses, "nodeName": "n" }))
                .collect();
            slice["ports"] = ports.iter().map(|(name, port)| json!({ "name": name, "port": port })).collect();
        })
    })
}

proptest! {
    #[test]
    fn every_imported_address_was_in_the_source_and_passes_the_filter(slice in any_slice()) {
        let (declared, _) = Declared::read(&["10.0.0.0/16".into(), "10.1.0.0/16".into(), "fd00::/64".into()]);
        let dual: Change = |spec| spec.ip_families = vec![IpFamily::V4, IpFamily::V6];
        let import = import_of(Dialect::Mcs, dual, dual);
        let given: Vec<String> =
            slice.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.clone()).collect();
        let consumption =
            Consumption { import: &import, source: &id("a"), consumer: &id("c"), declared: &declared, region: None, owner: None };
        let direct = super::import(&consumption, &slice);
        let family = slice.address_type.parse::<IpFamily>();
        for address in addresses(&direct) {
            prop_assert!(given.contains(&address));
            prop_assert!(declared.accept(&address, family.clone().unwrap()).is_ok());
        }
        for port in direct.slice.iter().flat_map(|slice| slice.ports.iter().flatten()) {
            prop_assert!(slice.ports.as_ref().unwrap().contains(port));
        }
        if let Some(imported) = &direct.slice {
            let kept: usize = addresses(&direct).len();
            let dropped: usize = direct.dropped.values().sum();
            let ports = imported.ports.as_ref().unwrap();
            prop_assert!(kept + dropped == given.len() || (kept == 0 && ports.is_empty()), "nothing is lost unsaid");
        }
        // The way over the hub adds nothing.
        if let Some(published) = publish_from_a(&slice).slice {
            let through = super::import(&consumption, &published);
            prop_assert_eq!(addresses(&through), addresses(&direct));
        }
    }
}
