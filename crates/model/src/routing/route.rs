//! Where a node sends the traffic of one Service: what `routing` decides and a service proxy carries out.
//!
//! Every choice has been made here: a proxy only translates. Whatever refuses traffic says why.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use tombolo_api::service::IpFamily;
pub use tombolo_api::service::Protocol;

use crate::cluster::ClusterId;

/// Everything a node does for one Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// In a stable order, no frontend twice.
    pub routes: Vec<Route>,
    /// Where an external balancer asks whether this node has endpoints.
    pub health_check: Option<HealthCheck>,
}

/// One address and port that clients use, and what becomes of their connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    pub frontend: Frontend,
    /// The name of the Service's port, empty where it has none.
    pub port_name: String,
    pub action: Action,
    /// What connections get that begin on this node (in its pods or on its host), where that differs: those to an
    /// external address with `externalTrafficPolicy: Local` go to any endpoint.
    pub from_this_node: Option<Action>,
    /// Whether connections from elsewhere lose their source address, so that answers come back through this node.
    pub masquerade: bool,
    /// Only these sources may connect; `None`: everybody. An empty list lets nobody in (ranges of the other family only).
    pub allowed_sources: Option<Vec<IpNet>>,
}

/// What a client connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frontend {
    pub kind: FrontendKind,
    pub family: IpFamily,
    /// `None` for a node port: every address of the node.
    pub address: Option<IpAddr>,
    pub protocol: Protocol,
    pub port: u16,
}

/// What only one Service of a cluster can have. Two whose frontends claim the same clash: the caller, who sees all, finds
/// them by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    pub family: IpFamily,
    /// `None`: every address of the node.
    pub address: Option<IpAddr>,
    pub protocol: Protocol,
    pub port: u16,
}

impl Frontend {
    pub fn claim(&self) -> Claim {
        let Frontend { family, address, protocol, port, .. } = *self;
        Claim { family, address, protocol, port }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendKind {
    ClusterIp,
    ExternalIp,
    LoadBalancer,
    NodePort,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// One of these, by weight. Never empty.
    Balance(Balance),
    /// The client is told at once.
    Reject(Reason),
    /// The client hears nothing: others may have endpoints, and a balancer in front should notice and turn to them.
    Drop(Reason),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// Sorted by address and port, none twice.
    pub backends: Vec<Backend>,
    /// Why these and no others: what `explain` and the metrics tell.
    pub tier: Tier,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backend {
    pub address: IpAddr,
    pub port: u16,
    pub weight: u32,
    /// How long a client that landed here stays here; `None`: not at all. In the first edition of the API this is a
    /// property of the source cluster, so backends of one Service may differ.
    pub sticky: Option<Duration>,
    /// Whether it runs on this node: only such a one can be its own client.
    pub local: bool,
    pub source: Option<ClusterId>,
}

/// Which endpoints were preferred.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// All that are ready.
    All,
    /// A traffic policy keeps to this node.
    Local,
    /// Topology hints or `tombolo.dev/prefer`: this node, zone, region or cluster.
    Near(Nearness),
    /// `topologyKeys` of the sources: which key matched, `*` included.
    Topology(BTreeSet<String>),
    /// Nothing is ready: those that still serve while they terminate.
    Terminating,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    Node,
    Zone,
    Region,
    Cluster,
}

/// Why traffic is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    NoEndpoints,
    /// `internalTrafficPolicy: Local`, and none on this node.
    NoLocalInternal,
    /// `externalTrafficPolicy: Local`, and none on this node.
    NoLocalExternal,
    /// There are endpoints, but none that the sources' topology keys allow for this node.
    Topology,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    pub port: u16,
    /// Different addresses of ready endpoints on this node.
    pub local_endpoints: usize,
}
