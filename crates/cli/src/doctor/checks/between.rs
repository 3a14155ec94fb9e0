//! What lies between clusters: ways, packets, addresses.

use std::collections::BTreeSet;

use ipnet::IpNet;
use kube::ResourceExt as _;
use tombolo_model::names;

use super::super::examine::Examinations;
use super::super::tried::Tried;
use super::{Check, Mark};
use crate::span;
use crate::survey::{MemberSeen, Survey};

/// Whether the agent reaches the hub.
pub(super) fn heard(survey: &Survey, member: &MemberSeen) -> Check {
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
pub(super) fn neighbours(survey: &Survey, member: &MemberSeen) -> Vec<Check> {
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

/// Pods of different clusters must not share addresses, and no cluster may have Services where others have pods.
pub(super) fn addresses(survey: &Survey, examined: &Examinations) -> Vec<Check> {
    let Ok(hub) = &survey.hub.facts else { return Vec::new() };
    let mut checks = Vec::new();
    let mut networks: Vec<(&str, IpNet)> = Vec::new();
    for membership in &hub.memberships {
        let cluster = membership.spec.cluster.as_str();
        let (stated, granted) = (&membership.spec.pod_cidrs, hub.granted(cluster));
        let differ = stated.iter().collect::<BTreeSet<_>>() != granted.iter().collect();
        if !stated.is_empty() && !granted.is_empty() && differ {
            let (stated, granted) = (stated.join(","), granted.join(","));
            let what = format!("it declares {stated}, but its namespace at the hub says {granted}");
            checks.push(Check::new("addresses", cluster, Mark::Bad, what).advice(
                "others believe what the namespace says: `tombolo join` it again with the --pod-cidr that is right",
            ));
        }
        if membership.spec.pod_cidrs.is_empty() {
            checks.push(
                Check::new("addresses", cluster, Mark::Doubtful, "it declares no pod CIDRs")
                    .advice("run its agent with --pod-cidr: others then refuse endpoints outside of it"),
            );
        }
        networks
            .extend(membership.spec.pod_cidrs.iter().filter_map(|text| Some((cluster, text.parse().ok()?))));
    }
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
    checks.extend(hidden(survey, examined, &networks));
    if checks.is_empty() {
        checks.push(Check::new("addresses", "all", Mark::Good, "CIDRs do not overlap"));
    }
    checks
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Pods that a member cannot reach because it takes their addresses for those of its own Services.
fn hidden(survey: &Survey, examined: &Examinations, pods: &[(&str, IpNet)]) -> Vec<Check> {
    let mut checks = Vec::new();
    for member in &survey.members {
        let examined = member.context.as_ref().and_then(|context| examined.members.get(context));
        let Some(Ok(found)) = examined else { continue };
        for range in &found.services {
            for (other, network) in pods.iter().filter(|(_, network)| overlap(network, range)) {
                let what =
                    format!("its Services have {range}, which overlaps {network}, the pods of {other}");
                checks.push(Check::new("addresses", &member.id, Mark::Bad, what).advice(
                    "such pods cannot be reached from here: give one of the clusters other addresses",
                ));
            }
        }
    }
    checks
}

/// Whether packets go between pods of each two clusters, and come back.
pub(super) fn ways(tried: &Tried) -> impl Iterator<Item = Check> {
    let about = "packets";
    let found = match &tried.ways {
        Ok(found) => found.as_slice(),
        Err(_) => &[],
    };
    let unknown = tried.ways.as_ref().err().map(|why| {
        Check::new(about, "all", Mark::Doubtful, format!("nobody could try: {why}"))
            .advice("is the playground still running?")
    });
    let each = found.iter().map(move |way| match &way.outcome {
        Ok(_) => Check::new(about, &way.from, Mark::Good, format!("pods reach pods of {}", way.to)),
        Err(why) => {
            Check::new(about, &way.from, Mark::Bad, format!("pods do not reach pods of {}: {why}", way.to))
                .advice("pod networks must be routed between clusters, both ways; is a link cut?")
        }
    });
    unknown.into_iter().chain(each)
}

/// Whether everything that runs is ready.
pub(super) fn parts(tried: &Tried) -> impl Iterator<Item = Check> {
    let about = "parts";
    let waiting = tried.parts.iter().filter_map(move |(cluster, part, waits_for)| {
        let what = format!("{part} is not ready: {}", waits_for.as_ref()?);
        Some(Check::new(about, cluster, Mark::Bad, what).advice("its log says more: `tombolo -v up`"))
    });
    let all_ready = tried.parts.iter().all(|(_, _, waits_for)| waits_for.is_none());
    let fine = Check::new(about, "all", Mark::Good, format!("all {} are ready", tried.parts.len()));
    waiting.chain(all_ready.then_some(fine))
}
