//! Which addresses this node answers for.
//!
//! All nodes look at the same objects and elect the same node for each address, so nobody has to ask. A node says in its
//! Lease what it answers for; the others leave it that as long as it is alive and may.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;
use tombolo_model::balancer::{Runner, announced, elect, local_nodes, may_announce};
use tombolo_runtime::{Change, Key};

use crate::roster::{Roster, claims_of, inherited};
use crate::shared::Shared;

/// Changes are gathered for so long before everything is looked at again.
const GATHER: Duration = Duration::from_millis(10);

/// Decides for one node.
pub(crate) struct Announcer {
    shared: Arc<Shared>,
    changed: Arc<Notify>,
    roster: watch::Receiver<Roster>,
    /// What this node answers for.
    mine: watch::Sender<BTreeSet<IpAddr>>,
    /// Addresses of ours that somebody else was heard announcing.
    rivals: mpsc::Receiver<IpAddr>,
    /// Those given up to somebody else while nobody could be asked.
    yielded: BTreeSet<IpAddr>,
}

impl Announcer {
    /// One that is told of changes from now on.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        roster: watch::Receiver<Roster>,
        mine: watch::Sender<BTreeSet<IpAddr>>,
        rivals: mpsc::Receiver<IpAddr>,
    ) -> Self {
        let changed = Arc::new(Notify::new());
        let tell = changed.clone();
        shared.services.listen(move |_| tell.notify_one());
        let tell = changed.clone();
        shared.slices.listen(move |_| tell.notify_one());
        let tell = changed.clone();
        shared.nodes.listen(move |_| tell.notify_one());
        let tell = changed.clone();
        shared.leases.listen_to_changes(move |change| {
            // Who says to answer for something else matters at once; that somebody is alive does not.
            if let Change::Put { old, new } = change
                && old.is_none_or(|old| claims_of(old) != claims_of(new))
            {
                tell.notify_one();
            }
        });
        Self { shared: shared.clone(), changed, roster, mine, rivals, yielded: BTreeSet::new() }
    }

    /// Works for ever, once everything has been listed.
    pub(crate) async fn run(mut self) {
        self.mine.send_replace(inherited(&self.shared));
        loop {
            self.decide();
            tokio::select! {
                () = self.changed.notified() => sleep(GATHER).await,
                changed = self.roster.changed() => if changed.is_err() { return },
                Some(address) = self.rivals.recv() => self.meet(address),
            }
        }
    }

    /// Somebody else announces an address of ours. With the others in view the election settles that; without, whoever
    /// stepped in had reason to.
    fn meet(&mut self, address: IpAddr) {
        self.shared.metrics.count_rival();
        if self.roster.borrow().in_contact {
            tracing::warn!(%address, "somebody else announces an address that this node answers for");
        } else {
            tracing::warn!(%address, "given up: somebody else announces it, and the API server is out of reach");
            self.yielded.insert(address);
        }
    }

    fn decide(&mut self) {
        let mut roster = self.roster.borrow().clone();
        // Claims as they are now: by older ones two nodes might answer for an address until the next look.
        roster.refresh(&self.shared);
        if roster.in_contact {
            self.yielded.clear();
        }
        let next: BTreeSet<IpAddr> = self
            .allowed()
            .into_iter()
            .filter(|(address, nodes)| self.wins(*address, nodes, &roster))
            .map(|(address, _)| address)
            .collect();
        self.shared.metrics.note_announced(next.len());
        self.mine.send_if_modified(|current| {
            let changed = *current != next;
            if changed {
                tell(current, &next);
                *current = next;
            }
            changed
        });
    }

    /// The addresses that are announced, each with the nodes that may do it.
    fn allowed(&self) -> BTreeMap<IpAddr, BTreeSet<String>> {
        let nodes = self.shared.nodes.all();
        let everywhere: BTreeSet<String> =
            nodes.iter().filter(|node| may_announce(node)).map(|node| node.name_any()).collect();
        let mut allowed: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for service in self.shared.services.all() {
            let Some(announced) = announced(&service, self.shared.class()) else { continue };
            let here = announced.local.then(|| self.shared.slices.group(&Key::of(&*service)));
            let here = here.as_ref().map(|slices| local_nodes(slices.iter().map(|slice| &**slice)));
            for address in announced.addresses {
                let nodes = allowed.entry(address).or_insert_with(|| everywhere.clone());
                if let Some(here) = &here {
                    nodes.retain(|node| here.contains(node.as_str()));
                }
            }
        }
        allowed
    }

    fn wins(&self, address: IpAddr, allowed: &BTreeSet<String>, roster: &Roster) -> bool {
        let (config, mine) = (&self.shared.config, self.mine.borrow());
        if self.yielded.contains(&address) {
            return false;
        }
        let may = |node: &String| allowed.contains(node) && !roster.mute.contains(node);
        let runners = roster.live.iter().filter(|(node, _)| may(node)).map(|(node, claims)| Runner {
            node,
            holds: if *node == config.node { mine.contains(&address) } else { claims.contains(&address) },
        });
        elect(address, runners, config.preemptive) == Some(config.node.as_str())
    }
}

fn tell(before: &BTreeSet<IpAddr>, after: &BTreeSet<IpAddr>) {
    for address in after.difference(before) {
        tracing::info!(%address, "this node answers for it");
    }
    for address in before.difference(after) {
        tracing::info!(%address, "this node does not answer for it any more");
    }
}
