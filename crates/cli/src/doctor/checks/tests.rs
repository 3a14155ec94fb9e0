//! What is well is good, and each thing that is not is found where it is.

use std::collections::BTreeMap;

use serde_json::{from_value, json};
use tombolo_api::tombolo::{Membership, MembershipSpec};
use tombolo_playground::Found;

use super::super::examine::read_date;
use super::super::tried::Tried;
use super::*;
use crate::survey::{HubFacts, HubSeen, MemberFacts, Seen};

fn membership(id: &str, cidrs: &[&str]) -> Membership {
    let pod_cidrs = cidrs.iter().map(|text| (*text).to_owned()).collect();
    let spec = MembershipSpec { cluster: id.to_owned(), pod_cidrs, ..MembershipSpec::default() };
    Membership::new("member", spec)
}

fn survey(memberships: Vec<Membership>) -> Survey {
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    let beat = from_value(json!({"spec": {"renewTime": "2026-01-01T00:00:58.000000Z"}})).unwrap();
    let id = |one: &Membership| one.spec.cluster.clone();
    let ids: Vec<String> = memberships.iter().map(id).collect();
    let heartbeats = ids.iter().map(|id| (format!("tombolo-{id}"), Clone::clone(&beat))).collect();
    let members = ids.iter().map(|id| MemberSeen {
        id: id.clone(),
        context: Some(id.clone()),
        facts: Ok(MemberFacts::default()),
    });
    let members = members.collect();
    let facts = HubFacts { memberships, heartbeats, ..HubFacts::default() };
    let hub = HubSeen { context: "hub".into(), facts: Ok(facts) };
    Survey { now, hub, members, others: Vec::new() }
}

fn granted(missing: Seen<Vec<String>>) -> Granted {
    Granted { part: "agent", file: "rules.yaml", missing }
}

fn healthy() -> Examined {
    let kinds = crd::crds().into_iter().map(|one| {
        let versions = one.spec.versions.iter().map(|version| version.name.clone()).collect();
        (one.name_any(), versions)
    });
    Examined {
        version: "v1.33.0".into(),
        ahead: Some(0.2),
        kinds: kinds.collect(),
        services: vec!["10.96.0.0/16".parse().unwrap()],
        rights: vec![granted(Ok(vec![]))],
    }
}

fn everything() -> (Survey, Examinations) {
    let survey = survey(vec![membership("a", &["10.1.0.0/16"]), membership("b", &["10.2.0.0/16"])]);
    let members = ["a", "b"].map(|context| (context.to_owned(), Ok(healthy())));
    (survey, Examinations { hub: Ok(healthy()), members: members.into() })
}

fn worst(checks: &[Check]) -> Vec<(&'static str, &str, Mark)> {
    checks
        .iter()
        .filter(|check| check.mark != Mark::Good)
        .map(|check| (check.about, check.cluster.as_str(), check.mark))
        .collect()
}

#[test]
fn where_all_is_well_every_check_is_good() {
    let (survey, examined) = everything();
    let checks = judge(&survey, &examined, None);
    assert_eq!(worst(&checks), []);
    assert!(checks.len() > 10, "{}", checks.len());
}

#[test]
fn each_thing_that_is_wrong_is_found_where_it_is_with_something_to_do() {
    type Break = fn(&mut Examined);
    let cases: [(&str, Break, Mark); 6] = [
        ("version", |one| one.version = "v1.30.3".into(), Mark::Bad),
        ("clock", |one| one.ahead = Some(-60.0), Mark::Doubtful),
        ("kinds", |one| drop(one.kinds.remove("serviceexports.multicluster.x-k8s.io")), Mark::Bad),
        (
            "kinds",
            |one| drop(one.kinds.insert("serviceimports.multicluster.x-k8s.io".into(), BTreeSet::new())),
            Mark::Bad,
        ),
        ("rights", |one| one.rights.push(granted(Ok(vec!["create services".into()]))), Mark::Bad),
        ("rights", |one| one.rights.push(granted(Err("forbidden".into()))), Mark::Doubtful),
    ];
    for (about, wrong, mark) in cases {
        let (survey, mut examined) = everything();
        let mut one = healthy();
        wrong(&mut one);
        examined.members.insert("b".into(), Ok(one));
        let checks = judge(&survey, &examined, None);
        assert_eq!(worst(&checks), [(about, "b", mark)], "{about}");
        assert!(checks.iter().filter(|check| check.mark != Mark::Good).all(|check| check.advice.is_some()));
    }
}

#[test]
fn a_hub_that_is_a_member_is_looked_at_as_both() {
    let (mut survey, mut examined) = everything();
    survey.hub.context = "b".to_owned();
    let lacking = |kind: &str, account: &str| {
        let mut one = healthy();
        one.kinds.remove(kind);
        one.rights = vec![granted(Ok(vec![account.to_owned()]))];
        Ok(one)
    };
    examined.hub = lacking("memberships.tombolo.dev", "patch memberships in tombolo-a");
    examined.members.insert("b".into(), lacking("serviceexports.multicluster.x-k8s.io", "create services"));
    let said = |what: &str| {
        let checks = judge(&survey, &examined, None);
        checks
            .iter()
            .any(|check| check.mark == Mark::Bad && check.cluster == "b" && check.what.contains(what))
    };
    for what in ["memberships.tombolo.dev", "memberships in", "serviceexports", "create services"] {
        assert!(said(what), "{what}");
    }
}

#[test]
fn networks_that_overlap_or_are_disputed_are_bad_and_undeclared_ones_doubtful() {
    let overlapping = survey(vec![
        membership("a", &["10.0.0.0/8"]),
        membership("b", &["10.2.0.0/16"]),
        membership("c", &[]),
    ]);
    let nothing = Examinations { hub: Err("nobody asked".to_owned()), members: BTreeMap::new() };
    let found = addresses(&overlapping, &nothing);
    assert_eq!(worst(&found), [("addresses", "c", Mark::Doubtful), ("addresses", "a", Mark::Bad)]);
    let one_cluster = survey(vec![membership("a", &["10.0.0.0/8", "10.1.0.0/16"])]);
    let found = addresses(&one_cluster, &nothing);
    assert_eq!(worst(&found), [], "within a cluster it is nobody's business");
    let (mut survey, examined) = everything();
    survey.hub.facts.as_mut().unwrap().memberships[1].spec.pod_cidrs = vec!["10.96.128.0/17".to_owned()];
    let found = addresses(&survey, &examined);
    assert_eq!(
        worst(&found),
        [("addresses", "a", Mark::Bad), ("addresses", "b", Mark::Bad)],
        "Services of both hide pods of b"
    );
    let (mut survey, examined) = everything();
    let place =
        json!({"metadata": {"name": "tombolo-b", "annotations": {"tombolo.dev/pod-cidrs": "10.3.0.0/16"}}});
    survey.hub.facts.as_mut().unwrap().places.push(from_value(place).unwrap());
    let found = addresses(&survey, &examined);
    assert_eq!(worst(&found), [("addresses", "b", Mark::Bad)], "its place says otherwise");
    let facts = survey.hub.facts.as_mut().unwrap();
    facts.memberships[1].spec.pod_cidrs = vec!["fd00:3::/64".to_owned(), "10.3.0.0/16".to_owned()];
    facts.places[0]
        .annotations_mut()
        .insert("tombolo.dev/pod-cidrs".into(), "10.3.0.0/16, fd00:3::/64".into());
    assert_eq!(worst(&addresses(&survey, &examined)), [], "the same in another order");
}

#[test]
fn a_silent_member_and_one_taken_for_dead_are_bad() {
    let (mut survey, examined) = everything();
    let late = from_value(json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})).unwrap();
    survey.hub.facts.as_mut().unwrap().heartbeats.insert("tombolo-b".into(), late);
    let lease = json!({"metadata": {"name": "tombolo-source.b"}, "spec": {"holderIdentity": ""}});
    survey.members[0].facts.as_mut().unwrap().source_leases.push(from_value(lease).unwrap());
    let checks = judge(&survey, &examined, None);
    assert_eq!(worst(&checks), [("way to others", "a", Mark::Bad), ("way to the hub", "b", Mark::Bad)]);
}

#[test]
fn ways_that_packets_do_not_go_and_parts_that_are_not_ready_are_bad() {
    let (survey, examined) = everything();
    let way = |from: &str, to: &str, outcome: Result<&str, &str>| Found {
        from: from.into(),
        to: to.into(),
        outcome: outcome.map(Into::into).map_err(Into::into),
    };
    let ready = ("a".to_owned(), "a agent".to_owned(), None);
    let mut tried =
        Tried { ways: Ok(vec![way("a", "b", Ok("fine")), way("b", "a", Ok("fine"))]), parts: vec![ready] };
    assert_eq!(worst(&judge(&survey, &examined, Some(&tried))), []);
    tried.ways = Ok(vec![way("a", "b", Err("timed out")), way("b", "a", Ok("fine"))]);
    tried.parts.push(("b".to_owned(), "b/node1 proxy".to_owned(), Some("caches".to_owned())));
    let checks = judge(&survey, &examined, Some(&tried));
    assert_eq!(worst(&checks), [("packets", "a", Mark::Bad), ("parts", "b", Mark::Bad)]);
    tried = Tried { ways: Err("gone".to_owned()), parts: Vec::new() };
    assert_eq!(worst(&judge(&survey, &examined, Some(&tried))), [("packets", "all", Mark::Doubtful)]);
}

#[test]
fn dates_of_answers_are_read() {
    let date = read_date("Thu, 01 Jan 2026 00:01:00 GMT").unwrap();
    assert_eq!(date, "2026-01-01T00:01:00Z".parse().unwrap());
    assert_eq!(read_date("yesterday"), None);
    assert_eq!(read_version("v1.33.0+tombolo"), Some((1, 33)));
    assert_eq!(read_version("soon"), None);
}
