//! The rules of `ruleset`, walked through by a packet without a kernel.
//!
//! It reads the same elements that are loaded, in the same order as the chains do, so what a plan means for packets can be
//! asked ten thousand times in a test. The kernel itself is asked the same questions in the packet tests.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tombolo_api::service::IpFamily;
use tombolo_model::routing::{Claim, Protocol};

use crate::plan::{Balance, Changes, Elements, FROM_HERE, Key, Value};

/// Where a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Elsewhere,
    /// A pod of this node.
    Pod,
    /// The node itself.
    Host,
}

/// The first packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub source: IpAddr,
    pub origin: Origin,
    pub destination: IpAddr,
    /// Whether the destination is an address of this node.
    pub to_node: bool,
    pub protocol: Protocol,
    pub port: u16,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It goes where it wanted.
    Untouched,
    Delivered {
        to: SocketAddr,
        masqueraded: bool,
    },
    Rejected,
    Dropped,
}

/// The sets and maps of the kernel, and who sticks to whom.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    elements: Elements,
    affinity: BTreeMap<(IpAddr, IpAddr, Protocol, u16), SocketAddr>,
    /// Whether it is known which addresses pods of this node have.
    knows_pods: bool,
    /// Where Services have their cluster IPs.
    services: Vec<IpNet>,
}

impl Simulator {
    /// Empty tables; `knows_pods` is whether it is known which addresses pods of this node have.
    pub fn new(knows_pods: bool) -> Self {
        Self { knows_pods, ..Self::default() }
    }

    /// The same where it is known where Services have their cluster IPs.
    pub fn with_services(self, services: &[IpNet]) -> Self {
        Self { services: services.to_vec(), ..self }
    }

    /// Does what the kernel would; an operation it would refuse is an error.
    pub fn apply(&mut self, changes: &Changes) -> Result<(), String> {
        for (key, value) in changes.removed() {
            let held = self.elements.remove(key);
            if held != Some(*value) {
                return Err(format!("{key:?} should have had {value:?}, but had {held:?}"));
            }
        }
        for (key, value) in changes.added() {
            if let Some(held) = self.elements.insert(*key, *value) {
                return Err(format!("{key:?} gets {value:?}, but has {held:?}"));
            }
        }
        let unstuck = changes.unstuck();
        self.affinity.retain(|(_, address, protocol, port), target| {
            let left = |(claim, gone): &(Claim, SocketAddr)| {
                let same = claim.address.is_none_or(|of| of == *address);
                same && (claim.protocol, claim.port, gone) == (*protocol, *port, target)
            };
            !unstuck.iter().any(left)
        });
        Ok(())
    }

    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Everything that may become of a packet, once per slot, whatever was recorded.
    pub fn fates(&self, packet: &Packet) -> Vec<Fate> {
        if self.is_kept_out(packet) {
            return vec![Fate::Dropped];
        }
        match self.dispatch(packet) {
            Some((_, Value::Drop)) => vec![Fate::Dropped],
            Some((claim, Value::Balance(balance))) => self.slots(packet, claim, balance),
            _ => vec![self.filter(packet)],
        }
    }

    /// Sends one connection, with `chance` for a dice, and remembers who sticks.
    pub fn send(&mut self, packet: &Packet, chance: usize) -> Fate {
        let place = (packet.source, packet.destination, packet.protocol, packet.port);
        let dispatched = self.dispatch(packet).filter(|_| !self.is_kept_out(packet));
        if let Some((claim, Value::Balance(Balance { sticky: true, .. }))) = dispatched
            && let Some(target) = self.affinity.get(&place)
        {
            return self.delivered(packet, claim, *target);
        }
        let fates = self.fates(packet);
        let fate = fates.get(chance % fates.len().max(1)).copied().unwrap_or(Fate::Untouched);
        if let (Some((claim, _)), Fate::Delivered { to, .. }) = (dispatched, fate)
            && self
                .elements
                .keys()
                .any(|key| matches!(key, Key::Sticky(_, of, target) if (*of, *target) == (claim, to)))
        {
            self.affinity.insert(place, to);
        }
        fate
    }

    fn claim(packet: &Packet, address: Option<IpAddr>) -> Claim {
        let family = if packet.destination.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
        Claim { family, address, protocol: packet.protocol, port: packet.port }
    }

    /// The claims a packet may fall under, in the order they are looked up.
    fn claims(packet: &Packet) -> impl Iterator<Item = Claim> {
        let as_node_port = packet.to_node && !packet.destination.is_loopback();
        let node_port = as_node_port.then(|| Self::claim(packet, None));
        std::iter::once(Self::claim(packet, Some(packet.destination))).chain(node_port)
    }

    /// Chain `firewall`.
    fn is_kept_out(&self, packet: &Packet) -> bool {
        let claim = Self::claim(packet, Some(packet.destination));
        let is_allowed = |key: &Key| match key {
            Key::Allowed(of, range) => *of == claim && range.contains(&packet.source),
            _ => false,
        };
        self.elements.contains_key(&Key::Guarded(claim)) && !self.elements.keys().any(is_allowed)
    }

    /// Chains `from-here` and `services`.
    fn dispatch(&self, packet: &Packet) -> Option<(Claim, Value)> {
        let from_here = match packet.origin {
            Origin::Elsewhere => false,
            Origin::Pod => self.knows_pods,
            Origin::Host => true,
        };
        let first = Self::claims(packet).filter(|_| from_here).map(|claim| (claim, Key::FromHere(claim)));
        let second = Self::claims(packet).map(|claim| (claim, Key::Frontend(claim)));
        let mut found =
            first.chain(second).filter_map(|(claim, key)| Some((claim, *self.elements.get(&key)?)));
        found.next()
    }

    fn slots(&self, packet: &Packet, claim: Claim, balance: Balance) -> Vec<Fate> {
        let from_here = self.elements.get(&Key::FromHere(claim)) == Some(&Value::Balance(balance))
            && (packet.origin == Origin::Host || (packet.origin == Origin::Pod && self.knows_pods));
        let offset = if from_here { FROM_HERE } else { 0 };
        let slot = |slot| match self.elements.get(&Key::Slot(claim, slot)) {
            Some(Value::Target(target)) => self.delivered(packet, claim, *target),
            // No rule translates it, so it goes on to the filters.
            _ => self.filter(packet),
        };
        (offset..offset + balance.slots).map(slot).collect()
    }

    /// Chain `nat-postrouting`.
    fn delivered(&self, packet: &Packet, claim: Claim, to: SocketAddr) -> Fate {
        let has = |key: Key| self.elements.contains_key(&key);
        let hairpin = packet.source == to.ip() && has(Key::Hairpin(packet.protocol, to));
        let own = packet.origin == Origin::Host && has(Key::External(claim));
        let stranger =
            self.knows_pods && packet.origin != Origin::Pod && has(Key::ClusterIp(packet.destination));
        let masqueraded = hairpin || own || stranger || has(Key::Masquerade(claim));
        Fate::Delivered { to, masqueraded }
    }

    /// Chains `refused` and `unknown-ports`.
    fn filter(&self, packet: &Packet) -> Fate {
        let refused = Self::claims(packet).find_map(|claim| self.elements.get(&Key::Refused(claim)));
        match refused {
            Some(Value::Drop) => Fate::Dropped,
            Some(_) => Fate::Rejected,
            None if self.elements.contains_key(&Key::ClusterIp(packet.destination)) => Fate::Rejected,
            None if self.services.iter().any(|range| range.contains(&packet.destination)) => Fate::Dropped,
            None => Fate::Untouched,
        }
    }
}
