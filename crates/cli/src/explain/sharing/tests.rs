//! A Service that `a` provides and `b` consumes, and then one thing wrong with it at a time.

use serde_json::{Value, from_value, json};
use tombolo_model::names;

use super::super::finding::{Finding, Hop, State};
use super::*;
use crate::survey::{HubSeen, MemberFacts};

const NOW: &str = "2026-01-01T00:10:00Z";
const MADE: &str = "2026-01-01T00:03:00Z";
const SAID: &str = "2026-01-01T00:05:00Z";

fn service() -> ServiceRef {
    ServiceRef { namespace: "demo".into(), name: "echo".into() }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "Reason", "message": message, "lastTransitionTime": SAID})
}

fn slice(name: &str, labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "demo", "labels": labels, "annotations": annotations,
                     "creationTimestamp": MADE},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}],
    })
}

fn work(cluster: &str, name: &str, metadata: Value, suspended: bool, manifest: Value) -> Value {
    let mut labels = json!({
        "multiclusterservice.karmada.io/name": "echo", "multiclusterservice.karmada.io/namespace": "demo"});
    if suspended {
        labels["endpointslice.karmada.io/managed-by"] = json!("MultiClusterService");
    }
    json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": name, "namespace": format!("karmada-es-{cluster}"), "labels": labels,
                     "annotations": metadata, "creationTimestamp": MADE},
        "spec": {"workload": {"manifests": [manifest]}, "suspendDispatching": suspended},
        "status": {"conditions": [condition("Applied", "True", "")]},
    })
}

/// All that a case may change: the MultiClusterService, Works and Services at the hub, and what both clusters hold.
struct World {
    object: Value,
    templates: Value,
    /// The Service for `a` and for `b`, the report of `a`, and its slice for `b`.
    works: Value,
    beat: Value,
    a: Value,
    b: Value,
}

fn world() -> World {
    let own = slice("echo-1", json!({"kubernetes.io/service-name": "echo"}), json!({}));
    let sent = slice(
        "import-1",
        json!({"kubernetes.io/service-name": "echo",
               "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io"}),
        json!({"endpointslice.karmada.io/provision-cluster": "a"}),
    );
    let held = |address: &str| json!({"metadata": {"name": "echo", "namespace": "demo"}, "spec": {"clusterIP": address}});
    let from_a = json!({"endpointslice.karmada.io/work-provision-cluster": "a"});
    let whole = names::service_work(&service());
    let mut delivery = work("a", &whole, json!({}), false, held(""));
    let collected = condition("tombolo.dev/Collected", "True", "");
    delivery["status"]["conditions"].as_array_mut().unwrap().push(collected);
    let said = ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"];
    World {
        object: json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "echo", "namespace": "demo", "creationTimestamp": MADE},
            "spec": {"types": ["CrossCluster"], "serviceProvisionClusters": ["a"],
                     "serviceConsumptionClusters": ["b"]},
            "status": {"conditions": said.map(|type_| condition(type_, "True", "all is well"))},
        }),
        templates: json!([held("")]),
        works: json!([
            delivery,
            work("b", &whole, json!({}), false, held("")),
            work("a", "report", json!({}), true, own.clone()),
            work("b", "sent", from_a, false, sent.clone()),
        ]),
        beat: json!({"metadata": {}, "spec": {"renewTime": "2026-01-01T00:09:58.000000Z", "leaseDurationSeconds": 30}}),
        a: json!({"services": [held("10.96.0.1")], "slices": [own]}),
        b: json!({"services": [held("10.96.0.2")], "slices": [sent]}),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn member(id: &str, value: &Value) -> MemberSeen {
    let facts = match value.as_str() {
        Some(why) => Err(why.to_owned()),
        None => Ok(MemberFacts {
            services: read(&value["services"]),
            slices: read(&value["slices"]),
            ..MemberFacts::default()
        }),
    };
    MemberSeen { id: id.to_owned(), context: Some(id.to_owned()), facts }
}

fn judge(world: &World) -> Explanation {
    let facts = HubFacts {
        multi_cluster_services: vec![read(&world.object)],
        services: read(&world.templates),
        works: read(&world.works),
        heartbeats: [("tombolo-a".to_owned(), read(&world.beat))].into(),
        ..HubFacts::default()
    };
    let survey = Survey {
        now: NOW.parse().unwrap(),
        hub: HubSeen { context: "hub".into(), facts: Ok(facts) },
        members: vec![member("a", &world.a), member("b", &world.b)],
        others: Vec::new(),
    };
    explain(&survey, &service()).expect("it is there")
}

#[test]
fn a_service_that_is_shared_well_has_no_broken_hop_and_clusters_are_compared() {
    let explanation = judge(&world());
    let bad: Vec<&Finding> = explanation.findings.iter().filter(|one| one.state != State::Fine).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let mut hops: Vec<Hop> = explanation.findings.iter().map(|one| one.hop).collect();
    hops.dedup();
    let expected = [Hop::Service, Hop::Sharing, Hop::Delivery, Hop::Report, Hop::Slices, Hop::Endpoints];
    assert_eq!(hops, expected);
    let held = &explanation.clusters;
    assert_eq!((held[0].exports, held[0].offers, &held[0].imports), (true, Some((1, 1)), &None));
    assert_eq!((held[1].exports, &held[1].imports), (false, &Some(vec!["10.96.0.2".to_owned()])));
    assert_eq!(held[1].endpoints, [("a".to_owned(), 1, 1)]);
}

#[test]
fn each_thing_that_can_be_wrong_is_found_at_its_hop_since_some_time_with_something_to_do() {
    type Break = fn(&mut World);
    let cases: [(&str, Break, Hop, &str, &str); 15] = [
        ("no Service", |w| w.templates = json!([]), Hop::Service, "hub", MADE),
        (
            "a stranger",
            |w| w.object["spec"]["serviceProvisionClusters"] = json!(["a", "z"]),
            Hop::Sharing,
            "hub",
            MADE,
        ),
        (
            "two spellings",
            |w| w.object["spec"]["providerClusters"] = json!([{"name": "b"}]),
            Hop::Sharing,
            "hub",
            MADE,
        ),
        ("no hub", |w| w.object["status"] = json!({}), Hop::Delivery, "hub", MADE),
        (
            "the hub says so",
            |w| w.object["status"]["conditions"][2] = self::condition("EndpointSliceApplied", "False", "b"),
            Hop::Slices,
            "hub",
            SAID,
        ),
        ("no Work", |w| drop(w.works.as_array_mut().unwrap().remove(1)), Hop::Delivery, "b", MADE),
        ("no agent", |w| w.works[1]["status"] = json!({}), Hop::Delivery, "b", MADE),
        (
            "in the way",
            |w| w.works[1]["status"]["conditions"][0] = self::condition("Applied", "False", "taken"),
            Hop::Delivery,
            "b",
            SAID,
        ),
        ("deleted", |w| w.b["services"] = json!([]), Hop::Delivery, "b", MADE),
        (
            "silent",
            |w| w.beat["spec"]["renewTime"] = json!("2026-01-01T00:01:00.000000Z"),
            Hop::Report,
            "a",
            "2026-01-01T00:01:00Z",
        ),
        (
            "not reported",
            |w| {
                w.works[0]["status"]["conditions"][1] =
                    self::condition("tombolo.dev/Collected", "False", "no")
            },
            Hop::Report,
            "a",
            SAID,
        ),
        ("not sent", |w| drop(w.works.as_array_mut().unwrap().pop()), Hop::Slices, "b", MADE),
        (
            "not taken",
            |w| w.works[3]["status"]["conditions"][0] = self::condition("Applied", "False", "refused"),
            Hop::Slices,
            "b",
            SAID,
        ),
        ("nobody there", |w| w.b["slices"] = json!([]), Hop::Endpoints, "b", MADE),
        (
            "nobody ready",
            |w| w.b["slices"][0]["endpoints"][0]["conditions"]["ready"] = json!(false),
            Hop::Endpoints,
            "b",
            MADE,
        ),
    ];
    for (what, wrong, hop, cluster, since) in cases {
        let mut world = world();
        wrong(&mut world);
        let explanation = judge(&world);
        assert_eq!(explanation.broken_at(), Some(hop), "{what}: {:#?}", explanation.findings);
        let found = explanation.findings.iter().find(|one| one.hop == hop && one.state == State::Broken);
        let found = found.unwrap();
        assert_eq!(found.cluster, cluster, "{what}");
        assert_eq!(found.since, Some(since.parse().unwrap()), "{what}: {found:?}");
        assert!(found.advice.is_some(), "{what}: {found:?}");
    }
}

#[test]
fn endpoints_that_are_held_back_are_as_they_should_be_and_who_cannot_be_asked_is_unknown() {
    let mut world = world();
    let held_back =
        self::condition("Applied", "True", "applied: held back while enough local ones are ready");
    world.works[3]["status"]["conditions"][0] = held_back;
    world.b["slices"] = json!([slice("own", json!({"kubernetes.io/service-name": "echo"}), json!({}))]);
    let explanation = judge(&world);
    assert_eq!(explanation.broken_at(), None, "{:#?}", explanation.findings);

    world.b = json!("refused");
    let explanation = judge(&world);
    assert_eq!(explanation.broken_at(), None);
    let unknown = explanation.findings.iter().filter(|one| one.state == State::Unknown);
    let hops: Vec<Hop> = unknown.map(|one| one.hop).collect();
    assert_eq!(hops, [Hop::Delivery, Hop::Slices, Hop::Endpoints]);
}
