//! What makes the controller of exports look at one again.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use tombolo_api::tombolo::OFFER_LABEL;
use tombolo_model::acknowledge::{Concerned, concerned, number};
use tombolo_model::names;
use tombolo_runtime::{Change, Key, Queue};

use super::awaited::Awaited;
use super::departed::Departed;
use crate::edition::Edition;
use crate::shared::{EditionViews, Shared};

/// Reports of members come the more often the more members there are, and each may concern every export that waits: each of
/// those is looked at once for all reports that come within so long for every member.
const PACE_OF_MEMBER: Duration = Duration::from_millis(10);

/// Every change that may change an offer or what is said about it puts the export into the queue.
pub(super) fn listen<E: Edition>(
    shared: &Arc<Shared>,
    views: &Arc<EditionViews<E>>,
    queue: &Arc<Queue<Key>>,
) {
    let add = queue.clone();
    views.exports.listen(move |export| add.add(Key::of(export)));
    // Services and slices change often, and most are not exported.
    let (add, exports) = (queue.clone(), views.exports.clone());
    let add_exported = Arc::new(move |key: Key| {
        if exports.get(&key).is_some() {
            add.add(key);
        }
    });
    let add = add_exported.clone();
    shared.services.listen(move |service| {
        add(Key::of(service));
        // One that holds the address of an import: the export is initialized when it is there.
        if let Some(name) = service.labels().get(E::POLICY.import_label) {
            add(Key::new(service.namespace().unwrap_or_default(), name.clone()));
        }
    });
    let add = add_exported.clone();
    shared.slices.listen(move |slice| {
        if let Some(service) = slice.labels().get(tombolo_api::service::SERVICE_NAME_LABEL) {
            add(Key::new(slice.namespace().unwrap_or_default(), service.clone()));
        }
    });
    let (add, own) = (queue.clone(), names::hub_namespace(&shared.config.cluster));
    shared.offers.listen(move |offer| {
        if offer.spec.dialect == E::POLICY.dialect {
            let key = Key::new(offer.spec.service.namespace.clone(), offer.spec.service.name.clone());
            // An offer of ours without an export is to be withdrawn; others concern us only if we export, too.
            if offer.namespace().as_deref() == Some(&own) { add.add(key) } else { add_exported(key) }
        }
    });
    // It may come to count, or no longer, because another one of ours went or came.
    let (add, offers, own) =
        (queue.clone(), shared.offers.clone(), names::hub_namespace(&shared.config.cluster));
    shared.roster.on_displacement(move |place| {
        let offer = offers.get(place).filter(|_| place.namespace == own);
        if let Some(offer) = offer.filter(|offer| offer.spec.dialect == E::POLICY.dialect) {
            add.add(Key::new(offer.spec.service.namespace.clone(), offer.spec.service.name.clone()));
        }
    });
    // What another agent of this cluster, or a write whose answer was lost, left at the hub is to be corrected.
    let (add, offers, own) = (queue.clone(), shared.clone(), names::hub_namespace(&shared.config.cluster));
    shared.hub_slices.listen_to_changes(move |change| {
        let (Change::Put { new: slice, .. } | Change::Gone(slice)) = change;
        if offers.ledgers.hub_slices.is_echo(change) {
            return;
        }
        let offer = slice.labels().get(OFFER_LABEL).filter(|_| slice.namespace().as_deref() == Some(&own));
        let offer = offer.and_then(|offer| offers.offers.get(&Key::new(own.clone(), offer.clone())));
        if let Some(offer) = offer.filter(|offer| offer.spec.dialect == E::POLICY.dialect) {
            add.add(Key::new(offer.spec.service.namespace.clone(), offer.spec.service.name.clone()));
        }
    });
}

/// What others offered, too, and do no more.
pub(super) fn listen_to_departures<E: Edition>(
    shared: &Shared,
    views: &EditionViews<E>,
    departed: &Arc<Departed>,
) {
    let (exports, departed) = (views.exports.clone(), departed.clone());
    shared.offers.listen_to_changes(move |change| {
        let Change::Gone(offer) = change else { return };
        let key = Key::new(offer.spec.service.namespace.clone(), offer.spec.service.name.clone());
        if offer.spec.dialect == E::POLICY.dialect && exports.get(&key).is_some() {
            departed.note(key, number(offer.resource_version().as_deref()));
        }
    });
}

/// Who has applied an offer, and who is waited for, may concern every export.
pub(super) fn listen_to_members<E: Edition>(
    shared: &Shared,
    views: &EditionViews<E>,
    queue: &Arc<Queue<Key>>,
    awaited: &Arc<Awaited>,
) {
    let (add, exports) = (queue.clone(), views.exports.clone());
    let add_all = Arc::new(move || exports.all().iter().for_each(|export| add.add(Key::of(&**export))));
    let (add, all, awaited) = (queue.clone(), add_all.clone(), awaited.clone());
    let roster = shared.roster.clone();
    shared.memberships.listen_to_changes(move |change| {
        let (old, new) = match change {
            Change::Put { old, new } => (*old, Some(*new)),
            Change::Gone(last) => (Some(*last), None),
        };
        match concerned(old, new) {
            Concerned::Everyone => all(),
            Concerned::Waiting(failed) => {
                let pace =
                    PACE_OF_MEMBER.saturating_mul(roster.members().len().try_into().unwrap_or(u32::MAX));
                awaited.waiting().into_iter().for_each(|key| add.add_after(key, pace));
                let ours = failed.into_iter().filter(|(dialect, _)| *dialect == E::POLICY.dialect);
                ours.for_each(|(_, service)| add.add(Key::new(service.namespace, service.name)));
            }
        }
    });
    shared.on_death_or_return(move |_| add_all());
}

/// When the hub is back after others may have let this cluster go, all exports are judged anew.
pub(super) fn listen_to_reach<E: Edition>(shared: &Shared, views: &EditionViews<E>, queue: &Arc<Queue<Key>>) {
    let (add, exports) = (queue.clone(), views.exports.clone());
    shared.reach.on_change(move || exports.all().iter().for_each(|export| add.add(Key::of(&**export))));
}
