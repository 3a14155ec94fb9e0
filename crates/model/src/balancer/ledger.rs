//! Who has which address.
//!
//! A Service that has an address keeps it for as long as it is asked for nothing else: pools may shrink, others may come.
//! Newcomers get the lowest free address of the first pool that admits them. One address may serve several Services that
//! agree to share it, as long as no port is wanted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tombolo_api::service::{IpFamily, Protocol};
use tombolo_api::tombolo::ServiceRef;

use super::pools::{Pool, Pools};
use crate::address::family_of;
use crate::verdict::listing;

/// On what terms a Service shares an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// The same for all who share; `None` shares with nobody.
    pub key: Option<String>,
    pub ports: BTreeSet<(Protocol, u16)>,
    /// Namespace and selector where the traffic stays on the node that answers for the address (`externalTrafficPolicy: Local`):
    /// Services that share must then have the same endpoints.
    pub backends: Option<String>,
}

impl Sharing {
    fn goes_with(&self, other: &Sharing) -> bool {
        let agreed = self.key.is_some() && self.key == other.key && self.backends == other.backends;
        agreed && self.ports.is_disjoint(&other.ports)
    }
}

/// What a Service wants from the ledger.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub owner: ServiceRef,
    pub families: &'a [IpFamily],
    pub asked: Vec<IpAddr>,
    /// What it has and may keep, as its status says: [`rightful`](super::rightful()).
    pub has: Vec<IpAddr>,
    pub sharing: Sharing,
    pub namespace_labels: &'a BTreeMap<String, String>,
    pub service_labels: &'a BTreeMap<String, String>,
}

/// An address that was asked for and cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub address: IpAddr,
    pub why: String,
}

/// Why there is no address of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// There is no accepted pool at all.
    NoPools,
    /// No pool with addresses of the family is for this Service.
    NotAdmitted(IpFamily),
    /// These are, and have nothing left.
    Exhausted(IpFamily, Vec<String>),
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::NoPools => f.write_str("there is no AddressPool to take an address from"),
            Shortage::NotAdmitted(family) => {
                write!(f, "no AddressPool has {family} addresses for this Service")
            }
            Shortage::Exhausted(family, pools) => {
                let s = if pools.len() == 1 { "" } else { "s" };
                write!(f, "no {family} address is free in the pool{s} {}", listing(pools.iter(), ", "))
            }
        }
    }
}

/// What a Service gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// In the order of the families that were asked for.
    pub addresses: Vec<IpAddr>,
    pub denied: Vec<Denied>,
    pub missing: Vec<(IpFamily, Shortage)>,
    /// Addresses among these that no pool has, or none that admits the Service any more.
    pub stray: Vec<IpAddr>,
}

/// Who has which address, and the pools they come from.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pools: Pools,
    /// How many addresses of a family may be in use.
    most: Option<usize>,
    held: BTreeMap<IpAddr, BTreeMap<ServiceRef, Sharing>>,
    /// The same the other way round.
    owned: BTreeMap<ServiceRef, BTreeSet<IpAddr>>,
}

impl Ledger {
    /// An empty one that never hands out more addresses of a family than `most`.
    pub fn new(most: Option<usize>) -> Self {
        Ledger { most, ..Ledger::default() }
    }

    /// Takes other pools from now on; who has an address keeps it.
    pub fn set_pools(&mut self, pools: Pools) {
        self.pools = pools;
    }

    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Notes that a Service has these addresses, as far as nobody else has them: for those whose status says so, before
    /// anybody is given a new one.
    pub fn keep(&mut self, owner: &ServiceRef, addresses: &[IpAddr], sharing: &Sharing) {
        for address in addresses {
            if self.holder_against(owner, *address, sharing).is_none() {
                self.give(owner, *address, sharing);
            }
        }
    }

    fn give(&mut self, owner: &ServiceRef, address: IpAddr, sharing: &Sharing) {
        self.held.entry(address).or_default().insert(owner.clone(), sharing.clone());
        self.owned.entry(owner.clone()).or_default().insert(address);
    }

    /// Takes back what a Service has; whether that was anything.
    pub fn release(&mut self, owner: &ServiceRef) -> bool {
        let Some(addresses) = self.owned.remove(owner) else { return false };
        for address in addresses {
            if let Some(holders) = self.held.get_mut(&address) {
                holders.remove(owner);
                if holders.is_empty() {
                    self.held.remove(&address);
                }
            }
        }
        true
    }

    /// What a Service has.
    pub fn addresses_of(&self, owner: &ServiceRef) -> Vec<IpAddr> {
        self.owned.get(owner).into_iter().flatten().copied().collect()
    }

    /// How many addresses of a pool are in use.
    pub fn in_use(&self, pool: &Pool) -> usize {
        self.held.keys().filter(|address| pool.contains(**address)).count()
    }

    /// Gives a Service one address per family, as far as there are any, in place of what it had.
    pub fn assign(&mut self, claim: &Claim<'_>) -> Grant {
        let mut has = self.addresses_of(&claim.owner);
        has.extend(claim.has.iter().copied().filter(|address| !has.contains(address)).collect::<Vec<_>>());
        self.release(&claim.owner);
        let mut grant = Grant::default();
        for &family in claim.families {
            match self.choose(claim, family, &has, &mut grant) {
                Ok(address) => {
                    self.give(&claim.owner, address, &claim.sharing);
                    grant.addresses.push(address);
                }
                Err(shortage) => grant.missing.push((family, shortage)),
            }
        }
        let other = |address: &&IpAddr| !claim.families.contains(&family_of(**address));
        grant.denied.extend(claim.asked.iter().filter(other).map(|address| Denied {
            address: *address,
            why: format!("{address} is of a family that is not served"),
        }));
        grant
    }

    fn choose(
        &self,
        claim: &Claim<'_>,
        family: IpFamily,
        has: &[IpAddr],
        grant: &mut Grant,
    ) -> Result<IpAddr, Shortage> {
        for &address in claim.asked.iter().filter(|address| family_of(**address) == family) {
            match self.try_asked(claim, address) {
                Ok(()) => return Ok(address),
                Err(why) => grant.denied.push(Denied { address, why }),
            }
        }
        let free = |address: &&IpAddr| self.holder_against(&claim.owner, **address, &claim.sharing).is_none();
        let kept = has.iter().filter(|address| family_of(**address) == family).find(free);
        if let Some(&address) = kept {
            if self.admitting(claim, address).is_none() {
                grant.stray.push(address);
            }
            return Ok(address);
        }
        self.newcomer(claim, family)
    }

    fn try_asked(&self, claim: &Claim<'_>, address: IpAddr) -> Result<(), String> {
        if let Some(holder) = self.holder_against(&claim.owner, address, &claim.sharing) {
            return Err(format!("{address} is used by {}/{}", holder.namespace, holder.name));
        }
        if self.admitting(claim, address).is_none() {
            return Err(match self.pools.of(address) {
                None => format!("{address} is in no AddressPool"),
                Some(pool) => {
                    format!("{address} is in the pool {}, which is not for this Service", pool.name)
                }
            });
        }
        if self.is_full(address) {
            return Err(format!("{address} would be one address more than there may be"));
        }
        Ok(())
    }

    /// Whoever has the address and does not share it with this Service.
    fn holder_against(&self, owner: &ServiceRef, address: IpAddr, sharing: &Sharing) -> Option<&ServiceRef> {
        let holders = self.held.get(&address)?.iter().filter(|(holder, _)| *holder != owner);
        holders.into_iter().find(|(_, theirs)| !theirs.goes_with(sharing)).map(|(holder, _)| holder)
    }

    fn admitting(&self, claim: &Claim<'_>, address: IpAddr) -> Option<&Pool> {
        self.pools.admitting(address, claim.namespace_labels, claim.service_labels)
    }

    /// Whether one more address of this family would be too many.
    fn is_full(&self, address: IpAddr) -> bool {
        let used = || self.held.keys().filter(|held| held.is_ipv4() == address.is_ipv4()).count();
        self.most.is_some_and(|most| used() >= most) && !self.held.contains_key(&address)
    }

    fn newcomer(&self, claim: &Claim<'_>, family: IpFamily) -> Result<IpAddr, Shortage> {
        if self.pools.is_empty() {
            return Err(Shortage::NoPools);
        }
        let admits = |pool: &&Pool| {
            let admitted = pool.spec.admits(claim.namespace_labels, claim.service_labels);
            pool.spec.auto_assign && pool.has(family) && admitted
        };
        let pools: Vec<&Pool> = self.pools.iter().filter(admits).collect();
        if pools.is_empty() {
            return Err(Shortage::NotAdmitted(family));
        }
        let found = pools.iter().find_map(|pool| self.shared(claim, pool, family));
        let found = found.or_else(|| pools.iter().find_map(|pool| self.lowest(pool, family)));
        found.ok_or_else(|| Shortage::Exhausted(family, pools.iter().map(|pool| pool.name.clone()).collect()))
    }

    /// An address that others with the same key have.
    fn shared(&self, claim: &Claim<'_>, pool: &Pool, family: IpFamily) -> Option<IpAddr> {
        claim.sharing.key.as_ref()?;
        let candidates = self.held.keys().filter(|ip| family_of(**ip) == family && pool.contains(**ip));
        candidates
            .into_iter()
            .find(|ip| self.holder_against(&claim.owner, **ip, &claim.sharing).is_none())
            .copied()
    }

    /// The lowest address that nobody has, range by range.
    fn lowest(&self, pool: &Pool, family: IpFamily) -> Option<IpAddr> {
        let ranges = pool.ranges.iter().filter(|range| range.family() == family);
        ranges.into_iter().find_map(|range| {
            let first = range.first_to_give();
            let mut next = Some(first);
            for held in self.held.range(first..=range.last()).map(|(address, _)| *address) {
                if next.is_some_and(|next| next < held) {
                    break;
                }
                next = after(held);
            }
            next.filter(|address| range.contains(*address) && !self.is_full(*address))
        })
    }
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}
