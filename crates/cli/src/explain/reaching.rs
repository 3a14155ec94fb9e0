//! The last stretch: from a name to an endpoint that answers.
//!
//! What DNS and proxies make of the objects is worked out with their code. Where somebody could ask the servers and try the
//! address, in a playground, what they really do counts, too.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tombolo_api::tombolo::Dialect;
use tombolo_model::names;
use tombolo_model::routing::{self, Action, FrontendKind, Imported, Input};

use super::finding::{Finding, Hop, State, last_written};
use super::picture::{Heard, Picture};
use crate::survey::{ImportSeen, MemberFacts, MemberSeen, count, imported_slices};

/// What all members hold of an import is as old as this.
fn since(facts: &MemberFacts, import: &ImportSeen, derived: Option<&Service>) -> Option<Timestamp> {
    let slices = imported_slices(facts, import).filter_map(last_written);
    slices.chain(derived.and_then(last_written)).max()
}

pub(super) fn judge(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    import: &ImportSeen,
) -> Vec<Finding> {
    let mut found = vec![dns(picture, member, facts, import)];
    if let Some(derived) = picture.derived_service(facts) {
        found.push(proxy(picture, member, facts, import, derived));
    }
    found.push(endpoints(picture, member, facts, import));
    found
}

fn dns(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts, import: &ImportSeen) -> Finding {
    let name = super::domain_name(picture.service, picture.edition);
    let unknown = |what: String| Finding::new(Hop::Dns, &member.id, State::Unknown, what);
    let answer = match picture.answers.names.get(&member.id) {
        None => return unknown("nobody asked".to_owned()),
        Some(Err(why)) => return unknown(format!("{name} cannot be worked out: {why}")),
        Some(Ok(answer)) => answer,
    };
    let context = member.context.as_deref().unwrap_or(&member.id);
    let advice = format!("`tombolo dns query --context {context} {name}` says why");
    if !is_right(answer, import) {
        let what = format!("{name} is {}, not {}", list(answer), list(&import.ips));
        let since = since(facts, import, picture.derived_service(facts));
        return Finding::broken(Hop::Dns, &member.id, what).since(since).advice(advice);
    }
    let fine = format!("{name} is {}", list(answer));
    let Some(heard) = picture.answers.heard.get(&member.id) else {
        return Finding::fine(Hop::Dns, &member.id, format!("{fine}, worked out from the cluster's objects"));
    };
    wrongly_told(heard, import).map_or_else(
        || Finding::fine(Hop::Dns, &member.id, format!("{fine}: so {} nodes were told", heard.names.len())),
        |(node, said)| {
            let what = format!("{fine} by the cluster's objects, but {node} {said}");
            let advice = waiting(heard, "dns").unwrap_or(advice);
            Finding::broken(Hop::Dns, &member.id, what).advice(advice)
        },
    )
}

fn is_right(answer: &[String], import: &ImportSeen) -> bool {
    if import.headless {
        return !answer.is_empty();
    }
    addresses(&import.ips) == addresses(answer)
}

/// As addresses: those of IPv6 may be written in more than one way. What is none stays what it says.
fn addresses(texts: &[String]) -> BTreeSet<Result<IpAddr, &str>> {
    texts.iter().map(|text| text.parse().map_err(|_| text.as_str())).collect()
}

/// The first node that the server told something else.
fn wrongly_told<'a>(heard: &'a Heard, import: &ImportSeen) -> Option<(&'a str, String)> {
    heard.names.iter().find_map(|(node, told)| match told {
        Ok(answer) if is_right(answer, import) => None,
        Ok(answer) => Some((node.as_str(), format!("was told {}", list(answer)))),
        Err(why) => Some((node.as_str(), format!("was told nothing: {why}"))),
    })
}

/// What a part of some kind waits for, which is the first thing to see to.
fn waiting(heard: &Heard, kind: &str) -> Option<String> {
    let is_it = |(name, _): &&(String, String)| name.ends_with(kind);
    heard.waiting.iter().find(is_it).map(|(name, what)| format!("{name} is not ready: {what}"))
}

/// What the proxies of all nodes do with the address: worked out as they do, and tried.
fn proxy(
    picture: &Picture<'_>,
    member: &MemberSeen,
    facts: &MemberFacts,
    import: &ImportSeen,
    derived: &Service,
) -> Finding {
    let routed = route(picture, member, facts, derived);
    let since = since(facts, import, Some(derived));
    if let Some((node, why)) = routed.refused.first() {
        let state = if routed.balanced.is_empty() { State::Broken } else { State::Doubtful };
        return Finding::new(Hop::Proxy, &member.id, state, format!("{node}: {why}"))
            .since(since)
            .advice(more_about(picture, member, node));
    }
    let counts: Vec<String> = routed.balanced.iter().map(usize::to_string).collect();
    let counts = if counts.is_empty() { "no".to_owned() } else { counts.join(" or ") };
    let fine = format!("{} nodes send it to {counts} endpoints", facts.nodes.len());
    let Some(heard) = picture.answers.heard.get(&member.id).filter(|heard| !heard.connections.is_empty())
    else {
        return Finding::fine(Hop::Proxy, &member.id, fine);
    };
    match heard.connections.iter().find_map(|(node, tried)| Some((node, tried.as_ref().err()?))) {
        None => Finding::fine(Hop::Proxy, &member.id, format!("{fine}, and each got a connection")),
        Some((node, why)) => {
            let what = format!("{fine} by the cluster's objects, but {node} got no connection: {why}");
            let node = node.rsplit('/').next().unwrap_or(node);
            let advice = waiting(heard, "proxy").unwrap_or_else(|| more_about(picture, member, node));
            Finding::broken(Hop::Proxy, &member.id, what).advice(advice)
        }
    }
}

fn more_about(picture: &Picture<'_>, member: &MemberSeen, node: &str) -> String {
    let context = member.context.as_deref().unwrap_or(&member.id);
    let derived = names::derived_service(picture.edition, picture.service);
    format!(
        "`tombolo proxy explain --context {context} --cluster-id {} --node-name {node} {}/{derived}` says more",
        member.id, picture.service.namespace
    )
}

/// What the nodes of a member do with an address.
#[derive(Default)]
struct Routed {
    /// Over how many endpoints it is spread.
    balanced: BTreeSet<usize>,
    /// Nodes that send it nowhere, and why.
    refused: Vec<(String, String)>,
}

fn route(picture: &Picture<'_>, member: &MemberSeen, facts: &MemberFacts, derived: &Service) -> Routed {
    let slices = picture.slices_of(facts, derived);
    let imported = match picture.edition {
        Dialect::Kep => facts.kep_imports.iter().find(|one| is_named(picture, *one)).map(Imported::kep),
        Dialect::Mcs => facts.mcs_imports.iter().find(|one| is_named(picture, *one)).map(Imported::mcs),
    };
    let region = picture.hub().and_then(|hub| hub.membership(&member.id)?.spec.region.clone());
    let mut routed = Routed::default();
    for node in &facts.nodes {
        let name = node.name_any();
        let node = routing::Node::read(node, member.id.parse().ok(), region.clone());
        let input =
            Input { service: derived, slices: slices.clone(), node: &node, imported: imported.as_ref() };
        let (routes, _) = routing::route(&input);
        for route in routes.routes.iter().filter(|route| route.frontend.kind == FrontendKind::ClusterIp) {
            match &route.action {
                Action::Balance(balance) => drop(routed.balanced.insert(balance.backends.len())),
                Action::Reject(_) | Action::Drop(_) => {
                    let lines = routing::explain(&input, &routes);
                    let why =
                        lines.into_iter().find(|line| line.contains("rejected") || line.contains("dropped"));
                    routed.refused.push((name.clone(), why.unwrap_or_default()));
                }
            }
        }
    }
    routed
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
    let since = since(facts, import, picture.derived_service(facts));
    Finding::broken(Hop::Endpoints, &member.id, what).since(since).advice(advice)
}

pub(super) fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
