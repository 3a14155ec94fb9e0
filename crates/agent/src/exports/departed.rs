//! Offers of others that went while their service is exported here: that changes what the service means, and a member has
//! to have heard of it before the export is called everywhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tombolo_runtime::Key;

/// The hub's version at which the last of them went, by exported service.
#[derive(Debug, Default)]
pub(super) struct Departed(Mutex<BTreeMap<Key, u64>>);

impl Departed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, service: Key, version: u64) {
        self.lock().insert(service, version);
    }

    pub(super) fn of(&self, service: &Key) -> Option<u64> {
        self.lock().get(service).copied()
    }

    pub(super) fn forget(&self, service: &Key) {
        self.lock().remove(service);
    }
}
