//! What is wanted in the kernel's sets and maps, in words of Services.
//!
//! A key says which set or map it belongs to and what it is found by; how that looks in bytes is `ruleset`'s business.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use tombolo_model::routing::{Claim, Protocol};

/// The slots of connections that begin on this node, where these go elsewhere than those from outside.
pub const FROM_HERE: u32 = 1 << 24;

/// The place of a fact. A frontend is the claim it makes; one without an address is a node port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A frontend that has somewhere to send connections: among how many slots.
    Frontend(Claim),
    /// The same for connections that begin on this node, where that differs.
    FromHere(Claim),
    /// Where a slot of a frontend leads.
    Slot(Claim, u32),
    /// A frontend that refuses connections.
    Refused(Claim),
    /// A frontend that only some sources may use.
    Guarded(Claim),
    /// These may.
    Allowed(Claim, IpNet),
    /// A frontend whose clients lose their address.
    Masquerade(Claim),
    /// Who lands there stays there, for so long.
    Sticky(Duration, Claim, SocketAddr),
    /// An address of a Service inside the cluster.
    ClusterIp(IpAddr),
    /// A frontend for those outside, with an address of its own.
    External(Claim),
    /// A backend on this node, which may be its own client.
    Hairpin(Protocol, SocketAddr),
}

impl Key {
    /// Whether several Services may want it at once, all with the same value.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Key::ClusterIp(_) | Key::Hairpin(..))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Present,
    /// Where a slot leads.
    Target(SocketAddr),
    Balance(Balance),
    /// Whose connections a sticky backend may get.
    Sticks(Whose),
    Reject,
    Drop,
}

/// Connections by where they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Whose {
    pub outside: bool,
    /// On this node.
    pub here: bool,
}

impl Whose {
    pub(crate) fn or(self, other: Self) -> Self {
        Self { outside: self.outside || other.outside, here: self.here || other.here }
    }
}

/// How a frontend chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Balance {
    /// From 0, or from [`FROM_HERE`].
    pub slots: u32,
    /// Whether to ask first where the client was sent last.
    pub sticky: bool,
}

pub type Elements = BTreeMap<Key, Value>;

/// What to do to get from one set of elements to another: each key with what it had and what it gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes(BTreeMap<Key, (Option<Value>, Option<Value>)>);

impl Changes {
    pub(crate) fn remove(&mut self, key: Key, value: Value) {
        self.0.entry(key).or_insert((Some(value), None)).1 = None;
    }

    pub(crate) fn add(&mut self, key: Key, value: Value) {
        self.0.entry(key).or_insert((None, None)).1 = Some(value);
    }

    /// Without what came back to where it was.
    pub(crate) fn settled(mut self) -> Self {
        self.0.retain(|_, (before, after)| before != after);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Keys that go, or get another value.
    pub fn removed(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.0.iter().filter_map(|(key, (before, _))| Some((key, before.as_ref()?)))
    }

    /// Keys that come, or get another value.
    pub fn added(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.0.iter().filter_map(|(key, (_, after))| Some((key, after.as_ref()?)))
    }

    /// Frontends and backends that those outside, or those on this node, may not stick to any more. The kernel does not
    /// remember which of both a client is, so all are sent away.
    pub fn unstuck(&self) -> Vec<(Claim, SocketAddr)> {
        // Another duration is no reason to be sent elsewhere.
        let kept: BTreeMap<(Claim, SocketAddr), Whose> = self.added().filter_map(sticky).collect();
        let left = self.removed().filter_map(sticky).filter(|(pair, before)| {
            let after = kept.get(pair).copied().unwrap_or_default();
            before.outside && !after.outside || before.here && !after.here
        });
        left.map(|(pair, _)| pair).collect()
    }
}

/// Of an element that lets clients stick: to what, and which.
pub(super) fn sticky((key, value): (&Key, &Value)) -> Option<((Claim, SocketAddr), Whose)> {
    match (key, value) {
        (Key::Sticky(_, claim, target), Value::Sticks(whose)) => Some(((*claim, *target), *whose)),
        _ => None,
    }
}
