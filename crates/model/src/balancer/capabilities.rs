//! What a provider can do, as a value.

use tombolo_api::loadbalancer::Profile;
use tombolo_api::service::{IpFamily, Protocol};

/// How changes come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Instant,
    /// After a while, during which the former state is served.
    Hitless,
    /// After a while, during which nothing is served.
    Cutover,
}

/// What a provider of load balancers can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub families: Vec<IpFamily>,
    pub protocols: Vec<Protocol>,
    /// Several protocols at one load balancer.
    pub mixed_protocols: bool,
    /// Services without node ports.
    pub without_node_ports: bool,
    pub session_affinity: bool,
    /// Itself or through the service proxy.
    pub source_ranges: bool,
    /// Addresses that a Service asks for.
    pub explicit_addresses: bool,
    /// The client's address is kept with `externalTrafficPolicy: Local`.
    pub source_address: bool,
    pub pace: Pace,
    /// How many addresses of a family there are at most, whatever the pools have.
    pub most_addresses: Option<usize>,
}

impl Capabilities {
    /// All there is.
    pub fn full() -> Self {
        Capabilities {
            families: vec![IpFamily::V4, IpFamily::V6],
            protocols: vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp],
            mixed_protocols: true,
            without_node_ports: true,
            session_affinity: true,
            source_ranges: true,
            explicit_addresses: true,
            source_address: true,
            pace: Pace::Instant,
            most_addresses: None,
        }
    }
}

impl From<Profile> for Capabilities {
    fn from(profile: Profile) -> Self {
        let full = Capabilities::full();
        match profile {
            Profile::Full => full,
            Profile::V4Only => Capabilities { families: vec![IpFamily::V4], ..full },
            Profile::TcpOnly => {
                Capabilities { protocols: vec![Protocol::Tcp], mixed_protocols: false, ..full }
            }
            Profile::NodePortOnly => Capabilities { without_node_ports: false, ..full },
            Profile::Proxy => Capabilities { source_address: false, session_affinity: false, ..full },
            Profile::SlowHitless => Capabilities { pace: Pace::Hitless, ..full },
            Profile::SlowCutover => Capabilities { pace: Pace::Cutover, ..full },
            Profile::PoolOfOne => Capabilities { most_addresses: Some(1), ..full },
        }
    }
}
