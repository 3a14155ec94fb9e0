//! What a hub is told.

use std::time::Duration;

use kube::Client;
use tombolo_model::ClusterId;
use tombolo_model::origin::Limits;
use tombolo_runtime::Clock;

/// The settings of a hub, resolved.
#[derive(Clone)]
pub struct Config {
    /// Who writes events, among several hubs that take turns.
    pub instance: String,
    /// The namespace of the hub's own Leases.
    pub namespace: String,
    /// A cluster whose heartbeat has not advanced for so long is not ready, and its slices are withdrawn.
    pub dead_after: Duration,
    /// While the hub reaches its API server and does not hear it no cluster is declared dead for so long. While it does not
    /// reach it, nobody is.
    pub hold: Duration,
    /// How often the hub knocks at the members it reaches into.
    pub heartbeat: Duration,
    /// A cluster that leaves alive has so long to see that its Works are gone.
    pub farewell: Duration,
    /// How much one member may report of one service.
    pub limits: Limits,
    /// Members that have no agent.
    pub push: Vec<PushMember>,
    pub clock: Clock,
}

/// A member that the hub reaches into.
#[derive(Clone)]
pub struct PushMember {
    pub cluster: ClusterId,
    pub client: Client,
    /// Make namespaces that Works need.
    pub create_namespaces: bool,
}

impl Config {
    /// The defaults.
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            namespace: "tombolo-system".to_owned(),
            dead_after: Duration::from_secs(30),
            hold: Duration::from_secs(15 * 60),
            heartbeat: Duration::from_secs(5),
            farewell: Duration::from_secs(5),
            limits: Limits::default(),
            push: Vec::new(),
            clock: Clock::wall(),
        }
    }
}
