//! The members at the hub that are who they say they are, and how much of what they wrote there counts.
//!
//! It follows the caches change by change, because it is asked for with every service that is looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use tombolo_api::tombolo::{Membership, STATEMENT, ServiceOffer};
use tombolo_model::address::Declared;
use tombolo_model::origin::{self, Quota, Refused};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Cache, Change, Key};

/// A member, with what it says about itself.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) membership: Membership,
    /// The addresses it may have endpoints at.
    pub(crate) declared: Declared,
}

pub(crate) type Members = BTreeMap<ClusterId, Arc<Member>>;

type Listener = Box<dyn Fn(&Key) + Send + Sync>;

/// All members.
pub(crate) struct Roster {
    members: Mutex<Arc<Members>>,
    /// Whose each namespace is.
    owners: Mutex<BTreeMap<String, ClusterId>>,
    /// The offers of each namespace.
    quotas: Mutex<BTreeMap<String, Quota>>,
    most_offers: usize,
    listeners: Mutex<Vec<Listener>>,
}

impl Roster {
    /// One that follows the caches. Whoever is told of changes by them must have been made after it.
    pub(crate) fn new(
        memberships: &Cache<Membership>,
        offers: &Cache<ServiceOffer>,
        most_offers: usize,
    ) -> Arc<Self> {
        let roster = Arc::new(Self {
            members: Mutex::default(),
            owners: Mutex::default(),
            quotas: Mutex::default(),
            most_offers,
            listeners: Mutex::default(),
        });
        let follower = roster.clone();
        memberships.listen_to_changes(move |change| follower.note_membership(change));
        let follower = roster.clone();
        offers.listen_to_changes(move |change| follower.note_offer(change));
        roster
    }

    pub(crate) fn members(&self) -> Arc<Members> {
        locked(&self.members).clone()
    }

    /// The member whose namespace it is.
    pub(crate) fn owner(&self, namespace: &str) -> Option<ClusterId> {
        locked(&self.owners).get(namespace).cloned()
    }

    /// Whether an offer is of the cluster it says, a member, and within that member's limit.
    pub(crate) fn check_offer(&self, offer: &ServiceOffer) -> bool {
        let Ok(cluster) = offer.spec.cluster.parse::<ClusterId>() else { return false };
        let namespace = offer.metadata.namespace.as_deref().unwrap_or_default();
        locked(&self.members).contains_key(&cluster)
            && origin::check_offer(&cluster, offer).is_ok()
            && locked(&self.quotas).get(namespace).is_none_or(|quota| quota.admits(&offer.metadata))
    }

    /// How many offers of a member are beyond its limit, and the sentence for it.
    pub(crate) fn excess(&self, cluster: &ClusterId) -> Option<(usize, Refused)> {
        let quotas = locked(&self.quotas);
        let quota = quotas.get(&names::hub_namespace(cluster))?;
        Some((quota.excess(), quota.refusal(cluster)?))
    }

    /// Calls `listener` with each offer that counts or no longer counts because another one came or went.
    pub(crate) fn on_displacement(&self, listener: impl Fn(&Key) + Send + Sync + 'static) {
        locked(&self.listeners).push(Box::new(listener));
    }

    fn note_membership(&self, change: &Change<'_, Membership>) {
        let (Change::Put { new: membership, .. } | Change::Gone(membership)) = change;
        if membership.name_any() != STATEMENT {
            return;
        }
        let Ok(cluster) = origin::check_membership(membership) else { return };
        let (mut members, mut owners) = (locked(&self.members), locked(&self.owners));
        let members = Arc::make_mut(&mut members);
        match change {
            Change::Put { new, .. } => {
                owners.insert(new.namespace().unwrap_or_default(), cluster.clone());
                let declared = Declared::read(&new.spec.pod_cidrs).0;
                let membership = (*new).clone();
                members.insert(cluster, Arc::new(Member { membership, declared }));
            }
            Change::Gone(last) => {
                owners.remove(&last.namespace().unwrap_or_default());
                members.remove(&cluster);
            }
        }
    }

    fn note_offer(&self, change: &Change<'_, ServiceOffer>) {
        let (Change::Put { new: offer, .. } | Change::Gone(offer)) = change;
        let namespace = offer.namespace().unwrap_or_default();
        let mut quotas = locked(&self.quotas);
        let quota = quotas.entry(namespace.clone()).or_insert_with(|| Quota::new(self.most_offers));
        let displaced = match change {
            Change::Put { old, new } => {
                let made_room =
                    old.filter(|old| old.uid() != new.uid()).and_then(|old| quota.remove(&old.metadata));
                [made_room, quota.insert(&new.metadata)]
            }
            Change::Gone(last) => [quota.remove(&last.metadata), None],
        };
        drop(quotas);
        let listeners = locked(&self.listeners);
        for name in displaced.into_iter().flatten() {
            let key = Key::new(namespace.clone(), name);
            listeners.iter().for_each(|listener| listener(&key));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
