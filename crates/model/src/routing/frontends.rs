//! The addresses of a Service, and what becomes of connections to each.
//!
//! Which policy holds is decided by the address a client uses, not by where the client is: the internal one for cluster
//! IPs, the external one for all others. Clients on this node reach any endpoint through an external address, as they
//! would without one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use ipnet::IpNet;
use tombolo_api::service::IpFamily;

use super::gathered::Gathered;
use super::node::Node;
use super::route::{Action, Claim, Frontend, FrontendKind, Reason, Route};
use super::selection::Selection;
use super::wanted::{Port, Wanted};
use crate::address::family_of;

/// The routes of one Service, gathered port by port.
pub(super) struct Frontends<'a> {
    wanted: &'a Wanted<'a>,
    node: &'a Node,
    routes: BTreeMap<Claim, Route>,
}

impl<'a> Frontends<'a> {
    pub(super) fn new(wanted: &'a Wanted<'a>, node: &'a Node) -> Frontends<'a> {
        Frontends { wanted, node, routes: BTreeMap::new() }
    }

    /// Adds the addresses of one port in the family of this cluster IP.
    pub(super) fn add(
        &mut self,
        cluster_ip: IpAddr,
        port: &Port<'_>,
        selected: &Selection,
        gathered: &mut Gathered,
    ) {
        let family = family_of(cluster_ip);
        let internal = if self.wanted.internal_local {
            selected.here(Reason::NoLocalInternal)
        } else {
            selected.anywhere()
        };
        self.insert(
            Route {
                frontend: frontend(FrontendKind::ClusterIp, family, Some(cluster_ip), port),
                port_name: port.name.to_owned(),
                action: internal,
                from_this_node: None,
                masquerade: false,
                allowed_sources: None,
            },
            gathered,
        );
        for (frontend, allowed) in self.external(family, port) {
            self.insert(self.external_route(frontend, allowed, port.name, selected), gathered);
        }
    }

    fn external(&self, family: IpFamily, port: &Port<'_>) -> Vec<(Frontend, Option<Vec<IpNet>>)> {
        let Frontends { wanted, node, .. } = *self;
        let allowed = wanted.ranges.allowed(family, &node.addresses, wanted.balancers(family));
        let balancers = wanted
            .serving(family, port)
            .map(|ip| (frontend(FrontendKind::LoadBalancer, family, Some(ip), port), allowed.clone()));
        let others = wanted
            .external(family)
            .map(|ip| (frontend(FrontendKind::ExternalIp, family, Some(ip), port), None));
        let node_port = port.node_port.map(|number| {
            (Frontend { port: number, ..frontend(FrontendKind::NodePort, family, None, port) }, None)
        });
        balancers.chain(others).chain(node_port).collect()
    }

    fn external_route(
        &self,
        frontend: Frontend,
        allowed_sources: Option<Vec<IpNet>>,
        port_name: &str,
        selected: &Selection,
    ) -> Route {
        let local = self.wanted.external_local;
        let anywhere = selected.anywhere();
        let (action, from_this_node) = match local {
            true => (selected.here(Reason::NoLocalExternal), Some(anywhere)),
            false => (anywhere, None),
        };
        Route {
            frontend,
            port_name: port_name.to_owned(),
            from_this_node: from_this_node.filter(|other: &Action| *other != action),
            action,
            // A node that sends traffic on has to hear the answers; with a local endpoint it does anyway.
            masquerade: !local,
            allowed_sources,
        }
    }

    /// Adds a route unless its address and port are taken. One address may be both external IP and the balancer's; then
    /// it is the balancer's, because that may be restricted.
    fn insert(&mut self, route: Route, gathered: &mut Gathered) {
        match self.routes.entry(route.frontend.claim()) {
            Entry::Vacant(entry) => {
                entry.insert(route);
            }
            Entry::Occupied(entry) => {
                let taken = entry.get().frontend.kind;
                if (taken, route.frontend.kind) == (FrontendKind::LoadBalancer, FrontendKind::ExternalIp) {
                    return;
                }
                let problem = "address and port used twice by the Service; the first use counts";
                gathered.note("spec.ports", problem, describe(&route.frontend));
            }
        }
    }

    pub(super) fn routes(self) -> Vec<Route> {
        let mut routes: Vec<Route> = self.routes.into_values().collect();
        routes.sort_by_key(|route| route.frontend);
        routes
    }
}

fn frontend(kind: FrontendKind, family: IpFamily, address: Option<IpAddr>, port: &Port<'_>) -> Frontend {
    Frontend { kind, family, address, protocol: port.protocol, port: port.number }
}

/// For people: `ClusterIP 10.0.0.1 port 80/TCP`.
pub(super) fn describe(frontend: &Frontend) -> String {
    let kind = match frontend.kind {
        FrontendKind::ClusterIp => "ClusterIP",
        FrontendKind::ExternalIp => "external IP",
        FrontendKind::LoadBalancer => "load balancer",
        FrontendKind::NodePort => "node port",
    };
    let Frontend { family, address, protocol, port, .. } = frontend;
    match address {
        Some(address) => format!("{kind} {address} port {port}/{protocol}"),
        None => format!("{kind} {port}/{protocol} ({family})"),
    }
}
