//! What should be in the kernel for all Services of a node. Pure: no kernel, no clock.
//!
//! [`Plan::update`] takes what changed about some Services and returns what has to change in the kernel, and nothing
//! more. However a plan came about, the same Services make the same fates of packets (slots may be in another order). Of
//! clients that were there before it [`Plan::stickiness`] and [`Plan::gone`] say who may stay.

mod element;
mod lower;
mod slots;
#[cfg(test)]
mod tests;
mod traces;

pub use self::element::{Balance, Changes, Elements, FROM_HERE, Key, Value, Whose};
pub use self::traces::{Client, Stickiness};

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tombolo_model::routing::{Claim, FrontendKind, Protocol, Routes};
use tombolo_runtime::Key as ServiceKey;

/// What is new about one Service.
#[derive(Clone, Debug)]
pub struct Update {
    pub service: ServiceKey,
    /// Empty when the Service is gone.
    pub routes: Routes,
    /// All endpoints that still serve, chosen or not: connections that lead there may go on.
    pub serving: BTreeSet<SocketAddr>,
}

/// What an update leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub changes: Changes,
    /// UDP flows whose server serves no more, or that never had one.
    pub gone: BTreeSet<(Claim, SocketAddr)>,
}

/// What happens while updates are taken in. A list of all elements of all Services costs as much as the plan itself.
struct Journal {
    outcome: Outcome,
    is_kept: bool,
}

impl Journal {
    fn note(&mut self, change: impl FnOnce(&mut Changes)) {
        if self.is_kept {
            change(&mut self.outcome.changes);
        }
    }
}

/// Everything wanted, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    services: BTreeMap<ServiceKey, Planned>,
    /// Who wants a frontend; the first one has it.
    claims: BTreeMap<Claim, BTreeSet<Taker>>,
    clashes: BTreeSet<Claim>,
    shared: BTreeMap<Key, u32>,
}

/// Somebody who wants a frontend.
///
/// Whoever may write Services may name any address as an external one. So an address that was given to a Service comes first, then
/// the name decides: nobody takes the cluster's DNS away by its cluster IP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Taker {
    rank: u8,
    service: ServiceKey,
}

const fn rank(kind: FrontendKind) -> u8 {
    match kind {
        FrontendKind::ClusterIp => 0,
        FrontendKind::LoadBalancer => 1,
        FrontendKind::ExternalIp => 2,
        FrontendKind::NodePort => 3,
    }
}

#[derive(Clone, Debug, Default)]
struct Planned {
    routes: Routes,
    serving: BTreeSet<SocketAddr>,
    elements: Elements,
    /// UDP flows to servers that are not chosen any more and serve to the end.
    lingering: BTreeSet<(Claim, SocketAddr)>,
}

impl Plan {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what is new about some Services.
    pub fn update(&mut self, updates: impl IntoIterator<Item = Update>) -> Outcome {
        let mut journal = Journal { outcome: Outcome::default(), is_kept: true };
        updates.into_iter().for_each(|update| self.enter(update, &mut journal));
        let Outcome { changes, gone } = journal.outcome;
        Outcome { changes: changes.settled(), gone }
    }

    /// The same for somebody who compares the whole plan afterwards and needs no list of changes.
    pub fn load(&mut self, updates: impl IntoIterator<Item = Update>) {
        let mut journal = Journal { outcome: Outcome::default(), is_kept: false };
        updates.into_iter().for_each(|update| self.enter(update, &mut journal));
    }

    fn enter(&mut self, update: Update, journal: &mut Journal) {
        let Update { service, routes, serving } = update;
        let others = self.claim(&service, &routes);
        let ends = routes == Routes::default();
        let planned = self.services.entry(service.clone()).or_default();
        planned.routes = routes;
        planned.serving = serving;
        // What goes from one Service to another is let go first.
        let affected = others.iter().chain([&service]);
        let wanted: Vec<(Key, Value)> = affected.flat_map(|service| self.lower(service, journal)).collect();
        wanted.into_iter().for_each(|(key, value)| self.take(key, value, journal));
        if ends {
            self.services.remove(&service);
        }
    }

    /// Takes note of which frontends a Service wants now. Returns other Services that got or lost one by it.
    fn claim(&mut self, service: &ServiceKey, routes: &Routes) -> BTreeSet<ServiceKey> {
        let claims = |routes: &Routes| -> BTreeSet<(Claim, u8)> {
            let frontends = routes.routes.iter().map(|route| route.frontend);
            frontends.map(|frontend| (frontend.claim(), rank(frontend.kind))).collect()
        };
        let wanted = claims(routes);
        let held = self.services.get(service).map(|planned| claims(&planned.routes)).unwrap_or_default();
        let mut others = BTreeSet::new();
        for &(claim, rank) in held.difference(&wanted) {
            let takers = self.claims.entry(claim).or_default();
            takers.remove(&Taker { rank, service: service.clone() });
            others.extend(takers.first().map(|taker| taker.service.clone()));
            self.note_clash(claim);
        }
        for &(claim, rank) in wanted.difference(&held) {
            let takers = self.claims.entry(claim).or_default();
            others.extend(takers.first().map(|taker| taker.service.clone()));
            takers.insert(Taker { rank, service: service.clone() });
            self.note_clash(claim);
        }
        others
    }

    fn note_clash(&mut self, claim: Claim) {
        match self.claims.get(&claim).map_or(0, BTreeSet::len) {
            0 => drop(self.claims.remove(&claim)),
            1 => drop(self.clashes.remove(&claim)),
            _ => drop(self.clashes.insert(claim)),
        }
    }

    fn owns(&self, service: &ServiceKey, claim: Claim) -> bool {
        self.owner(&claim) == Some(service)
    }

    /// Replaces the elements of one Service by those it should have. Returns what it wants that it did not have.
    fn lower(&mut self, service: &ServiceKey, journal: &mut Journal) -> Vec<(Key, Value)> {
        let Some(mut planned) = self.services.remove(service) else { return Vec::new() };
        let before = std::mem::take(&mut planned.elements);
        for route in &planned.routes.routes {
            if self.owns(service, route.frontend.claim()) {
                lower::lower(route, &before, &mut planned.elements);
            }
        }
        let after = &planned.elements;
        for (key, value) in before.iter().filter(|(key, value)| after.get(key) != Some(value)) {
            self.release(*key, *value, journal);
        }
        let wanted = after.iter().filter(|(key, value)| before.get(key) != Some(value));
        let wanted = wanted.map(|(key, value)| (*key, *value)).collect();
        let still: BTreeSet<(Claim, SocketAddr)> = datagrams(after).collect();
        let lingering = std::mem::take(&mut planned.lingering);
        let left = datagrams(&before).chain(lingering).filter(|flow| !still.contains(flow));
        let (lingering, gone): (BTreeSet<_>, BTreeSet<_>) =
            left.partition(|(claim, server)| planned.serving.contains(server) && self.owns(service, *claim));
        planned.lingering = lingering;
        journal.outcome.gone.extend(gone);
        let known: BTreeSet<(Claim, SocketAddr)> = untranslated(&before).collect();
        journal.outcome.gone.extend(untranslated(after).filter(|flow| !known.contains(flow)));
        self.services.insert(service.clone(), planned);
        wanted
    }

    /// An element goes when nobody wants it any more.
    fn release(&mut self, key: Key, value: Value, journal: &mut Journal) {
        if key.is_shared() {
            let left = self.shared.get(&key).copied().unwrap_or_default().saturating_sub(1);
            if left > 0 {
                self.shared.insert(key, left);
                return;
            }
            self.shared.remove(&key);
        }
        journal.note(|changes| changes.remove(key, value));
    }

    /// An element comes when nobody wanted it before.
    fn take(&mut self, key: Key, value: Value, journal: &mut Journal) {
        if key.is_shared() {
            let count = self.shared.entry(key).or_default();
            *count += 1;
            if *count > 1 {
                return;
            }
        }
        journal.note(|changes| changes.add(key, value));
    }

    /// Everything wanted; what several Services want comes as often.
    pub fn elements(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.services.values().flat_map(|planned| &planned.elements)
    }

    /// What the node does for each Service.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, &Routes)> {
        self.services.iter().map(|(service, planned)| (service, &planned.routes))
    }

    pub fn routes(&self, service: &ServiceKey) -> Option<&Routes> {
        self.services.get(service).map(|planned| &planned.routes)
    }

    /// Frontends that several Services want, with them; the first one has it.
    pub fn clashes(&self) -> impl Iterator<Item = (&Claim, Vec<&ServiceKey>)> {
        self.clashes.iter().filter_map(|claim| {
            let takers = self.claims.get(claim)?.iter();
            Some((claim, takers.map(|taker| &taker.service).collect()))
        })
    }

    /// Whose frontend it is.
    pub fn owner(&self, claim: &Claim) -> Option<&ServiceKey> {
        self.claims.get(claim)?.first().map(|taker| &taker.service)
    }
}

/// The flows of UDP that began before anybody served their frontend, and went to its address as it is.
fn untranslated(elements: &Elements) -> impl Iterator<Item = (Claim, SocketAddr)> {
    datagrams(elements).filter_map(|(claim, _)| Some((claim, SocketAddr::new(claim.address?, claim.port))))
}

/// The flows of UDP: nobody would notice that their server is gone.
fn datagrams(elements: &Elements) -> impl Iterator<Item = (Claim, SocketAddr)> {
    elements.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Slot(claim, _), Value::Target(target)) if claim.protocol == Protocol::Udp => {
            Some((*claim, *target))
        }
        _ => None,
    })
}
