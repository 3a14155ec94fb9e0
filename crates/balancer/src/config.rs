//! What a balancer is told.

use std::time::Duration;

use tombolo_model::balancer::Capabilities;
use tombolo_runtime::Clock;

/// The settings of a balancer, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the node it runs on.
    pub node: String,
    /// What tells this process from others.
    pub instance: String,
    /// The class of load balancers it provides; `None`: those without a class.
    pub class: Option<String>,
    pub capabilities: Capabilities,
    /// Where leases are.
    pub namespace: String,
    /// Whether the provider works only while this process leads.
    pub elect_leader: bool,
    /// Whether addresses are answered for; without, the node takes part in everything else.
    pub speak: bool,
    /// The links to answer on; empty: all that belong to a network.
    pub links: Vec<String>,
    /// How often this node says that it is alive.
    pub heartbeat: Duration,
    /// A node that has not said so for so long is dead.
    pub dead_after: Duration,
    /// For how much longer nodes are believed alive while the API server is to blame.
    pub hold: Duration,
    /// Whether a node that comes back takes its addresses away from those that stepped in.
    pub preemptive: bool,
    /// How often addresses are announced without being asked for.
    pub announce_every: Duration,
    /// How long a slow step takes, where the capabilities have any.
    pub slow_step: Duration,
    pub clock: Clock,
}

impl Config {
    /// The defaults for a node.
    pub fn new(node: impl Into<String>) -> Self {
        let node = node.into();
        Self {
            instance: node.clone(),
            node,
            class: None,
            capabilities: Capabilities::full(),
            namespace: "tombolo-system".to_owned(),
            elect_leader: true,
            speak: true,
            links: Vec::new(),
            heartbeat: Duration::from_millis(500),
            dead_after: Duration::from_secs(2),
            hold: Duration::from_secs(15 * 60),
            preemptive: false,
            announce_every: Duration::from_secs(30),
            slow_step: Duration::from_secs(2),
            clock: Clock::wall(),
        }
    }
}
