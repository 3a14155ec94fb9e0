//! What a proxy is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tombolo_model::ClusterId;
use tombolo_runtime::Clock;

/// The settings of a proxy, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the node it runs on.
    pub node: String,
    /// The id of the cluster, if it belongs to a supercluster.
    pub cluster: Option<ClusterId>,
    /// The region the cluster declares to others.
    pub region: Option<String>,
    /// The network namespace of the node; `None`: that of the process.
    pub namespace: Option<PathBuf>,
    /// Where the pods of this node have their addresses; empty: as the Node says.
    pub pod_cidrs: Vec<IpNet>,
    /// The node's addresses that have node ports; empty: all but loopback.
    pub node_port_addresses: Vec<IpNet>,
    /// Connections to cluster IPs lose their source address, too.
    pub masquerade_all: bool,
    /// Where Services have their cluster IPs; empty: as the cluster's ServiceCIDRs say.
    pub service_cidrs: Vec<IpNet>,
    /// How long changes are gathered before they are written together.
    pub gather: Duration,
    /// How often the proxy looks whether somebody else changed its tables.
    pub verify: Duration,
    /// A change that waits longer than this makes the proxy unhealthy.
    pub stuck_after: Duration,
    /// Where `/healthz` and `/livez` are answered as kube-proxy does; `None`: nowhere.
    pub health_address: Option<SocketAddr>,
    pub clock: Clock,
}

impl Config {
    /// The defaults for a node.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            cluster: None,
            region: None,
            namespace: None,
            pod_cidrs: Vec::new(),
            node_port_addresses: Vec::new(),
            masquerade_all: false,
            service_cidrs: Vec::new(),
            gather: Duration::from_millis(20),
            verify: Duration::from_secs(10),
            stuck_after: Duration::from_secs(120),
            health_address: None,
            clock: Clock::wall(),
        }
    }
}
