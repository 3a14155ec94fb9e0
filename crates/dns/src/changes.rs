//! Which services are to be read again, and since when.
//!
//! A service is noted once however often it changes, so the list is never longer than there are services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tombolo_runtime::Key;

use crate::zone::Realm;

/// What has changed since somebody last asked.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    services: BTreeMap<(Realm, Key), Instant>,
    namespaces: BTreeMap<String, Instant>,
    /// The slices of each service, by name. They may have gone, but none is missing.
    slices: BTreeMap<(Realm, Key), BTreeSet<String>>,
}

/// Services and namespaces, each with the time of its first change.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) namespaces: Vec<(String, Instant)>,
    pub(crate) services: Vec<((Realm, Key), Instant)>,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn service(&self, realm: Realm, key: Key) {
        self.state().services.entry((realm, key)).or_insert_with(Instant::now);
        self.wake.notify_one();
    }

    pub(crate) fn namespace(&self, name: String) {
        self.state().namespaces.entry(name).or_insert_with(Instant::now);
        self.wake.notify_one();
    }

    /// A slice of a service has changed, come or gone.
    pub(crate) fn slice(&self, realm: Realm, key: Key, slice: String) {
        let mut state = self.state();
        state.slices.entry((realm, key.clone())).or_default().insert(slice);
        state.services.entry((realm, key)).or_insert_with(Instant::now);
        drop(state);
        self.wake.notify_one();
    }

    /// The slices of a service for which `get` finds something; the others are forgotten.
    pub(crate) fn slices<T>(&self, realm: Realm, key: &Key, get: impl Fn(&Key) -> Option<T>) -> Vec<T> {
        let mut state = self.state();
        let place = (realm, key.clone());
        let Some(names) = state.slices.get_mut(&place) else { return Vec::new() };
        let mut found = Vec::new();
        names.retain(|name| {
            let slice = get(&Key::new(key.namespace.clone(), name.clone()));
            let there = slice.is_some();
            found.extend(slice);
            there
        });
        if names.is_empty() {
            state.slices.remove(&place);
        }
        found
    }

    /// Waits until there is something, then takes all of it that belongs to `realms`.
    pub(crate) async fn take(&self, realms: &[Realm]) -> Batch {
        loop {
            let woken = self.wake.notified();
            let batch = self.take_now(realms);
            if !batch.services.is_empty() || !batch.namespaces.is_empty() {
                return batch;
            }
            woken.await;
        }
    }

    pub(crate) fn take_now(&self, realms: &[Realm]) -> Batch {
        let namespaces = std::mem::take(&mut self.state().namespaces).into_iter().collect();
        Batch { namespaces, services: self.take_services(realms) }
    }

    pub(crate) fn take_services(&self, realms: &[Realm]) -> Vec<((Realm, Key), Instant)> {
        self.state().services.extract_if(.., |(realm, _), _| realms.contains(realm)).collect()
    }
}
