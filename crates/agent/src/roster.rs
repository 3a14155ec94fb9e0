//! The members at the hub that are who they say they are, and how much of what they wrote there counts.
//!
//! It follows the caches change by change, because it is asked for with every service that is looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Namespace;
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

type Listeners<T> = Mutex<Vec<Box<dyn Fn(&T) + Send + Sync>>>;

/// All members.
pub(crate) struct Roster {
    places: Arc<Cache<Namespace>>,
    members: Mutex<Arc<Members>>,
    /// Whose each namespace is.
    owners: Mutex<BTreeMap<String, ClusterId>>,
    /// The offers of each namespace.
    quotas: Mutex<BTreeMap<String, Quota>>,
    most_offers: usize,
    on_displacement: Listeners<Key>,
    on_member: Listeners<str>,
}

impl Roster {
    /// One that follows the caches. Whoever is told of changes by them must have been made after it.
    pub(crate) fn new(
        places: &Arc<Cache<Namespace>>,
        memberships: &Cache<Membership>,
        offers: &Cache<ServiceOffer>,
        most_offers: usize,
    ) -> Arc<Self> {
        let roster = Arc::new(Self {
            places: places.clone(),
            members: Mutex::default(),
            owners: Mutex::default(),
            quotas: Mutex::default(),
            most_offers,
            on_displacement: Mutex::default(),
            on_member: Mutex::default(),
        });
        let follower = roster.clone();
        places.listen_to_changes(move |change| follower.note_place(change));
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
        locked(&self.members).contains_key(&cluster)
            && origin::check_offer(&cluster, offer).is_ok()
            && self.has_room_for(offer)
    }

    /// Whether an offer is within the limit of the namespace it is in.
    pub(crate) fn has_room_for(&self, offer: &ServiceOffer) -> bool {
        let namespace = offer.metadata.namespace.as_deref().unwrap_or_default();
        locked(&self.quotas).get(namespace).is_none_or(|quota| quota.admits(&offer.metadata))
    }

    /// How many offers of a member are beyond its limit, and the sentence for it.
    pub(crate) fn excess(&self, cluster: &ClusterId) -> Option<(usize, Refused)> {
        let quotas = locked(&self.quotas);
        let quota = quotas.get(&names::hub_namespace(cluster))?;
        Some((quota.excess(), quota.refusal(cluster)?))
    }

    /// Calls `listener` with each offer that counts or no longer counts because another one came or went.
    pub(crate) fn on_displacement(&self, listener: impl Fn(&Key) + Send + Sync + 'static) {
        locked(&self.on_displacement).push(Box::new(listener));
    }

    /// Calls `listener` with the namespace of a member that came, went, states something else, or may have its endpoints
    /// elsewhere. Watermarks, which move all the time, are no such thing.
    pub(crate) fn on_member(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        locked(&self.on_member).push(Box::new(listener));
    }

    /// A member as its statement and its place at the hub have it. The cache of places has a change before anybody hears of
    /// it, so whoever reads with the members locked misses none.
    fn read(&self, namespace: &str, membership: &Membership) -> Member {
        let place = self.places.get(&Key::new("", namespace));
        let declared = origin::declared(place.as_deref(), Some(membership));
        Member { membership: membership.clone(), declared }
    }

    fn note_place(&self, change: &Change<'_, Namespace>) {
        let (Change::Put { new: place, .. } | Change::Gone(place)) = change;
        let namespace = place.name_any();
        let Some(cluster) = self.owner(&namespace) else { return };
        let mut members = locked(&self.members);
        let Some(known) = members.get(&cluster) else { return };
        let member = self.read(&namespace, &known.membership);
        if member.declared != known.declared {
            Arc::make_mut(&mut members).insert(cluster, Arc::new(member));
            drop(members);
            self.tell_of_member(&namespace);
        }
    }

    fn note_membership(&self, change: &Change<'_, Membership>) {
        let (Change::Put { new: membership, .. } | Change::Gone(membership)) = change;
        if membership.name_any() != STATEMENT {
            return;
        }
        let Ok(cluster) = origin::check_membership(membership) else { return };
        let namespace = membership.namespace().unwrap_or_default();
        let (mut members, mut owners) = (locked(&self.members), locked(&self.owners));
        match change {
            Change::Put { new, .. } => {
                owners.insert(namespace.clone(), cluster.clone());
                let member = self.read(&namespace, new);
                Arc::make_mut(&mut members).insert(cluster, Arc::new(member));
            }
            Change::Gone(_) => {
                owners.remove(&namespace);
                Arc::make_mut(&mut members).remove(&cluster);
            }
        }
        drop((members, owners));
        if !matches!(change, Change::Put { old: Some(old), new } if old.spec == new.spec) {
            self.tell_of_member(&namespace);
        }
    }

    fn tell_of_member(&self, namespace: &str) {
        locked(&self.on_member).iter().for_each(|listener| listener(namespace));
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
        let listeners = locked(&self.on_displacement);
        for name in displaced.into_iter().flatten() {
            let key = Key::new(namespace.clone(), name);
            listeners.iter().for_each(|listener| listener(&key));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
