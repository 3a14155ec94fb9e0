//! Which endpoints of a port get traffic on a node.
//!
//! Two sets: those that any client may use, and those on the node itself, to which a traffic policy may keep. Each is made
//! of ready endpoints and, only if it has none, of those that still serve while they terminate. Hints and preferences
//! shape the first set only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo_api::tombolo::Tier as Preference;

use super::endpoint::{Endpoint, State};
use super::imported::Imported;
use super::near;
use super::node::Node;
use super::route::{Action, Backend, Balance, Reason, Tier};
use super::topology;
use crate::cluster::ClusterId;

/// What selection knows besides the endpoints.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) node: &'a Node,
    pub(super) imported: Option<&'a Imported>,
    /// `None`: nothing is preferred; hints count.
    pub(super) prefer: Option<Vec<Preference>>,
    /// The affinity of the Service.
    pub(super) sticky: Option<Duration>,
}

/// What becomes of connections to one port.
#[derive(Debug)]
pub(super) struct Selection {
    anywhere: Option<Balance>,
    here: Option<Balance>,
    /// Whether any node has an endpoint that could be used.
    exists: bool,
}

impl Selection {
    pub(super) fn of(endpoints: &[Endpoint<'_>], view: &View<'_>) -> Selection {
        let here: Vec<&Endpoint<'_>> = endpoints.iter().filter(|endpoint| !endpoint.remote).collect();
        Selection {
            anywhere: view.anywhere(endpoints),
            here: view.here(&here),
            exists: endpoints.iter().any(|endpoint| endpoint.state != State::Unusable),
        }
    }

    /// Traffic that may go to any endpoint.
    pub(super) fn anywhere(&self) -> Action {
        match &self.anywhere {
            Some(balance) => Action::Balance(balance.clone()),
            None if self.exists => Action::Reject(Reason::Topology),
            None => Action::Reject(Reason::NoEndpoints),
        }
    }

    /// Traffic that has to stay on this node. Where it cannot although endpoints exist, the client hears nothing: a gap
    /// of a moment shall look like lost packets, and a balancer in front shall turn to another node.
    pub(super) fn here(&self, missing: Reason) -> Action {
        match &self.here {
            Some(balance) => Action::Balance(balance.clone()),
            None if self.exists => Action::Drop(missing),
            None => Action::Reject(Reason::NoEndpoints),
        }
    }
}

impl View<'_> {
    fn anywhere(&self, endpoints: &[Endpoint<'_>]) -> Option<Balance> {
        let of = |state| endpoints.iter().filter(move |endpoint| endpoint.state == state).collect();
        let (ready, tier) = self.narrow(of(State::Ready));
        if !ready.is_empty() {
            return Some(self.balance(ready, tier));
        }
        let (draining, _) = self.narrow_last_resort(of(State::Draining));
        (!draining.is_empty()).then(|| self.balance(draining, Tier::Terminating))
    }

    fn here(&self, local: &[&Endpoint<'_>]) -> Option<Balance> {
        let of = |state| local.iter().copied().filter(|endpoint| endpoint.state == state).collect::<Vec<_>>();
        let (ready, draining) = (of(State::Ready), of(State::Draining));
        let (chosen, tier) =
            if ready.is_empty() { (draining, Tier::Terminating) } else { (ready, Tier::Local) };
        (!chosen.is_empty()).then(|| self.balance(chosen, tier))
    }

    fn narrow<'e, 'a>(&self, ready: Vec<&'e Endpoint<'a>>) -> (Vec<&'e Endpoint<'a>>, Tier) {
        let (allowed, keys) = self.allow(ready);
        let all = if keys.is_empty() { Tier::All } else { Tier::Topology(keys) };
        let near = |nearness| Tier::Near(nearness);
        match &self.prefer {
            Some(tiers) => {
                let (kept, nearness) = near::preferred(tiers, &allowed, self.node);
                (kept, nearness.map_or(all, near))
            }
            None => match near::hinted(&allowed, self.node) {
                Some((kept, nearness)) => (kept, near(nearness)),
                None => (allowed, all),
            },
        }
    }

    /// Hints do not count for endpoints on their way out. Topology keys and preferences do: both can be conditions.
    fn narrow_last_resort<'e, 'a>(
        &self,
        draining: Vec<&'e Endpoint<'a>>,
    ) -> (Vec<&'e Endpoint<'a>>, BTreeSet<String>) {
        let (allowed, keys) = self.allow(draining);
        match &self.prefer {
            Some(tiers) => (near::preferred(tiers, &allowed, self.node).0, keys),
            None => (allowed, keys),
        }
    }

    /// What the topology keys of each source leave of its endpoints, in the order of addresses, and the keys that matched.
    fn allow<'e, 'a>(&self, endpoints: Vec<&'e Endpoint<'a>>) -> (Vec<&'e Endpoint<'a>>, BTreeSet<String>) {
        let Some(imported) = self.imported else { return (endpoints, BTreeSet::new()) };
        let mut by_source: BTreeMap<Option<&ClusterId>, Vec<&'e Endpoint<'a>>> = BTreeMap::new();
        for endpoint in endpoints {
            by_source.entry(endpoint.source.as_ref()).or_default().push(endpoint);
        }
        let mut matched = BTreeSet::new();
        let mut allowed = Vec::new();
        for (source, endpoints) in by_source {
            let source = source.and_then(|source| imported.source(source));
            let keys = source.map(|source| source.topology_keys.as_slice()).unwrap_or_default();
            let (near, key) = topology::allow(keys, endpoints, self.node);
            matched.extend(key.filter(|_| !near.is_empty()).map(str::to_owned));
            allowed.extend(near);
        }
        allowed.sort_unstable();
        (allowed, matched)
    }

    fn balance(&self, chosen: Vec<&Endpoint<'_>>, tier: Tier) -> Balance {
        Balance { backends: chosen.into_iter().map(|endpoint| self.backend(endpoint)).collect(), tier }
    }

    fn backend(&self, endpoint: &Endpoint<'_>) -> Backend {
        let source = endpoint.source.as_ref().and_then(|source| self.imported?.source(source));
        Backend {
            address: endpoint.address,
            port: endpoint.port,
            weight: 1,
            sticky: source.map_or(self.sticky, |source| source.sticky),
            local: !endpoint.remote,
            source: endpoint.source.clone(),
        }
    }
}
