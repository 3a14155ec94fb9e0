//! The first half of the way: from a Service to what all clusters agree on.

use kube::ResourceExt as _;
use tombolo_api::tombolo::Dialect;

use super::finding::{Finding, Hop, State, last_written};
use super::picture::Picture;
use crate::survey::{ExportSeen, MemberFacts, MemberSeen, count};

/// The hops of one member that exports.
pub(super) fn judge(picture: &Picture<'_>, member: &MemberSeen) -> Vec<Finding> {
    let facts = match &member.facts {
        Ok(facts) => facts,
        Err(why) => {
            let what = format!("it cannot be asked: {why}");
            let unknown = Finding::new(Hop::Service, &member.id, State::Unknown, what);
            return vec![unknown.advice("see --kubeconfig and --contexts"), offer(picture, member, None)];
        }
    };
    let export = picture.export(facts);
    let mut found = vec![service(picture, member, facts, export.as_ref())];
    found.extend(export.as_ref().map(|export| exported(picture, member, export)));
    found.push(offer(picture, member, Some(facts)));
    found.extend(export.iter().flat_map(|export| merged(picture, member, export)));
    found
}

fn service(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    export: Option<&ExportSeen>,
) -> Finding {
    let since = export.and_then(ExportSeen::valid).and_then(|valid| valid.since);
    let Some(service) = picture.own_service(facts) else {
        let advice = format!(
            "create it, or `{} delete serviceexport {}`",
            picture.kubectl(member),
            picture.service.name
        );
        return Finding::broken(Hop::Service, &member.id, "there is no Service of this name")
            .since(since)
            .advice(advice);
    };
    let spec = service.spec.clone().unwrap_or_default();
    if spec.type_.as_deref() == Some("ExternalName") {
        return Finding::broken(Hop::Service, &member.id, "the Service is only a name (ExternalName)")
            .since(since)
            .advice("export the Service behind that name");
    }
    let ports: Vec<String> = spec
        .ports
        .iter()
        .flatten()
        .map(|port| format!("{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP")))
        .collect();
    let (ready, all) = count(picture.slices_of(facts, service).into_iter());
    let address = spec.cluster_ip.unwrap_or_default();
    let what = format!("{address}, ports {}, {ready} of {all} endpoints ready", ports.join(" "));
    if ready == 0 {
        let since = picture.slices_of(facts, service).into_iter().filter_map(last_written).max();
        return Finding::new(Hop::Service, &member.id, State::Doubtful, what)
            .since(since.or(last_written(service)))
            .advice(format!("look at its pods: `{} get pods -o wide`", picture.kubectl(member)));
    }
    Finding::fine(Hop::Service, &member.id, what)
}

fn exported(picture: &Picture<'_>, member: &MemberSeen, export: &ExportSeen) -> Finding {
    let Some(valid) = export.valid() else {
        return Finding::broken(Hop::Export, &member.id, "its agent has said nothing about the export")
            .since(export.created)
            .advice("is the agent of this cluster running? `tombolo status` tells its heartbeat");
    };
    if valid.status != "True" {
        let advice = format!("`{} describe serviceexport {}`", picture.kubectl(member), export.name);
        return Finding::broken(Hop::Export, &member.id, &valid.message).since(valid.since).advice(advice);
    }
    Finding::fine(Hop::Export, &member.id, "the export is valid").since(valid.since)
}

fn offer(picture: &Picture<'_>, member: &MemberSeen, facts: Option<&MemberFacts>) -> Finding {
    let id = &member.id;
    let Some(hub) = picture.hub() else {
        let why = picture.survey.hub.facts.as_ref().err().cloned().unwrap_or_default();
        return Finding::new(Hop::Offer, id, State::Unknown, format!("the hub cannot be asked: {why}"))
            .advice("see --hub-context; while the hub is away everything stays as it is");
    };
    match hub.heartbeat(id) {
        None => {
            let since = facts.and_then(|facts| picture.export(facts)?.created);
            return Finding::broken(Hop::Offer, id, "the hub has never heard of this cluster")
                .since(since)
                .advice("start its agent, with an account at the hub (docs/agent.md)");
        }
        Some(beat) if beat.is_silent(picture.now()) => {
            let what =
                format!("silent for {} s: its endpoints are withdrawn elsewhere", beat.age(picture.now()));
            return Finding::broken(Hop::Offer, id, what)
                .since(Some(beat.at))
                .advice("is its agent running, and does it reach the hub?");
        }
        Some(_) => {}
    }
    let Some(offer) = picture.offer(id) else {
        let export = facts.and_then(|facts| picture.export(facts));
        let since = export.as_ref().and_then(ExportSeen::valid).and_then(|valid| valid.since);
        return Finding::broken(Hop::Offer, id, "there is no offer at the hub")
            .since(since.or(export.and_then(|export| export.created)))
            .advice(
                "look at the agent's log and at its rights at the hub (deploy/hub/member-roles.yaml and member-rbac.yaml)",
            );
    };
    let offered = count(picture.offered_slices(id).into_iter());
    let held = facts.and_then(|facts| picture.own_service(facts).map(|own| picture.slices_of(facts, own)));
    if let Some(held) = held.map(|slices| count(slices.into_iter())).filter(|held| *held != offered) {
        let what = format!(
            "the hub has {} of {} endpoints ready, the cluster {} of {}",
            offered.0, offered.1, held.0, held.1
        );
        return Finding::new(Hop::Offer, id, State::Doubtful, what)
            .advice("wait a second and look again; endpoints outside of --pod-cidr are not offered");
    }
    let what = format!("{} with {} of {} endpoints ready", offer.name_any(), offered.0, offered.1);
    Finding::fine(Hop::Offer, id, what)
}

/// What all clusters together make of the export: conflicts, and whether everybody has it.
fn merged(picture: &Picture<'_>, member: &MemberSeen, export: &ExportSeen) -> Vec<Finding> {
    let id = &member.id;
    let mut found = Vec::new();
    if let Some(conflict) = export.conflict().filter(|one| one.status == "True") {
        // In the first edition a conflict withdraws the service; in today's the oldest export wins.
        let state = if picture.edition == Dialect::Kep { State::Broken } else { State::Doubtful };
        let what = format!("{}: {}", conflict.reason, conflict.message);
        let advice =
            format!("make the Services agree: `{} edit service {}`", picture.kubectl(member), export.name);
        found.push(Finding::new(Hop::Merge, id, state, what).since(conflict.since).advice(advice));
    }
    match export.ready() {
        Some(ready) if ready.status == "True" => {
            found.push(Finding::fine(Hop::Merge, id, "every live member has it").since(ready.since));
        }
        Some(ready) if found.is_empty() => found.push(
            Finding::broken(Hop::Merge, id, &ready.message)
                .since(ready.since)
                .advice("look at the import in the cluster that is named, below"),
        ),
        _ => {}
    }
    found
}
