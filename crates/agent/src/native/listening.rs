//! Every change that may change a native name puts it into the queue.
//!
//! Most Services, slices and offers have no import that asks for a native name; they are let pass.

use std::sync::Arc;

use kube::ResourceExt;
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{
    Dialect, NATIVE_IMPORT_LABEL, OFFER_LABEL, SET_ASIDE_SELECTOR_ANNOTATION, ServiceOffer,
};
use tombolo_model::{names, strategy};
use tombolo_runtime::{Cache, Key, Queue};

use crate::shared::Shared;

/// The names that somebody asks for.
#[derive(Clone)]
struct Asked {
    imports: Arc<Cache<ServiceImport>>,
    queue: Arc<Queue<Key>>,
}

impl Asked {
    fn add(&self, key: Key) {
        if self.imports.get(&key).is_some_and(|import| strategy::of_import(&import).is_some()) {
            self.queue.add(key);
        }
    }

    fn add_offer(&self, offer: &ServiceOffer) {
        if offer.spec.dialect == Dialect::Mcs {
            let service = &offer.spec.service;
            self.add(Key::new(service.namespace.clone(), service.name.clone()));
        }
    }
}

pub(super) fn listen(shared: &Arc<Shared>, imports: &Arc<Cache<ServiceImport>>, queue: &Arc<Queue<Key>>) {
    let asked = Asked { imports: imports.clone(), queue: queue.clone() };
    let add = queue.clone();
    imports.listen(move |import| add.add(Key::of(import)));
    listen_to_member(shared, &asked);
    listen_to_hub(shared, &asked);
}

/// What was made or put aside for an import is looked at even when there is none any more.
fn listen_to_member(shared: &Shared, asked: &Asked) {
    let add = asked.clone();
    shared.services.listen(move |service| {
        let ours = service.labels().contains_key(NATIVE_IMPORT_LABEL)
            || service.annotations().contains_key(SET_ASIDE_SELECTOR_ANNOTATION)
            || strategy::is_put_aside(service);
        match ours {
            true => add.queue.add(Key::of(service)),
            false => add.add(Key::of(service)),
        }
    });
    let add = asked.clone();
    shared.slices.listen(move |slice| {
        let key = |name: &String| Key::new(slice.namespace().unwrap_or_default(), name.clone());
        match (slice.labels().get(NATIVE_IMPORT_LABEL), slice.labels().get(SERVICE_NAME_LABEL)) {
            (Some(name), _) => add.queue.add(key(name)),
            (None, Some(name)) => add.add(key(name)),
            (None, None) => {}
        }
    });
}

fn listen_to_hub(shared: &Arc<Shared>, asked: &Asked) {
    let add = asked.clone();
    shared.offers.listen(move |offer| add.add_offer(offer));
    let (add, offers) = (asked.clone(), shared.offers.clone());
    shared.hub_slices.listen(move |slice| {
        let label = slice.labels().get(OFFER_LABEL).cloned().unwrap_or_default();
        let offer = offers.get(&Key::new(slice.namespace().unwrap_or_default(), label));
        offer.iter().for_each(|offer| add.add_offer(offer));
    });
    let (add, offers) = (asked.clone(), shared.offers.clone());
    shared
        .roster
        .on_displacement(move |place| offers.get(place).iter().for_each(|offer| add.add_offer(offer)));
    let (add, offers) = (asked.clone(), shared.offers.clone());
    shared.roster.on_member(move |namespace| {
        offers.within(namespace).iter().for_each(|offer| add.add_offer(offer));
    });
    let (add, offers) = (asked.clone(), shared.offers.clone());
    shared.on_death_or_return(move |cluster| {
        offers.within(&names::hub_namespace(cluster)).iter().for_each(|offer| add.add_offer(offer));
    });
}
