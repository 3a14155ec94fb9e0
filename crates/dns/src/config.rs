//! What a DNS server is told.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tombolo_api::{kep, mcs};
use tombolo_runtime::Clock;

use crate::answer::{Apex, Kind, Settings};
use crate::zone::{BadName, Name, Realm};

/// The settings of a server, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens, UDP and TCP. Port 0 takes any free one.
    pub listen: Vec<SocketAddr>,
    /// The network namespace that its sockets are opened in; without it the process' own.
    pub network: Option<PathBuf>,
    /// Threads that answer UDP.
    pub workers: usize,
    /// Zones of KEP-1645's first edition, of today's API, and of the cluster itself.
    pub kep_zones: Vec<String>,
    pub mcs_zones: Vec<String>,
    pub cluster_zones: Vec<String>,
    /// Zones below `in-addr.arpa` and `ip6.arpa` where what we do not know does not exist.
    pub reverse_zones: Vec<String>,
    /// Seconds that answers may be kept.
    pub ttl: u32,
    /// Seconds that it may be kept that there is none.
    pub negative_ttl: u32,
    pub shuffle: bool,
    /// The addresses under which others know the server, for NS; empty: those it listens on.
    pub servers: Vec<IpAddr>,
    /// Who may transfer zones.
    pub transfer: Vec<IpAddr>,
    /// Who is asked for everything else; empty: nobody.
    pub forward: Vec<SocketAddr>,
    /// Queries per second and address; 0: no limit.
    pub rate_limit: u32,
    /// TCP connections at one time.
    pub connections: usize,
    /// TCP connections of one address at one time.
    pub connections_per_address: usize,
    /// How long a TCP connection may be silent.
    pub idle: Duration,
    /// How long queries are still answered after the end was announced.
    pub drain: Duration,
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 53))],
            network: None,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            kep_zones: vec![kep::ZONE.to_owned()],
            mcs_zones: vec![mcs::ZONE.to_owned()],
            cluster_zones: Vec::new(),
            reverse_zones: Vec::new(),
            ttl: 5,
            negative_ttl: 5,
            shuffle: true,
            servers: Vec::new(),
            transfer: Vec::new(),
            forward: Vec::new(),
            rate_limit: 20_000,
            connections: 1024,
            connections_per_address: 256,
            idle: Duration::from_secs(15),
            drain: Duration::ZERO,
            clock: Clock::wall(),
        }
    }
}

/// Why a server cannot be.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{0:?} is no domain name")]
    Zone(String, BadName),
    #[error("{0:?} is given twice")]
    Twice(String),
    #[error("there is no zone to answer for")]
    NoZone,
    #[error("cannot open the network namespace {0}")]
    Network(PathBuf, #[source] io::Error),
    #[error("cannot listen on {0:?}")]
    Listen(Vec<SocketAddr>, #[source] io::Error),
    #[error("the upstream {0} is this server itself")]
    Loop(SocketAddr),
    #[error("cannot start a worker")]
    Worker(#[source] io::Error),
}

impl Config {
    /// How answers are given. `listening`: the addresses that are bound.
    pub fn settings(&self, listening: &[SocketAddr]) -> Result<Settings, Error> {
        let kinds = [
            (&self.kep_zones, Kind::Services(Realm::Kep)),
            (&self.mcs_zones, Kind::Services(Realm::Mcs)),
            (&self.cluster_zones, Kind::Services(Realm::Cluster)),
            (&self.reverse_zones, Kind::Reverse),
        ];
        let mut zones: Vec<Apex> = Vec::new();
        for (text, kind) in kinds.into_iter().flat_map(|(names, kind)| names.iter().map(move |n| (n, kind))) {
            let name = Name::parse(text).map_err(|bad| Error::Zone(text.clone(), bad))?;
            if zones.iter().any(|apex| apex.name == name) {
                return Err(Error::Twice(text.clone()));
            }
            zones.push(Apex { name, kind });
        }
        if zones.is_empty() {
            return Err(Error::NoZone);
        }
        let mut servers = self.servers.clone();
        if servers.is_empty() {
            servers = listening.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()).collect();
        }
        Ok(Settings {
            zones,
            ttl: self.ttl,
            negative_ttl: self.negative_ttl,
            shuffle: self.shuffle,
            servers: servers.into(),
            transfer: self.transfer.clone(),
            forward: !self.forward.is_empty(),
        })
    }

    /// Whether an upstream is the server itself.
    pub(crate) fn check_upstreams(&self, listening: &[SocketAddr]) -> Result<(), Error> {
        let same = |upstream: &SocketAddr, own: &SocketAddr| {
            let wildcard = own.ip().is_unspecified() && upstream.ip().is_loopback();
            upstream.port() == own.port() && (upstream.ip() == own.ip() || wildcard)
        };
        let looping = self.forward.iter().find(|upstream| listening.iter().any(|own| same(upstream, own)));
        looping.map_or(Ok(()), |upstream| Err(Error::Loop(*upstream)))
    }
}
