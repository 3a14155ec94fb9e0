//! The routes of a Service in words: which endpoints each address has, and why not the others.
//!
//! One line per address, then its endpoints, then the ones that are left out, each with the first reason that applies.
//! Long lists are cut: this is for a person.

use std::net::IpAddr;

use tombolo_api::service::SERVICE_PROXY_NAME_LABEL;

use super::endpoint::{Endpoint, Endpoints, State};
use super::frontends::describe;
use super::gathered::Gathered;
use super::route::{Action, Backend, Balance, Nearness, Reason, Route, Routes, Tier};
use super::wanted::other_proxy;
use super::{Input, Node};

/// As many endpoints of a kind as are told one by one.
const MOST_LINES: usize = 20;

/// What [`route()`](super::route()) made of the input, line by line.
pub fn explain(input: &Input<'_>, routes: &Routes) -> Vec<String> {
    let endpoints = Endpoints::read(&input.slices, input.node, &mut Gathered::default());
    let mut lines = Vec::new();
    if routes.routes.is_empty() {
        lines.push(match other_proxy(input.service) {
            Some(name) => format!("no routes: its label {SERVICE_PROXY_NAME_LABEL} leaves it to {name:?}"),
            None => {
                "no routes: the Service has no address (it is headless or only a name) or no ports".to_owned()
            }
        });
    }
    for route in &routes.routes {
        let Route { frontend, port_name, .. } = route;
        let of_port = endpoints.of(frontend.family, frontend.protocol, port_name);
        explain_route(route, of_port, input.node, &mut lines);
    }
    if let Some(check) = routes.health_check {
        let verdict = if check.local_endpoints > 0 { "healthy" } else { "unhealthy" };
        let count = check.local_endpoints;
        lines.push(format!("health check on port {}: {verdict}, {count} ready on this node", check.port));
    }
    lines
}

fn explain_route(route: &Route, endpoints: &[Endpoint<'_>], node: &Node, lines: &mut Vec<String>) {
    let port = if route.port_name.is_empty() { String::new() } else { format!(" ({})", route.port_name) };
    lines.push(format!("{}{port}: {}", describe(&route.frontend), outcome(&route.action)));
    if let Some(networks) = &route.allowed_sources {
        let networks: Vec<String> = networks.iter().map(|network| network.to_string()).collect();
        let who = if networks.is_empty() { "nobody".to_owned() } else { networks.join(", ") };
        lines.push(format!("  may connect: {who}"));
    }
    if route.masquerade {
        lines.push("  endpoints see the address of this node, not the client's".to_owned());
    }
    explain_endpoints(&route.action, endpoints, node, lines);
    if let Some(other) = &route.from_this_node {
        lines.push(format!("  from this node: {}", outcome(other)));
        explain_endpoints(other, endpoints, node, lines);
    }
}

fn outcome(action: &Action) -> String {
    match action {
        Action::Balance(Balance { backends, tier }) => {
            let plural = if backends.len() == 1 { "" } else { "s" };
            format!("{} endpoint{plural}, {}", backends.len(), why_these(tier))
        }
        Action::Reject(reason) => format!("rejected: {}", why_none(*reason)),
        Action::Drop(reason) => format!("dropped: {}", why_none(*reason)),
    }
}

fn why_these(tier: &Tier) -> String {
    match tier {
        Tier::All => "all that are ready".to_owned(),
        Tier::Local => "those on this node, as the traffic policy demands".to_owned(),
        Tier::Near(nearness) => format!("those for this {}", place(*nearness)),
        Tier::Topology(keys) => {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            format!("those that the topology keys allow ({} matched)", keys.join(", "))
        }
        Tier::Terminating => "those that serve while they terminate: none is ready".to_owned(),
    }
}

fn why_none(reason: Reason) -> &'static str {
    match reason {
        Reason::NoEndpoints => "no endpoint is ready anywhere",
        Reason::NoLocalInternal => "internalTrafficPolicy is Local and none is on this node, but elsewhere",
        Reason::NoLocalExternal => "externalTrafficPolicy is Local and none is on this node, but elsewhere",
        Reason::Topology => "there are endpoints, but topology keys or tombolo.dev/prefer allow none here",
    }
}

fn place(nearness: Nearness) -> &'static str {
    match nearness {
        Nearness::Node => "node",
        Nearness::Zone => "zone",
        Nearness::Region => "region",
        Nearness::Cluster => "cluster",
    }
}

fn explain_endpoints(action: &Action, endpoints: &[Endpoint<'_>], node: &Node, lines: &mut Vec<String>) {
    let used: &[Backend] = match action {
        Action::Balance(balance) => &balance.backends,
        _ => &[],
    };
    cut(lines, used.len(), used.iter().map(|backend| format!("  -> {}", tell(backend))));
    let key = |backend: &Backend| -> (IpAddr, u16) { (backend.address, backend.port) };
    let left_out = |endpoint: &&Endpoint<'_>| {
        used.binary_search_by_key(&(endpoint.address, endpoint.port), key).is_err()
    };
    let left: Vec<&Endpoint<'_>> = endpoints.iter().filter(left_out).collect();
    let told = left.iter().map(|endpoint| {
        format!("  not {}: {}", socket(endpoint.address, endpoint.port), why_not(endpoint, action, node))
    });
    cut(lines, left.len(), told);
}

fn cut(lines: &mut Vec<String>, count: usize, told: impl Iterator<Item = String>) {
    lines.extend(told.take(MOST_LINES));
    if count > MOST_LINES {
        lines.push(format!("  and {} more", count - MOST_LINES));
    }
}

fn tell(backend: &Backend) -> String {
    let mut text = socket(backend.address, backend.port);
    if let Some(source) = &backend.source {
        text += &format!(" of cluster {source}");
    }
    if backend.local {
        text += ", on this node";
    }
    if let Some(time) = backend.sticky {
        text += &format!(", keeps its clients for {} s", time.as_secs());
    }
    text
}

fn socket(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// The first reason that applies.
fn why_not(endpoint: &Endpoint<'_>, action: &Action, node: &Node) -> String {
    match endpoint.state {
        State::Unusable if endpoint.terminating => return "terminating and no longer serving".to_owned(),
        State::Unusable => return "not ready".to_owned(),
        State::Draining => {
            let last_resort = matches!(action, Action::Balance(Balance { tier: Tier::Terminating, .. }));
            if !last_resort && matches!(action, Action::Balance(_)) {
                return "terminating, and others are ready".to_owned();
            }
        }
        State::Ready => {}
    }
    match action {
        Action::Balance(Balance { tier: Tier::Near(nearness), .. }) => elsewhere(*nearness, endpoint, node),
        Action::Balance(Balance { tier: Tier::Topology(_), .. }) | Action::Reject(_) => {
            "not where topology keys or tombolo.dev/prefer allow it".to_owned()
        }
        _ if endpoint.remote => on_other_node(endpoint),
        _ => "farther away than others".to_owned(),
    }
}

fn elsewhere(nearness: Nearness, endpoint: &Endpoint<'_>, node: &Node) -> String {
    let theirs = match nearness {
        Nearness::Node => return on_other_node(endpoint),
        Nearness::Zone => endpoint.zone,
        Nearness::Region => endpoint.region,
        Nearness::Cluster => endpoint.source.as_ref().map(|source| source.as_str()),
    };
    let ours = match nearness {
        Nearness::Zone => node.zone(),
        Nearness::Region => node.region(),
        _ => None,
    };
    let kind = place(nearness);
    match theirs {
        None => format!("its {kind} is not known"),
        // Hints may send a zone's clients elsewhere; and zones of different regions may share a name.
        Some(name) if Some(name) == ours => format!("{kind} {name}, but not for this node"),
        Some(name) => format!("other {kind}, {name}"),
    }
}

fn on_other_node(endpoint: &Endpoint<'_>) -> String {
    match (endpoint.node, &endpoint.source) {
        (Some(node), _) => format!("on another node, {node}"),
        (None, Some(source)) => format!("on another node, in cluster {source}"),
        (None, None) => "on no node that is known".to_owned(),
    }
}
