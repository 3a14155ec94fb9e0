//! A whole service, and then one thing wrong with it at a time: the hop that is named must be that one.

use serde_json::{Value, from_value, json};

use super::picture::Heard;
use super::*;
use crate::survey::{HubFacts, HubSeen, MemberFacts, MemberSeen, Seen};
use tombolo_model::names;

const NOW: &str = "2026-01-01T00:10:00Z";

fn service() -> ServiceRef {
    ServiceRef { namespace: "demo".into(), name: "echo".into() }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "Reason", "message": message,
           "lastTransitionTime": "2026-01-01T00:05:00Z"})
}

fn slice(namespace: &str, labels: Value, address: &str, ready: bool) -> Value {
    json!({
        "metadata": {"name": format!("s-{address}"), "namespace": namespace, "labels": labels},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    })
}

/// Everything about `demo/echo` that is exported by `a` and imported by `a` and `b`, as JSON that a case may change.
struct World {
    hub: Value,
    a: Value,
    b: Value,
    dns: Answers,
}

fn member(own: bool) -> Value {
    let derived = names::derived_service(Dialect::Mcs, &service());
    let mut services = vec![json!({
        "metadata": {"name": derived, "namespace": "demo", "labels": {
            "app.kubernetes.io/managed-by": "tombolo", "multicluster.kubernetes.io/service-name": "echo"}},
        "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
                 "ports": [{"port": 80, "protocol": "TCP"}]},
    })];
    let imported = json!({
        "kubernetes.io/service-name": derived, "multicluster.kubernetes.io/service-name": "echo",
        "multicluster.kubernetes.io/source-cluster": "a"});
    let mut slices = vec![slice("demo", imported, "10.1.0.1", true)];
    let mut exports = Vec::new();
    if own {
        services.push(json!({
            "metadata": {"name": "echo", "namespace": "demo"},
            "spec": {"clusterIP": "10.96.0.8", "ports": [{"port": 80, "protocol": "TCP"}]},
        }));
        slices.push(slice("demo", json!({"kubernetes.io/service-name": "echo"}), "10.1.0.1", true));
        exports.push(json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
            "metadata": {"name": "echo", "namespace": "demo"},
            "status": {"conditions": [condition("Valid", "True", ""), condition("Ready", "True", ""),
                                      condition("Conflict", "False", "")]},
        }));
    }
    json!({
        "namespaces": [{"metadata": {"name": "demo"}}],
        "nodes": [{"metadata": {"name": "node1"}}],
        "services": services, "slices": slices, "exports": exports,
        "imports": [{
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"name": "echo", "namespace": "demo"},
            "spec": {"type": "ClusterSetIP", "ports": [{"port": 80}], "ips": ["10.96.0.7"]},
            "status": {"clusters": [{"cluster": "a"}], "conditions": [condition("Ready", "True", "")]},
        }],
        "leases": [],
    })
}

fn world() -> World {
    let offer = names::offer(Dialect::Mcs, &service());
    let membership = |id: &str| {
        json!({"apiVersion": "tombolo.dev/v1alpha1", "kind": "Membership",
               "metadata": {"name": "member", "namespace": format!("tombolo-{id}")},
               "spec": {"cluster": id, "identity": id}, "status": {}})
    };
    let beat = json!({"metadata": {}, "spec": {"renewTime": "2026-01-01T00:09:58.000000Z", "leaseDurationSeconds": 30}});
    let hub = json!({
        "memberships": [membership("a"), membership("b")],
        "heartbeats": {"tombolo-a": beat, "tombolo-b": beat},
        "offers": [{
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "ServiceOffer",
            "metadata": {"name": offer, "namespace": "tombolo-a"},
            "spec": {"dialect": "mcs", "cluster": "a", "service": {"namespace": "demo", "name": "echo"},
                     "type": "ClusterIP", "ipFamilies": ["IPv4"], "exportedAt": "2026-01-01T00:00:00Z"},
        }],
        "slices": [slice("tombolo-a", json!({"tombolo.dev/offer": offer}), "10.1.0.1", true)],
    });
    let answer = || Ok(vec!["10.96.0.7".to_owned()]);
    let names = [("a".to_owned(), answer()), ("b".to_owned(), answer())].into();
    let dns = Answers { names, ..Answers::default() };
    World { hub, a: member(true), b: member(false), dns }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value, key: &str) -> T {
    from_value(value[key].clone()).unwrap_or_else(|error| panic!("{key}: {error}"))
}

fn seen(id: &str, value: &Value) -> MemberSeen {
    let facts = if let Some(why) = value.as_str() {
        Err(why.to_owned())
    } else {
        Ok(MemberFacts {
            namespaces: read(value, "namespaces"),
            nodes: read(value, "nodes"),
            services: read(value, "services"),
            slices: read(value, "slices"),
            mcs_exports: read(value, "exports"),
            mcs_imports: read(value, "imports"),
            source_leases: read(value, "leases"),
            ..MemberFacts::default()
        })
    };
    MemberSeen { id: id.to_owned(), context: Some(id.to_owned()), facts }
}

fn judge(world: &World) -> Explanation {
    let facts = HubFacts {
        memberships: read(&world.hub, "memberships"),
        heartbeats: read(&world.hub, "heartbeats"),
        offers: read(&world.hub, "offers"),
        slices: read(&world.hub, "slices"),
        ..HubFacts::default()
    };
    let survey = Survey {
        now: NOW.parse().unwrap(),
        hub: HubSeen { context: "hub".into(), facts: Ok(facts) },
        members: vec![seen("a", &world.a), seen("b", &world.b)],
        others: Vec::new(),
    };
    explain(&survey, &service(), Dialect::Mcs, &world.dns)
}

#[test]
fn a_service_that_works_has_no_broken_hop_and_every_hop_is_told() {
    let explanation = judge(&world());
    let bad: Vec<&Finding> = explanation.findings.iter().filter(|one| one.state != State::Fine).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    let mut hops: Vec<Hop> = explanation.findings.iter().map(|one| one.hop).collect();
    hops.dedup();
    assert_eq!(hops.len(), 10, "{hops:?}");
    assert_eq!(explanation.broken_at(), None);
}

#[test]
fn an_import_with_addresses_of_both_families_is_told_right_only_with_both() {
    let mut world = world();
    let both = json!(["10.96.0.7", "fd00:96::0:7"]);
    world.b["imports"][0]["spec"]["ips"] = both.clone();
    world.b["services"][0]["spec"]["clusterIPs"] = both;
    let cases = [
        (["10.96.0.7", "fd00:96::7"].as_slice(), None),
        (&["10.96.0.7"], Some(Hop::Dns)),
        (&["fd00:96::7"], Some(Hop::Dns)),
        (&["10.96.0.7", "fd00:96::8"], Some(Hop::Dns)),
    ];
    for (answer, broken) in cases {
        let told = answer.iter().map(|text| (*text).to_owned()).collect();
        world.dns.names.insert("b".into(), Ok(told));
        let explanation = judge(&world);
        assert_eq!(explanation.broken_at(), broken, "{answer:?}: {:#?}", explanation.findings);
    }
}

#[test]
fn each_thing_that_can_be_wrong_is_found_at_its_hop_with_something_to_do() {
    type Break = fn(&mut World);
    let cases: [(&str, Break, Hop, &str); 14] = [
        ("no Service", |w| drop(w.a["services"].as_array_mut().unwrap().pop()), Hop::Service, "a"),
        ("only a name", |w| w.a["services"][1]["spec"]["type"] = json!("ExternalName"), Hop::Service, "a"),
        ("no agent", |w| w.a["exports"][0]["status"] = json!({}), Hop::Export, "a"),
        (
            "not valid",
            |w| w.a["exports"][0]["status"]["conditions"][0] = condition("Valid", "False", "no"),
            Hop::Export,
            "a",
        ),
        (
            "nobody exports",
            |w| {
                w.a["exports"] = json!([]);
                w.hub["offers"] = json!([]);
            },
            Hop::Export,
            "all",
        ),
        ("no offer", |w| w.hub["offers"] = json!([]), Hop::Offer, "a"),
        (
            "silent",
            |w| w.hub["heartbeats"]["tombolo-a"]["spec"]["renewTime"] = json!("2026-01-01T00:01:00.000000Z"),
            Hop::Offer,
            "a",
        ),
        (
            "not everywhere",
            |w| w.a["exports"][0]["status"]["conditions"][1] = condition("Ready", "False", "b has not"),
            Hop::Merge,
            "a",
        ),
        ("no import", |w| w.b["imports"] = json!([]), Hop::Import, "b"),
        (
            "no namespace",
            |w| {
                w.b["imports"] = json!([]);
                w.b["namespaces"] = json!([]);
            },
            Hop::Import,
            "b",
        ),
        ("no address", |w| w.b["services"] = json!([]), Hop::Vip, "b"),
        ("nothing arrived", |w| w.b["slices"] = json!([]), Hop::Slices, "b"),
        ("another answer", |w| drop(w.dns.names.insert("b".into(), Ok(vec![]))), Hop::Dns, "b"),
        (
            "nobody is ready",
            |w| {
                for value in [&mut w.a["slices"], &mut w.b["slices"], &mut w.hub["slices"]] {
                    for slice in value.as_array_mut().unwrap() {
                        slice["endpoints"][0]["conditions"]["ready"] = json!(false);
                    }
                }
            },
            Hop::Proxy,
            "a",
        ),
    ];
    for (what, wrong, hop, cluster) in cases {
        let mut world = world();
        wrong(&mut world);
        let explanation = judge(&world);
        assert_eq!(explanation.broken_at(), Some(hop), "{what}: {:#?}", explanation.findings);
        let found = explanation.findings.iter().find(|one| one.hop == hop && one.state == State::Broken);
        let found = found.unwrap();
        assert_eq!(found.cluster, cluster, "{what}");
        assert!(found.advice.is_some(), "{what}: {found:?}");
    }
}

/// Every object of a world was written at a time.
fn written(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(written),
        Value::Object(fields) => {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.insert("creationTimestamp".into(), json!("2026-01-01T00:03:00Z"));
            }
            fields.values_mut().for_each(written);
        }
        _ => {}
    }
}

#[test]
fn hops_that_no_condition_tells_about_are_broken_since_their_objects_were_written() {
    type Break = fn(&mut World);
    let cases: [(&str, Break, Hop); 5] = [
        ("no import", |w| w.b["imports"] = json!([]), Hop::Import),
        ("no address", |w| w.b["services"] = json!([]), Hop::Vip),
        ("nothing arrived", |w| w.b["slices"] = json!([]), Hop::Slices),
        ("another answer", |w| drop(w.dns.names.insert("b".into(), Ok(vec![]))), Hop::Dns),
        ("not ready", |w| w.b["slices"][0]["endpoints"][0]["conditions"]["ready"] = json!(false), Hop::Proxy),
    ];
    for (what, wrong, hop) in cases {
        let mut world = world();
        wrong(&mut world);
        [&mut world.hub, &mut world.a, &mut world.b].into_iter().for_each(written);
        let explanation = judge(&world);
        let found = explanation.findings.iter().find(|one| one.hop == hop && one.state == State::Broken);
        let since = found.unwrap_or_else(|| panic!("{what}: {:#?}", explanation.findings)).since;
        assert_eq!(since, Some("2026-01-01T00:03:00Z".parse().unwrap()), "{what}");
    }
}

#[test]
fn what_is_broken_says_since_when_as_far_as_anything_tells() {
    let mut world = world();
    world.hub["heartbeats"]["tombolo-a"]["spec"]["renewTime"] = json!("2026-01-01T00:01:00.000000Z");
    let explanation = judge(&world);
    let found = explanation.findings.iter().find(|one| one.state == State::Broken).unwrap();
    assert_eq!(found.since, Some("2026-01-01T00:01:00Z".parse().unwrap()));
}

#[test]
fn what_servers_say_and_proxies_do_counts_where_they_can_be_asked() {
    let heard = |told: Seen<Vec<String>>, tried: Seen<()>, waiting: &[(&str, &str)]| Heard {
        names: vec![("b/node1".into(), Ok(vec!["10.96.0.7".into()])), ("b/node2".into(), told)],
        connections: vec![("b/node1".into(), Ok(())), ("b/node2".into(), tried)],
        waiting: waiting.iter().map(|(part, what)| ((*part).into(), (*what).into())).collect(),
    };
    let right = || Ok(vec!["10.96.0.7".to_owned()]);
    let cases = [
        ("as it should be", heard(right(), Ok(()), &[]), None, ""),
        ("another address", heard(Ok(vec![]), Ok(()), &[]), Some(Hop::Dns), "tombolo dns query"),
        ("silent", heard(Err("no answer".into()), Ok(()), &[("b dns", "caches")]), Some(Hop::Dns), "caches"),
        ("refused", heard(right(), Err("refused".into()), &[]), Some(Hop::Proxy), "tombolo proxy explain"),
        (
            "behind",
            heard(right(), Err("refused".into()), &[("b dns", "x"), ("b/node2 proxy", "rules")]),
            Some(Hop::Proxy),
            "b/node2 proxy is not ready: rules",
        ),
    ];
    for (what, heard, hop, advice) in cases {
        let mut world = world();
        world.dns.heard.insert("b".into(), heard);
        let explanation = judge(&world);
        assert_eq!(explanation.broken_at(), hop, "{what}: {:#?}", explanation.findings);
        let broken = explanation.findings.iter().find(|one| one.state == State::Broken);
        let said = broken.and_then(|one| one.advice.clone()).unwrap_or_default();
        assert!(said.contains(advice), "{what}: {said}");
    }
}

#[test]
fn a_lease_that_ran_out_is_the_reason_why_slices_are_missing() {
    let mut world = world();
    world.b["slices"] = json!([]);
    world.b["leases"] = json!([{
        "metadata": {"name": "tombolo-source.a"},
        "spec": {"holderIdentity": "", "renewTime": "2026-01-01T00:02:00.000000Z"},
    }]);
    let explanation = judge(&world);
    let found = explanation.findings.iter().find(|one| one.hop == Hop::Slices && one.cluster == "b").unwrap();
    assert!(found.what.contains("its lease ran out"), "{found:?}");
    assert_eq!(found.since, Some("2026-01-01T00:02:00Z".parse().unwrap()));
}

#[test]
fn a_conflict_is_doubtful_where_the_oldest_wins_and_a_cluster_that_cannot_be_asked_is_unknown() {
    let mut world = world();
    world.a["exports"][0]["status"]["conditions"][2] = condition("Conflict", "True", "ports differ");
    world.b = json!("refused");
    let explanation = judge(&world);
    assert_eq!(explanation.broken_at(), None);
    let state = |hop: Hop, cluster: &str| {
        explanation.findings.iter().find(|one| one.hop == hop && one.cluster == cluster).unwrap().state
    };
    assert_eq!(state(Hop::Merge, "a"), State::Doubtful);
    assert_eq!(state(Hop::Import, "b"), State::Unknown);
}

#[test]
fn who_does_not_answer_may_know_what_nobody_else_does() {
    let member = |id: &str, facts| MemberSeen { id: id.to_owned(), context: Some(id.to_owned()), facts };
    let hub = |facts| HubSeen { context: "hub".into(), facts };
    let survey = |hub, members| Survey {
        now: NOW.parse().unwrap(),
        hub,
        members,
        others: vec![("hub".into(), "refused".into()), ("c".into(), "timed out".into())],
    };
    let answers = || member("a", Ok(MemberFacts::default()));
    let refused = || "refused".to_owned();
    let heard = survey(hub(Ok(HubFacts::default())), vec![answers()]);
    assert!(silent(&heard).is_empty(), "contexts of nobody say nothing of a service");
    let hub_known = survey(hub(Ok(HubFacts::default())), vec![answers(), member("b", Err(refused()))]);
    assert_eq!(silent(&hub_known), ["b: refused"]);
    let nobody = survey(hub(Err(refused())), vec![]);
    assert_eq!(silent(&nobody), ["hub: refused", "c: timed out"]);
}

#[test]
fn clusters_are_compared_side_by_side() {
    let held = judge(&world()).clusters;
    assert_eq!((held[0].exports, held[0].offers), (true, Some((1, 1))));
    assert_eq!((held[1].exports, held[1].offers), (false, None));
    assert_eq!(held[1].endpoints, [("a".to_owned(), 1, 1)]);
    assert_eq!(held[1].imports, Some(vec!["10.96.0.7".to_owned()]));
}
