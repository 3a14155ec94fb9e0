//! The second half of the way: from what all clusters agree on to what a member holds of it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::kep::SOURCE_CLUSTER_LABEL;
use tombolo_model::names;

use super::finding::{Finding, Hop, State, last_written};
use super::picture::Picture;
use super::reaching::{self, list};
use crate::survey::{ImportSeen, MemberFacts, MemberSeen, count, imported_slices};

/// The hops of one member that consumes.
pub(super) fn judge(picture: &Picture<'_>, member: &MemberSeen) -> Vec<Finding> {
    let Ok(facts) = &member.facts else {
        let why = member.facts.as_ref().err().cloned().unwrap_or_default();
        let unknown =
            Finding::new(Hop::Import, &member.id, State::Unknown, format!("it cannot be asked: {why}"));
        return vec![unknown.advice("see --kubeconfig and --contexts")];
    };
    let Some(import) = picture.import(facts) else { return vec![no_import(picture, member, facts)] };
    let mut found = vec![imported(picture, member, &import)];
    found.push(vip(picture, member, facts, &import));
    found.extend(slices(picture, member, facts, &import));
    found.extend(reaching::judge(picture, member, facts, &import));
    found
}

fn no_import(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts) -> Finding {
    let namespace = &picture.service.namespace;
    // It could have been imported since the first offer of it.
    let since = picture.exporters().iter().filter_map(|one| last_written(picture.offer(&one.id)?)).min();
    if !facts.namespaces.iter().any(|one| one.name_any() == *namespace) {
        let advice = format!(
            "`kubectl --context {} create namespace {namespace}`, or run its agent with --create-namespaces",
            member.context.as_deref().unwrap_or(&member.id)
        );
        let what = format!("there is no namespace {namespace}, so nothing is imported into it");
        return Finding::broken(Hop::Import, &member.id, what).since(since).advice(advice);
    }
    let status = picture.hub().and_then(|hub| hub.membership(&member.id)?.status.as_ref());
    let failure = status.and_then(|status| {
        let is_it = |one: &&tombolo_api::tombolo::Failure| {
            one.dialect == picture.edition && picture.is_it(&one.namespace, &one.name)
        };
        status.failures.iter().find(is_it)
    });
    match failure {
        Some(failure) => {
            let what = format!("it could not be imported: {}: {}", failure.reason, failure.message);
            Finding::broken(Hop::Import, &member.id, what).since(since).advice("mend what the message names")
        }
        None => Finding::broken(Hop::Import, &member.id, "there is no import").since(since).advice(
            "is its agent running? `tombolo status` tells its heartbeat; in the first edition a conflict \
             withdraws the import",
        ),
    }
}

fn imported(picture: &Picture<'_>, member: &MemberSeen, import: &ImportSeen) -> Finding {
    if let Some(ready) = import.ready.as_ref().filter(|ready| ready.status != "True") {
        let what = format!("{}: {}", ready.reason, ready.message);
        let advice = format!("`{} describe serviceimport {}`", picture.kubectl(member), import.name);
        return Finding::broken(Hop::Import, &member.id, what).since(ready.since).advice(advice);
    }
    let since = import.ready.as_ref().and_then(|ready| ready.since);
    Finding::fine(Hop::Import, &member.id, format!("from {}", import.sources.join(", "))).since(since)
}

fn vip(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts, import: &ImportSeen) -> Finding {
    let id = &member.id;
    if import.headless {
        return Finding::fine(Hop::Vip, id, "headless: names lead to the endpoints themselves");
    }
    let Some(derived) = picture.derived_service(facts) else {
        return Finding::broken(Hop::Vip, id, "the Service that holds the address is missing")
            .since(import.written)
            .advice("the agent makes it; look at its log and its rights");
    };
    let held = derived.spec.as_ref().and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
    if held.is_empty() || held != import.ips {
        let what = format!(
            "the import says {}, Service {} has {}",
            list(&import.ips),
            derived.name_any(),
            list(&held)
        );
        return Finding::broken(Hop::Vip, id, what)
            .since(last_written(derived).max(import.written))
            .advice("wait a second and look again; else see the agent's log");
    }
    Finding::fine(Hop::Vip, id, format!("{} (Service {})", list(&held), derived.name_any()))
}

fn slices(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    import: &ImportSeen,
) -> Vec<Finding> {
    let exporters = picture.exporters();
    let sources: BTreeSet<&str> = import
        .sources
        .iter()
        .map(String::as_str)
        .chain(exporters.iter().map(|member| member.id.as_str()))
        .collect();
    sources.into_iter().map(|source| slices_from(picture, member, facts, import, source)).collect()
}

fn slices_from(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    import: &ImportSeen,
    source: &str,
) -> Finding {
    let is_from = |slice: &&EndpointSlice| {
        slice.labels().get(SOURCE_CLUSTER_LABEL).is_some_and(|cluster| cluster == source)
    };
    let held: Vec<&EndpointSlice> = imported_slices(facts, import).filter(is_from).collect();
    let (ready, all) = count(held.iter().copied());
    if let Some(since) = ran_out(facts, source).filter(|_| source != member.id) {
        let what = format!("nothing from {source}: its lease ran out");
        return Finding::broken(Hop::Slices, &member.id, what)
            .since(since)
            .advice(format!("is {source} cut off from the hub? `tombolo status` tells its heartbeat"));
    }
    let offered = count(picture.offered_slices(source).into_iter());
    if held.is_empty() && offered.1 > 0 {
        let what = format!("{} endpoints of {source} have not arrived", offered.1);
        let since = picture.offered_slices(source).into_iter().filter_map(last_written).max();
        return Finding::broken(Hop::Slices, &member.id, what)
            .since(since)
            .advice("wait a second and look again; addresses outside of the source's CIDRs are refused");
    }
    let what = format!("from {source}: {ready} of {all} endpoints ready");
    if picture.hub().is_some() && (ready, all) != offered {
        let what = format!("{what}, the hub has {} of {}", offered.0, offered.1);
        return Finding::new(Hop::Slices, &member.id, State::Doubtful, what)
            .advice("wait a second and look again");
    }
    Finding::fine(Hop::Slices, &member.id, what)
}

/// When the lease of a source was last renewed, if it has run out.
fn ran_out(facts: &MemberFacts, source: &str) -> Option<Option<Timestamp>> {
    let name = names::source_lease(&source.parse().ok()?);
    let lease: &Lease = facts.source_leases.iter().find(|lease| lease.name_any() == name)?;
    let spec = lease.spec.as_ref()?;
    let released = spec.holder_identity.as_deref() == Some("");
    released.then(|| spec.renew_time.as_ref().map(|time| time.0))
}
