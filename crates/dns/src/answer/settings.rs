//! How answers are given: zones, times, and who may have more.

use std::net::IpAddr;

use crate::zone::{Addresses, LONGEST_NAME, Name, Realm};

/// A zone that is answered for with authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apex {
    pub name: Name,
    pub kind: Kind,
}

/// What is in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The services of a realm, below `svc`.
    Services(Realm),
    /// Addresses, below `in-addr.arpa` or `ip6.arpa`.
    Reverse,
}

/// How answers are given.
#[derive(Clone, Debug)]
pub struct Settings {
    pub zones: Vec<Apex>,
    /// Seconds that answers may be kept.
    pub ttl: u32,
    /// Seconds that it may be kept that there is no answer.
    pub negative_ttl: u32,
    /// Answers of many records come in another order every time.
    pub shuffle: bool,
    /// The addresses of this server, for the records of the zones' name server.
    pub servers: Addresses,
    /// Who may have whole zones.
    pub transfer: Vec<IpAddr>,
    /// What is not ours is asked elsewhere instead of being refused.
    pub forward: bool,
}

impl Settings {
    /// The zone that a name is in, and how many labels stand before it. The longest match counts.
    pub(crate) fn zone(&self, name: &Name) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (place, apex) in self.zones.iter().enumerate() {
            if let Some(before) = name.below(&apex.name)
                && best.is_none_or(|(_, least)| before < least)
            {
                best = Some((place, before));
            }
        }
        best
    }

    /// The first zone of a realm: where its names are when somebody asks for an address.
    pub(crate) fn home(&self, realm: Realm) -> Option<&Name> {
        self.zones.iter().find(|apex| apex.kind == Kind::Services(realm)).map(|apex| &apex.name)
    }

    /// The length of the longest zone of a realm; `None` if it has none.
    pub fn longest_apex(&self, realm: Realm) -> Option<usize> {
        let zones = self.zones.iter().filter(|apex| apex.kind == Kind::Services(realm));
        zones.map(|apex| apex.name.bytes().len().min(LONGEST_NAME)).max()
    }
}
