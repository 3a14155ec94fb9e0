//! The second half of the way: from what all clusters agree on to an endpoint that answers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::kep::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::Dialect;
use tombolo_model::names;
use tombolo_model::routing::{self, Action, FrontendKind, Imported, Input};

use super::finding::{Finding, Hop, State};
use super::picture::Picture;
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
    let mut found = vec![imported(member, &import)];
    found.push(vip(picture, member, facts, &import));
    found.extend(slices(picture, member, facts, &import));
    found.push(dns(picture, member, &import));
    if let Some(derived) = picture.derived_service(facts) {
        found.push(proxy(picture, member, facts, derived));
    }
    found.push(endpoints(picture, member, facts, &import));
    found
}

fn no_import(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts) -> Finding {
    let namespace = &picture.service.namespace;
    if !facts.namespaces.iter().any(|one| one.name_any() == *namespace) {
        let advice = format!(
            "`kubectl --context {} create namespace {namespace}`, or run its agent with --create-namespaces",
            member.context.as_deref().unwrap_or(&member.id)
        );
        let what = format!("there is no namespace {namespace}, so nothing is imported into it");
        return Finding::broken(Hop::Import, &member.id, what).advice(advice);
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
            Finding::broken(Hop::Import, &member.id, what).advice("mend what the message names")
        }
        None => Finding::broken(Hop::Import, &member.id, "there is no import").advice(
            "is its agent running? `tombolo status` tells its heartbeat; in the first edition a conflict \
             withdraws the import",
        ),
    }
}

fn imported(member: &MemberSeen, import: &ImportSeen) -> Finding {
    if let Some(ready) = import.ready.as_ref().filter(|ready| ready.status != "True") {
        let what = format!("{}: {}", ready.reason, ready.message);
        return Finding::broken(Hop::Import, &member.id, what).since(ready.since);
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
            .advice("wait a second and look again; else see the agent's log");
    }
    Finding::fine(Hop::Vip, id, format!("{} (Service {})", list(&held), derived.name_any()))
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
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
        return Finding::broken(Hop::Slices, &member.id, what)
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

fn dns(picture: &Picture<'_>, member: &MemberSeen, import: &ImportSeen) -> Finding {
    let name = super::domain_name(picture.service, picture.edition);
    let answer = match picture.answers.get(&member.id) {
        None => return Finding::new(Hop::Dns, &member.id, State::Unknown, "nobody asked"),
        Some(Err(why)) => {
            return Finding::new(
                Hop::Dns,
                &member.id,
                State::Unknown,
                format!("{name} cannot be worked out: {why}"),
            );
        }
        Some(Ok(answer)) => answer,
    };
    let expected: BTreeSet<&String> = import.ips.iter().collect();
    let is_right = match import.headless {
        true => !answer.is_empty(),
        false => expected == answer.iter().collect::<BTreeSet<_>>(),
    };
    if !is_right {
        let what = format!("{name} is {}, not {}", list(answer), list(&import.ips));
        let context = member.context.as_deref().unwrap_or(&member.id);
        return Finding::broken(Hop::Dns, &member.id, what)
            .advice(format!("`tombolo dns query --context {context} {name}` says why"));
    }
    Finding::fine(Hop::Dns, &member.id, format!("{name} is {}", list(answer)))
}

/// What the proxies of all nodes do with the address, worked out as they do.
fn proxy(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts, derived: &Service) -> Finding {
    let slices = picture.slices_of(facts, derived);
    let imported = match picture.edition {
        Dialect::Kep => facts.kep_imports.iter().find(|one| is_named(picture, *one)).map(Imported::kep),
        Dialect::Mcs => facts.mcs_imports.iter().find(|one| is_named(picture, *one)).map(Imported::mcs),
    };
    let (mut balanced, mut refused) = (BTreeSet::new(), Vec::new());
    for node in &facts.nodes {
        let region = picture.hub().and_then(|hub| hub.membership(&member.id)?.spec.region.clone());
        let name = node.name_any();
        let node = routing::Node::read(node, member.id.parse().ok(), region);
        let input =
            Input { service: derived, slices: slices.clone(), node: &node, imported: imported.as_ref() };
        let (routes, _) = routing::route(&input);
        for route in routes.routes.iter().filter(|route| route.frontend.kind == FrontendKind::ClusterIp) {
            match &route.action {
                Action::Balance(balance) => {
                    balanced.insert(balance.backends.len());
                }
                Action::Reject(_) | Action::Drop(_) => {
                    let lines = routing::explain(&input, &routes);
                    let why =
                        lines.into_iter().find(|line| line.contains("rejected") || line.contains("dropped"));
                    refused.push((name.clone(), why.unwrap_or_default()));
                }
            }
        }
    }
    tell_proxies(picture, member, facts.nodes.len(), &balanced, &refused)
}

fn tell_proxies(
    picture: &Picture<'_>,
    member: &MemberSeen,
    nodes: usize,
    balanced: &BTreeSet<usize>,
    refused: &[(String, String)],
) -> Finding {
    let Some((node, why)) = refused.first() else {
        let counts: Vec<String> = balanced.iter().map(usize::to_string).collect();
        let what = format!(
            "{nodes} nodes send it to {} endpoints",
            if counts.is_empty() { "no".into() } else { counts.join(" or ") }
        );
        return Finding::fine(Hop::Proxy, &member.id, what);
    };
    let state = if balanced.is_empty() { State::Broken } else { State::Doubtful };
    let what = format!("{node}: {why}");
    let context = member.context.as_deref().unwrap_or(&member.id);
    let derived = names::derived_service(picture.edition, picture.service);
    Finding::new(Hop::Proxy, &member.id, state, what).advice(format!(
        "`tombolo proxy explain --context {context} --cluster-id {} --node-name {node} {}/{derived}` says more",
        member.id, picture.service.namespace
    ))
}

fn is_named<K: kube::Resource>(picture: &Picture<'_>, object: &K) -> bool {
    picture.is_it(&object.namespace().unwrap_or_default(), &object.name_any())
}

fn endpoints(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    import: &ImportSeen,
) -> Finding {
    let (ready, all) = count(imported_slices(facts, import));
    if ready > 0 {
        return Finding::fine(Hop::Endpoints, &member.id, format!("{ready} of {all} are ready"));
    }
    let what = match all {
        0 => "there are none".to_owned(),
        _ => format!("none of {all} is ready"),
    };
    let contexts: Vec<&str> = picture.exporters().iter().filter_map(|one| one.context.as_deref()).collect();
    let advice = format!(
        "look at the pods behind it: `kubectl --context {} -n {} get pods -o wide`",
        contexts.first().copied().unwrap_or("MEMBER"),
        picture.service.namespace
    );
    Finding::broken(Hop::Endpoints, &member.id, what).advice(advice)
}
