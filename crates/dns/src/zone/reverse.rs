//! From addresses back to the services that have them.
//!
//! Exact addresses are looked up without a lock. Only a name with fewer labels than an address needs to know whether
//! anything is below it; it asks an ordered set behind a lock, which is held for moments.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};

use papaya::HashMap;

use super::Realm;
use super::name::Name;

/// A service that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) realm: Realm,
    pub(crate) key: Arc<[u8]>,
}

/// Addresses and their owners, by family: most are IPv4 and need not be as wide as the others.
#[derive(Debug, Default)]
pub(crate) struct Reverse {
    v4: Table<Ipv4Addr>,
    v6: Table<Ipv6Addr>,
}

#[derive(Debug)]
struct Table<A: Eq + Hash> {
    owners: HashMap<A, Owners>,
    ordered: RwLock<BTreeSet<A>>,
}

/// Nearly always there is one.
#[derive(Clone, Debug)]
enum Owners {
    One(Owner),
    Several(Box<[Owner]>),
}

impl Owners {
    fn as_slice(&self) -> &[Owner] {
        match self {
            Owners::One(owner) => std::slice::from_ref(owner),
            Owners::Several(owners) => owners,
        }
    }

    fn with(&self, owner: &Owner) -> Self {
        Owners::Several(self.as_slice().iter().chain([owner]).cloned().collect())
    }

    /// `None` if nobody is left.
    fn without(&self, owner: &Owner) -> Option<Self> {
        let left: Box<[Owner]> = self.as_slice().iter().filter(|other| *other != owner).cloned().collect();
        match &*left {
            [] => None,
            [one] => Some(Owners::One(one.clone())),
            _ => Some(Owners::Several(left)),
        }
    }
}

/// What a name below `in-addr.arpa` or `ip6.arpa` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// One address.
    Address(IpAddr),
    /// All addresses from the first to the second.
    Block(IpAddr, IpAddr),
    /// Nothing: it cannot exist.
    Nonsense,
}

impl<A: Eq + Hash> Default for Table<A> {
    fn default() -> Self {
        Self { owners: HashMap::new(), ordered: RwLock::default() }
    }
}

impl<A: Copy + Ord + Hash> Table<A> {
    fn add(&self, ip: A, owner: &Owner) {
        let guard = self.owners.guard();
        let owners = match self.owners.get(&ip, &guard) {
            Some(known) if known.as_slice().contains(owner) => return,
            Some(known) => known.with(owner),
            None => Owners::One(owner.clone()),
        };
        self.owners.insert(ip, owners, &guard);
        self.ordered.write().unwrap_or_else(PoisonError::into_inner).insert(ip);
    }

    fn remove(&self, ip: A, owner: &Owner) {
        let guard = self.owners.guard();
        let Some(known) = self.owners.get(&ip, &guard) else { return };
        match known.without(owner) {
            Some(left) => drop(self.owners.insert(ip, left, &guard)),
            None => {
                self.owners.remove(&ip, &guard);
                self.ordered.write().unwrap_or_else(PoisonError::into_inner).remove(&ip);
            }
        }
    }

    fn owners(&self, ip: A) -> Vec<Owner> {
        self.owners.pin().get(&ip).map(|owners| owners.as_slice().to_vec()).unwrap_or_default()
    }

    fn has_between(&self, first: A, last: A) -> bool {
        let ordered = self.ordered.read().unwrap_or_else(PoisonError::into_inner);
        ordered.range(first..=last).next().is_some()
    }
}

impl Reverse {
    pub(crate) fn add(&self, ip: IpAddr, owner: &Owner) {
        match ip {
            IpAddr::V4(ip) => self.v4.add(ip, owner),
            IpAddr::V6(ip) => self.v6.add(ip, owner),
        }
    }

    pub(crate) fn remove(&self, ip: IpAddr, owner: &Owner) {
        match ip {
            IpAddr::V4(ip) => self.v4.remove(ip, owner),
            IpAddr::V6(ip) => self.v6.remove(ip, owner),
        }
    }

    /// The owners of an address. One in the cluster's own zone comes before all others, which then have no say
    /// (an address has one name there, and `cluster.local` stays as it is).
    pub(crate) fn owners(&self, ip: IpAddr) -> Vec<Owner> {
        let mut owners = match ip {
            IpAddr::V4(ip) => self.v4.owners(ip),
            IpAddr::V6(ip) => self.v6.owners(ip),
        };
        let local = owners.iter().any(|owner| owner.realm == Realm::Cluster);
        owners.retain(|owner| !local || owner.realm == Realm::Cluster);
        owners
    }

    pub(crate) fn has_between(&self, first: IpAddr, last: IpAddr) -> bool {
        match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => self.v4.has_between(first, last),
            (IpAddr::V6(first), IpAddr::V6(last)) => self.v6.has_between(first, last),
            _ => false,
        }
    }
}

/// What a name means as an address; `None` if it is not below the reverse domains.
pub(crate) fn asked(name: &Name) -> Option<Asked> {
    let labels = name.count().checked_sub(2).filter(|_| name.label(name.count() - 1) == b"arpa")?;
    match name.label(labels) {
        b"in-addr" => Some(v4(name, labels).unwrap_or(Asked::Nonsense)),
        b"ip6" => Some(v6(name, labels).unwrap_or(Asked::Nonsense)),
        _ => None,
    }
}

fn v4(name: &Name, labels: usize) -> Option<Asked> {
    let (mut first, mut last) = ([0_u8; 4], [255_u8; 4]);
    let places = first.len().checked_sub(labels)?;
    for (place, label) in (0..labels).rev().enumerate() {
        let octet = decimal(name.label(label))?;
        (first[place], last[place]) = (octet, octet);
    }
    let block = Asked::Block(first.into(), last.into());
    Some(if places == 0 { Asked::Address(first.into()) } else { block })
}

/// An octet as people write it: no leading zeros, so that every address has one name.
fn decimal(label: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(label).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()))?;
    let octet: u8 = text.parse().ok()?;
    (octet.to_string() == text).then_some(octet)
}

fn v6(name: &Name, labels: usize) -> Option<Asked> {
    let (mut first, mut last) = ([0_u8; 16], [255_u8; 16]);
    let places = 32_usize.checked_sub(labels)?;
    for (place, label) in (0..labels).rev().enumerate() {
        let [digit] = name.label(label) else { return None };
        let nibble = char::from(*digit).to_digit(16)? as u8;
        let (shift, keep) = if place % 2 == 0 { (4, 0x0f) } else { (0, 0xf0) };
        for bytes in [&mut first, &mut last] {
            bytes[place / 2] = bytes[place / 2] & keep | nibble << shift;
        }
    }
    let block = Asked::Block(first.into(), last.into());
    Some(if places == 0 { Asked::Address(first.into()) } else { block })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(text: &str) -> Option<Asked> {
        asked(&Name::parse(text).unwrap())
    }

    #[test]
    fn a_reverse_name_is_an_address_or_a_block_or_nonsense() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let cases = [
            ("4.3.2.1.in-addr.arpa", Some(Asked::Address(ip("1.2.3.4")))),
            ("2.1.in-addr.arpa", Some(Asked::Block(ip("1.2.0.0"), ip("1.2.255.255")))),
            ("in-addr.arpa", Some(Asked::Block(ip("0.0.0.0"), ip("255.255.255.255")))),
            ("04.3.2.1.in-addr.arpa", Some(Asked::Nonsense)),
            ("256.3.2.1.in-addr.arpa", Some(Asked::Nonsense)),
            ("+4.3.2.1.in-addr.arpa", Some(Asked::Nonsense)),
            ("5.4.3.2.1.in-addr.arpa", Some(Asked::Nonsense)),
            ("d.f.ip6.arpa", Some(Asked::Block(ip("fd00::"), ip("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")))),
            ("x.f.ip6.arpa", Some(Asked::Nonsense)),
            ("arpa", None),
            ("ip6.example", None),
        ];
        for (text, expected) in cases {
            assert_eq!(meaning(text), expected, "{text}");
        }
        let whole = format!("1{}.0.0.d.f.ip6.arpa", ".0".repeat(27));
        assert_eq!(meaning(&whole), Some(Asked::Address(ip("fd00::1"))));
    }

    #[test]
    fn an_address_of_the_cluster_itself_leads_back_there_only() {
        let reverse = Reverse::default();
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        let [import, local] =
            [Realm::Mcs, Realm::Cluster].map(|realm| Owner { realm, key: Arc::from(&b"\x01a\x01b"[..]) });
        reverse.add(ip, &import);
        assert_eq!(reverse.owners(ip), std::slice::from_ref(&import));
        reverse.add(ip, &local);
        reverse.add(ip, &local);
        assert_eq!(reverse.owners(ip), std::slice::from_ref(&local));
        reverse.remove(ip, &local);
        assert_eq!(reverse.owners(ip), std::slice::from_ref(&import));
        reverse.remove(ip, &import);
        assert!(reverse.owners(ip).is_empty() && !reverse.has_between(ip, ip));
    }
}
