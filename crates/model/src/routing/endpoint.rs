//! The endpoints of a Service, read from its slices: one per address and port, however many slices name it.
//!
//! Only the first address of an endpoint counts, and of ports only those with a name and a number, as the API defines. If
//! two slices (or two clusters with the same pod network) name one address and port, the better word wins: not terminating
//! before terminating, then ready, then here; the order of the slices does not matter.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{self, EndpointConditions, EndpointSlice};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::{IpFamily, MANAGED_BY_LABEL, Protocol};
use tombolo_api::tombolo::{REGION_ANNOTATION, SLICE_MANAGER};

use super::gathered::Gathered;
use super::node::Node;
use super::wanted::{number, protocol};
use crate::address::{Declared, Dropped};
use crate::cluster::ClusterId;

const SLICES: &str = "EndpointSlices";

/// What an endpoint can be used for. The better comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Whatever else is said: with `publishNotReadyAddresses` an endpoint is ready before it serves.
    Ready,
    /// It terminates, but serves: the last resort.
    Draining,
    Unusable,
}

/// One address and port. Of two with the same, the lesser is the better one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Endpoint<'a> {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) terminating: bool,
    pub(super) state: State,
    /// Not on the node in question.
    pub(super) remote: bool,
    /// The cluster it was imported from.
    pub(super) source: Option<ClusterId>,
    /// In the node's own cluster, imported or not.
    pub(super) own: bool,
    pub(super) node: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
    pub(super) region: Option<&'a str>,
    pub(super) node_hints: Vec<&'a str>,
    pub(super) zone_hints: Vec<&'a str>,
}

/// All endpoints of a Service by family, protocol and the name of the port, each list sorted by address and port.
#[derive(Debug, Default)]
pub(super) struct Endpoints<'a>(HashMap<(IpFamily, Protocol, &'a str), Vec<Endpoint<'a>>>);

impl<'a> Endpoints<'a> {
    pub(super) fn read(
        slices: &[&'a EndpointSlice],
        node: &'a Node,
        gathered: &mut Gathered,
    ) -> Endpoints<'a> {
        let mut found: BTreeMap<_, Vec<Endpoint<'a>>> = BTreeMap::new();
        for slice in slices {
            let Ok(family) = slice.address_type.parse::<IpFamily>() else { continue };
            let place = Place::of(slice, node, gathered);
            let ports = ports(slice, gathered);
            for endpoint in slice.endpoints.iter().flatten() {
                let Some(address) = address(slice, endpoint, family, gathered) else { continue };
                for &(name, protocol, port) in &ports {
                    let endpoints = found.entry((family, protocol, name)).or_default();
                    endpoints.push(place.endpoint(endpoint, address, port));
                }
            }
        }
        let settle = |(key, endpoints)| (key, settle(endpoints, gathered));
        Endpoints(found.into_iter().map(settle).collect())
    }

    pub(super) fn of(&self, family: IpFamily, protocol: Protocol, port_name: &'a str) -> &[Endpoint<'a>] {
        self.0.get(&(family, protocol, port_name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// Those of all ports.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Endpoint<'a>> {
        self.0.values().flatten()
    }
}

/// What all endpoints of a slice have in common.
struct Place<'a> {
    node: &'a Node,
    source: Option<ClusterId>,
    own: bool,
    names_our_nodes: bool,
    region: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(slice: &'a EndpointSlice, node: &'a Node, gathered: &mut Gathered) -> Place<'a> {
        let label =
            |key| slice.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        let source_label = label(SOURCE_CLUSTER_LABEL);
        let source: Option<ClusterId> = source_label.and_then(|id| id.parse().ok());
        if source_label.is_some() && source.is_none() {
            let problem =
                "the label for the source cluster is no cluster id; it is taken for another cluster's";
            gathered.note(SLICES, problem, name_of(slice));
        }
        let own = source_label.is_none() || (source.is_some() && source == node.cluster);
        // The agent strips the names of foreign nodes from what it imports; others may not.
        let stripped = node.cluster.is_none() && label(MANAGED_BY_LABEL) == Some(SLICE_MANAGER);
        let annotations = slice.metadata.annotations.as_ref();
        let declared = annotations.and_then(|annotations| annotations.get(REGION_ANNOTATION));
        // A cluster is in one region, so that what is in ours is in the node's.
        let region = if own { node.region() } else { declared.map(String::as_str) };
        Place { node, source, own, names_our_nodes: own || stripped, region }
    }

    fn endpoint(&self, endpoint: &'a v1::Endpoint, address: IpAddr, port: u16) -> Endpoint<'a> {
        let unsaid = EndpointConditions::default();
        let conditions = endpoint.conditions.as_ref().unwrap_or(&unsaid);
        let terminating = conditions.terminating.unwrap_or(false);
        let node = endpoint.node_name.as_deref().filter(|_| self.names_our_nodes);
        let hints = endpoint.hints.as_ref();
        let zones = hints.and_then(|hints| hints.for_zones.as_ref()).into_iter().flatten();
        let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).into_iter().flatten();
        Endpoint {
            address,
            port,
            terminating,
            state: match (conditions.ready.unwrap_or(true), conditions.serving.unwrap_or(true)) {
                (true, _) => State::Ready,
                (false, true) if terminating => State::Draining,
                (false, _) => State::Unusable,
            },
            remote: node != Some(self.node.name.as_str()),
            source: self.source.clone(),
            own: self.own,
            node,
            zone: endpoint.zone.as_deref(),
            region: self.region,
            node_hints: sorted(nodes.map(|hint| hint.name.as_str()).collect()),
            zone_hints: sorted(zones.map(|hint| hint.name.as_str()).collect()),
        }
    }
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

fn ports<'a>(slice: &'a EndpointSlice, gathered: &mut Gathered) -> Vec<(&'a str, Protocol, u16)> {
    let mut ports = Vec::new();
    for port in slice.ports.iter().flatten() {
        let (Some(name), Some(given)) = (port.name.as_deref(), port.port) else { continue };
        match (protocol(port.protocol.as_deref()), number(given)) {
            (Some(protocol), Some(number)) => ports.push((name, protocol, number)),
            (None, _) => gathered.note(SLICES, "unknown protocol; the port is left out", name_of(slice)),
            (_, None) => {
                gathered.note(SLICES, "no port number; left out", format!("{given} in {}", name_of(slice)));
            }
        }
    }
    ports
}

fn address(
    slice: &EndpointSlice,
    endpoint: &v1::Endpoint,
    family: IpFamily,
    gathered: &mut Gathered,
) -> Option<IpAddr> {
    let text = endpoint.addresses.first()?;
    let refuse = |reason| {
        let said: String = text.chars().take(64).collect();
        gathered.note(SLICES, problem(reason), format!("{said:?} in {}", name_of(slice)));
    };
    Declared::Nothing.accept(text, family).map_err(refuse).ok()
}

fn problem(reason: Dropped) -> &'static str {
    match reason {
        Dropped::NotAnAddress => "no IP address; left out",
        Dropped::WrongFamily => "not of the family of its slice; left out",
        Dropped::Unspecified => "the unspecified address; left out",
        Dropped::Loopback => "a loopback address; left out",
        Dropped::LinkLocal => "a link-local address; left out",
        Dropped::Multicast => "a multicast address; left out",
        Dropped::Metadata => "the address of a cloud's metadata service; left out",
        Dropped::Undeclared | Dropped::TooMany | Dropped::NotExposed => "left out",
    }
}

fn name_of(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// Sorted, each address and port once.
fn settle<'a>(mut endpoints: Vec<Endpoint<'a>>, gathered: &mut Gathered) -> Vec<Endpoint<'a>> {
    endpoints.sort_unstable();
    endpoints.dedup_by(|worse, better| {
        let same = (worse.address, worse.port) == (better.address, better.port);
        if same && (worse.state, worse.terminating) != (better.state, better.terminating) {
            let problem = "slices contradict each other about its conditions; the better ones are believed";
            gathered.note(SLICES, problem, format!("{} port {}", better.address, better.port));
        }
        if same && worse.source != better.source {
            let problem = "slices of different clusters name the same address; one of them is used";
            gathered.note(SLICES, problem, format!("{} port {}", better.address, better.port));
        }
        same
    });
    endpoints
}
