//! What is to be thought of what was found. Pure.

use std::collections::BTreeSet;

use ipnet::IpNet;
use kube::ResourceExt as _;
use tombolo_api::crd;
use tombolo_model::names;

use super::examine::{Examinations, Examined};
use crate::span;
use crate::survey::{MemberSeen, Survey};

/// Clocks that differ by more make times in conditions hard to read. Liveness never compares clocks.
const MOST_SECONDS_APART: f64 = 5.0;
/// What the hub's API server needs beyond what a member does, or instead of it.
const AT_HUB: [&str; 2] = ["memberships.tombolo.dev", "serviceoffers.tombolo.dev"];
/// Only needed for `tombolo hub`.
const FOR_HUB_PART: [&str; 3] =
    ["clusters.cluster.karmada.io", "multiclusterservices.networking.karmada.io", "works.work.karmada.io"];
/// The oldest Kubernetes that has everything: `discovery.k8s.io/v1`, CEL in definitions by default.
const OLDEST: (u32, u32) = (1, 25);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Doubtful,
    Bad,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Check {
    pub(super) about: &'static str,
    pub(super) cluster: String,
    pub(super) mark: Mark,
    pub(super) what: String,
    pub(super) advice: Option<String>,
}

impl Check {
    fn new(about: &'static str, cluster: &str, mark: Mark, what: impl Into<String>) -> Self {
        Self { about, cluster: cluster.to_owned(), mark, what: what.into(), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

pub(super) fn judge(survey: &Survey, examined: &Examinations) -> Vec<Check> {
    let mut checks = hub(survey, examined);
    for member in &survey.members {
        checks.extend(one_member(survey, member, examined));
    }
    checks.extend(agents(survey));
    checks.extend(addresses(survey));
    checks
}

fn hub(survey: &Survey, examined: &Examinations) -> Vec<Check> {
    let context = &survey.hub.context;
    let found = match examined.get(context) {
        Some(Ok(found)) => found,
        Some(Err(why)) => return vec![away(context, why)],
        None => return vec![away(context, "nobody asked")],
    };
    let mut checks = server(context, found);
    checks.push(kinds(context, found, &AT_HUB));
    let missing: Vec<&str> =
        FOR_HUB_PART.into_iter().filter(|kind| !found.kinds.contains_key(*kind)).collect();
    if !missing.is_empty() {
        let what = format!("not there: {}", missing.join(", "));
        checks.push(
            Check::new("kinds", context, Mark::Doubtful, what)
                .advice("MultiClusterServices need them; `kubectl apply -f deploy/crds` at the hub"),
        );
    }
    checks.push(rights(context, found, "deploy/hub/member-rbac.yaml, for each member"));
    checks
}

fn away(context: &str, why: &str) -> Check {
    Check::new("answers", context, Mark::Bad, why).advice("see --kubeconfig, --hub-context and --contexts")
}

fn one_member(survey: &Survey, member: &MemberSeen, examined: &Examinations) -> Vec<Check> {
    let mut checks = vec![heard(survey, member)];
    let context = match (&member.context, &member.facts) {
        (Some(context), Ok(_)) => context,
        (_, facts) => {
            let why = facts.as_ref().err().cloned().unwrap_or_default();
            checks.push(away(&member.id, &why));
            return checks;
        }
    };
    match examined.get(context) {
        Some(Ok(found)) => {
            checks.extend(server(&member.id, found));
            let all = crd::crds().iter().map(|one| one.name_any()).collect::<Vec<_>>();
            let needed: Vec<&str> = all
                .iter()
                .map(String::as_str)
                .filter(|kind| !AT_HUB.contains(kind) && !FOR_HUB_PART.contains(kind))
                .filter(|kind| !kind.starts_with("addresspools"))
                .collect();
            checks.push(kinds(&member.id, found, &needed));
            checks.push(rights(&member.id, found, "deploy/member/agent-rbac.yaml"));
        }
        Some(Err(why)) => checks.push(away(&member.id, why)),
        None => {}
    }
    checks.extend(neighbours(survey, member));
    checks
}

fn server(cluster: &str, found: &Examined) -> Vec<Check> {
    let version = match read_version(&found.version) {
        Some(version) if version < OLDEST => {
            let what = format!("Kubernetes {} is too old", found.version);
            Check::new("version", cluster, Mark::Bad, what)
                .advice(format!("{}.{} or later is needed", OLDEST.0, OLDEST.1))
        }
        _ => Check::new("version", cluster, Mark::Good, format!("Kubernetes {}", found.version)),
    };
    let clock = match found.ahead {
        Some(ahead) if ahead.abs() > MOST_SECONDS_APART => {
            let way = if ahead > 0.0 { "ahead of" } else { "behind" };
            let what = format!("{:.0} s {way} this computer's", ahead.abs());
            Check::new("clock", cluster, Mark::Doubtful, what)
                .advice("run NTP; liveness does not depend on clocks, but times in conditions mislead")
        }
        Some(_) => Check::new("clock", cluster, Mark::Good, "as this computer's"),
        None => Check::new("clock", cluster, Mark::Doubtful, "the server does not tell the time"),
    };
    vec![version, clock]
}

fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn kinds(cluster: &str, found: &Examined, needed: &[&str]) -> Check {
    let expected = crd::crds();
    let served = |name: &str| -> BTreeSet<String> {
        let definition = expected.iter().find(|one| one.name_any() == name);
        let versions = definition.iter().flat_map(|one| &one.spec.versions);
        versions.filter(|version| version.served).map(|version| version.name.clone()).collect()
    };
    let wrong: Vec<String> = needed
        .iter()
        .filter_map(|name| match found.kinds.get(*name) {
            None => Some(format!("{name} is missing")),
            Some(versions) if !served(name).is_subset(versions) => Some(format!("{name} is another version")),
            Some(_) => None,
        })
        .collect();
    if wrong.is_empty() {
        return Check::new("kinds", cluster, Mark::Good, format!("all {} are there", needed.len()));
    }
    Check::new("kinds", cluster, Mark::Bad, wrong.join(", ")).advice("`kubectl apply -f deploy/crds`")
}

fn rights(cluster: &str, found: &Examined, file: &str) -> Check {
    match &found.forbidden {
        Ok(missing) if missing.is_empty() => {
            Check::new("rights", cluster, Mark::Good, "the agent may do what it must")
        }
        Ok(missing) => {
            let what = format!("the agent may not: {}", missing.join(", "));
            Check::new("rights", cluster, Mark::Bad, what).advice(format!("`kubectl apply -f {file}`"))
        }
        Err(why) => Check::new("rights", cluster, Mark::Doubtful, format!("they cannot be looked up: {why}"))
            .advice("only administrators may ask what others may do"),
    }
}

/// Whether the agent reaches the hub.
fn heard(survey: &Survey, member: &MemberSeen) -> Check {
    let about = "way to the hub";
    let Ok(hub) = &survey.hub.facts else {
        return Check::new(about, &member.id, Mark::Doubtful, "the hub cannot be asked");
    };
    match hub.heartbeat(&member.id) {
        None => Check::new(about, &member.id, Mark::Bad, "the hub has never heard its agent")
            .advice("start `tombolo agent` there (docs/agent.md)"),
        Some(beat) if beat.is_silent(survey.now) => {
            let what = format!("the hub last heard its agent {} ago", span::tell(beat.age(survey.now)));
            Check::new(about, &member.id, Mark::Bad, what)
                .advice("is the agent running, and does it reach the hub's API server?")
        }
        Some(_) => Check::new(about, &member.id, Mark::Good, "the hub hears its agent"),
    }
}

/// Whom a member takes for dead although the hub hears them.
fn neighbours(survey: &Survey, member: &MemberSeen) -> Vec<Check> {
    let about = "way to others";
    let Ok(facts) = &member.facts else { return Vec::new() };
    let others = survey.members.iter().filter(|other| other.id != member.id);
    let dead: Vec<&str> = others
        .filter(|other| {
            let Ok(id) = other.id.parse() else { return false };
            let name = names::source_lease(&id);
            let lease = facts.source_leases.iter().find(|lease| lease.name_any() == name);
            lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref()) == Some("")
        })
        .map(|other| other.id.as_str())
        .collect();
    if dead.is_empty() {
        return vec![Check::new(about, &member.id, Mark::Good, "it takes nobody for dead")];
    }
    let what = format!("it takes {} for dead and uses none of its endpoints", dead.join(", "));
    vec![Check::new(about, &member.id, Mark::Bad, what).advice("see the way of that cluster to the hub")]
}

/// Agents of one supercluster should be of one version.
fn agents(survey: &Survey) -> Vec<Check> {
    let Ok(hub) = &survey.hub.facts else { return Vec::new() };
    let versions: BTreeSet<&str> =
        hub.memberships.iter().filter_map(|one| one.status.as_ref()?.agent_version.as_deref()).collect();
    let told: Vec<&str> = versions.iter().copied().collect();
    match told.as_slice() {
        [] => Vec::new(),
        [one] if *one == env!("CARGO_PKG_VERSION") => {
            vec![Check::new("agents", "all", Mark::Good, format!("version {one}, as this program"))]
        }
        _ => vec![
            Check::new("agents", "all", Mark::Doubtful, format!("versions {}", told.join(", ")))
                .advice(format!("this program is {}; update what is older", env!("CARGO_PKG_VERSION"))),
        ],
    }
}

/// Pods of different clusters must not share addresses.
fn addresses(survey: &Survey) -> Vec<Check> {
    let Ok(hub) = &survey.hub.facts else { return Vec::new() };
    let mut checks = Vec::new();
    let mut networks: Vec<(&str, IpNet)> = Vec::new();
    for membership in &hub.memberships {
        let cluster = membership.spec.cluster.as_str();
        if membership.spec.pod_cidrs.is_empty() {
            checks.push(
                Check::new("addresses", cluster, Mark::Doubtful, "it declares no pod CIDRs")
                    .advice("run its agent with --pod-cidr: others then refuse endpoints outside of it"),
            );
        }
        networks
            .extend(membership.spec.pod_cidrs.iter().filter_map(|text| Some((cluster, text.parse().ok()?))));
    }
    let overlap = |a: &IpNet, b: &IpNet| a.contains(b) || b.contains(a);
    for (place, (cluster, network)) in networks.iter().enumerate() {
        for (other, range) in networks[place + 1..].iter().filter(|(other, _)| other != cluster) {
            if overlap(network, range) {
                let what = format!("{network} of {cluster} overlaps {range} of {other}");
                checks.push(
                    Check::new("addresses", cluster, Mark::Bad, what).advice(
                        "pods of both cannot be told apart: give one of the clusters other addresses",
                    ),
                );
            }
        }
    }
    if checks.is_empty() {
        checks.push(Check::new("addresses", "all", Mark::Good, "pod CIDRs do not overlap"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};
    use tombolo_api::tombolo::{Membership, MembershipSpec};

    use super::super::examine::read_date;
    use super::*;
    use crate::survey::{HubFacts, HubSeen, MemberFacts};

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

    fn healthy() -> Examined {
        let kinds = crd::crds().into_iter().map(|one| {
            let versions = one.spec.versions.iter().map(|version| version.name.clone()).collect();
            (one.name_any(), versions)
        });
        Examined {
            version: "v1.33.0".into(),
            ahead: Some(0.2),
            kinds: kinds.collect(),
            forbidden: Ok(Vec::new()),
        }
    }

    fn everything() -> (Survey, Examinations) {
        let survey = survey(vec![membership("a", &["10.1.0.0/16"]), membership("b", &["10.2.0.0/16"])]);
        let examined = ["hub", "a", "b"].map(|context| (context.to_owned(), Ok(healthy())));
        (survey, examined.into())
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
        let checks = judge(&survey, &examined);
        assert_eq!(worst(&checks), []);
        assert!(checks.len() > 10, "{}", checks.len());
    }

    #[test]
    fn each_thing_that_is_wrong_is_found_where_it_is_with_something_to_do() {
        type Break = fn(&mut Examined);
        let cases: [(&str, Break, Mark); 6] = [
            ("version", |one| one.version = "v1.20.3".into(), Mark::Bad),
            ("clock", |one| one.ahead = Some(-60.0), Mark::Doubtful),
            ("kinds", |one| drop(one.kinds.remove("serviceexports.multicluster.x-k8s.io")), Mark::Bad),
            (
                "kinds",
                |one| drop(one.kinds.insert("serviceimports.multicluster.x-k8s.io".into(), BTreeSet::new())),
                Mark::Bad,
            ),
            ("rights", |one| one.forbidden = Ok(vec!["create services".into()]), Mark::Bad),
            ("rights", |one| one.forbidden = Err("forbidden".into()), Mark::Doubtful),
        ];
        for (about, wrong, mark) in cases {
            let (survey, mut examined) = everything();
            let mut one = healthy();
            wrong(&mut one);
            examined.insert("b".into(), Ok(one));
            let checks = judge(&survey, &examined);
            assert_eq!(worst(&checks), [(about, "b", mark)], "{about}");
            assert!(
                checks.iter().filter(|check| check.mark != Mark::Good).all(|check| check.advice.is_some())
            );
        }
    }

    #[test]
    fn networks_that_overlap_are_bad_and_undeclared_ones_doubtful() {
        let overlapping = survey(vec![
            membership("a", &["10.0.0.0/8"]),
            membership("b", &["10.2.0.0/16"]),
            membership("c", &[]),
        ]);
        let found = addresses(&overlapping);
        assert_eq!(worst(&found), [("addresses", "c", Mark::Doubtful), ("addresses", "a", Mark::Bad)]);
        let one_cluster = survey(vec![membership("a", &["10.0.0.0/8", "10.1.0.0/16"])]);
        assert_eq!(worst(&addresses(&one_cluster)), [], "within a cluster it is nobody's business");
    }

    #[test]
    fn a_silent_member_and_one_taken_for_dead_are_bad() {
        let (mut survey, examined) = everything();
        let late = from_value(json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})).unwrap();
        survey.hub.facts.as_mut().unwrap().heartbeats.insert("tombolo-b".into(), late);
        let lease = json!({"metadata": {"name": "tombolo-source.b"}, "spec": {"holderIdentity": ""}});
        survey.members[0].facts.as_mut().unwrap().source_leases.push(from_value(lease).unwrap());
        let checks = judge(&survey, &examined);
        assert_eq!(worst(&checks), [("way to others", "a", Mark::Bad), ("way to the hub", "b", Mark::Bad)]);
    }

    #[test]
    fn dates_of_answers_are_read() {
        let date = read_date("Thu, 01 Jan 2026 00:01:00 GMT").unwrap();
        assert_eq!(date, "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(read_date("yesterday"), None);
        assert_eq!(read_version("v1.33.0+tombolo"), Some((1, 33)));
        assert_eq!(read_version("soon"), None);
    }
}
