//! What an agent is told.

use std::time::Duration;

use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::Dialect;
use tombolo_model::ClusterId;
use tombolo_model::origin::Limits;
use tombolo_runtime::Clock;

/// The settings of an agent, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The id of the cluster, unique in the supercluster.
    pub cluster: ClusterId,
    /// What tells this cluster from another one with the same id: the UID of its kube-system namespace.
    pub identity: String,
    /// Where the cluster's pods have their addresses; empty: anywhere.
    pub pod_cidrs: Vec<String>,
    pub region: Option<String>,
    /// The families in which the cluster can give Services addresses.
    pub ip_families: Vec<IpFamily>,
    /// The namespace of the agent's own objects in its cluster, such as the leases of sources.
    pub namespace: String,
    /// How often the agent says that it lives.
    pub heartbeat: Duration,
    /// A source whose heartbeat has not advanced for so long is dead.
    pub dead_after: Duration,
    /// While the hub is out of reach nobody is declared dead for so long; 0 = as if the hub said so.
    pub hold: Duration,
    /// Make namespaces that a service is imported into; otherwise it waits for them.
    pub create_namespaces: bool,
    /// The Secret in the own namespace that holds the token for the hub, which is renewed there.
    pub token_secret: Option<String>,
    /// The edition in which a label exports that does not name one.
    pub usual_dialect: Dialect,
    /// How much another member may have at the hub.
    pub limits: Limits,
    pub clock: Clock,
}

impl Config {
    /// The defaults for a cluster.
    pub fn new(cluster: ClusterId, identity: impl Into<String>) -> Self {
        Self {
            cluster,
            identity: identity.into(),
            pod_cidrs: Vec::new(),
            region: None,
            ip_families: vec![IpFamily::V4],
            namespace: "tombolo-system".to_owned(),
            heartbeat: Duration::from_secs(5),
            dead_after: Duration::from_secs(30),
            hold: Duration::from_secs(15 * 60),
            create_namespaces: false,
            token_secret: None,
            usual_dialect: Dialect::Mcs,
            limits: Limits::default(),
            clock: Clock::wall(),
        }
    }
}
