//! What DNS knows of one service.
//!
//! It is a value: a change makes a new one, so that addresses, ports and hosts always agree with each other. Paths are
//! labels in wire form, to be compared with the front of a name as it came.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::name::ends_with_labels;

/// The ports of a service or a host. Many have the same, so they share them, and each keeps one word only.
pub type Ports = Arc<Box<[Port]>>;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port {
    /// `_name._protocol`; empty for a port without a name, which has no records of its own.
    pub path: Box<[u8]>,
    pub number: u16,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reached through its own addresses, at most one per family.
    Address { v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>, ports: Ports },
    /// Headless: reached through the addresses of its endpoints.
    Endpoints(Box<Endpoints>),
    /// Another name, in wire form (`ExternalName`).
    Alias(Box<[u8]>),
}

/// The published endpoints of a headless service; never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// All addresses, each once.
    pub addresses: Addresses,
    /// In order of their paths.
    pub hosts: Box<[Host]>,
}

/// Addresses in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub v4: Box<[Ipv4Addr]>,
    pub v6: Box<[Ipv6Addr]>,
}

/// A named endpoint of a headless service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `hostname`, and in the zones of the supercluster `.clusterid`.
    pub path: Box<[u8]>,
    pub addresses: Addresses,
    pub ports: Ports,
}

impl Addresses {
    fn of(mut all: Vec<IpAddr>) -> Self {
        all.sort_unstable();
        all.dedup();
        let v4 = all.iter().filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
        let v6 = all.iter().filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None });
        Self { v4: v4.collect(), v6: v6.collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.iter().copied().map(IpAddr::V4).chain(self.v6.iter().copied().map(IpAddr::V6))
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

impl From<Vec<IpAddr>> for Addresses {
    fn from(all: Vec<IpAddr>) -> Self {
        Self::of(all)
    }
}

impl Endpoints {
    /// The host with exactly this path.
    pub(crate) fn host(&self, path: &[u8]) -> Option<&Host> {
        let place = self.hosts.binary_search_by(|host| (*host.path).cmp(path)).ok()?;
        self.hosts.get(place)
    }

    /// Whether there is a host below `path`.
    pub(crate) fn has_below(&self, path: &[u8]) -> bool {
        self.hosts.iter().any(|host| ends_with_labels(&host.path, path))
    }

    pub(crate) fn has_exact_port(&self, path: &[u8]) -> bool {
        self.hosts.iter().any(|host| host.ports.iter().any(|port| *port.path == *path))
    }

    /// Whether a port has this path, or one below it.
    pub(crate) fn has_port(&self, path: &[u8]) -> bool {
        self.hosts.iter().any(|host| has_port(&host.ports, path))
    }
}

/// Whether a port has this path, or one below it.
pub(crate) fn has_port(ports: &[Port], path: &[u8]) -> bool {
    ports.iter().any(|port| !port.path.is_empty() && ends_with_labels(&port.path, path))
}

/// The numbers of those ports that are wanted, each once: a set of records has no two alike (RFC 2181, 5), and what tells
/// ports of one number apart, their protocol, is not in the record.
pub(crate) fn numbers(ports: &[Port], wanted: impl Fn(&Port) -> bool) -> impl Iterator<Item = u16> {
    let is_first = move |place: usize, port: &Port| {
        wanted(port) && !ports[..place].iter().any(|earlier| earlier.number == port.number && wanted(earlier))
    };
    let first = ports.iter().enumerate().filter(move |(place, port)| is_first(*place, port));
    first.map(|(_, port)| port.number)
}

impl Service {
    /// Every address that leads back to the service.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Service::Address { v4, v6, .. } => {
                v4.map(IpAddr::V4).into_iter().chain(v6.map(IpAddr::V6)).collect()
            }
            Service::Endpoints(endpoints) => endpoints.addresses.iter().collect(),
            Service::Alias(_) => Vec::new(),
        }
    }

    /// How many records it has in one zone. Those of the bare name's ports are not counted twice.
    pub(crate) fn records(&self) -> usize {
        match self {
            Service::Address { v4, v6, ports } => {
                usize::from(v4.is_some()) + usize::from(v6.is_some()) + ports.len()
            }
            Service::Endpoints(endpoints) => {
                let hosts = endpoints.hosts.iter().map(|host| host.addresses.len() + host.ports.len());
                endpoints.addresses.len() + hosts.sum::<usize>()
            }
            Service::Alias(_) => 1,
        }
    }
}
