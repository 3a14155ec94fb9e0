//! What this process made objects hold, so that it need not be compared again.
//!
//! A controller that writes hears of it through its watch, and looks again. Whether an object holds what is wanted costs
//! more than everything else it does, so the ledger remembers which content was seen to be there at which version. It is
//! no truth of its own: an object at another version is compared as ever, unless it is from before this process wrote
//! something else.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Api, Error, ResourceExt};
use serde::Serialize;

use crate::cache::{Cache, Change};
use crate::key::Key;
use crate::write::{Extent, Kind, apply, holds};

/// Of the objects of one kind.
#[derive(Default)]
pub struct Ledger(Mutex<HashMap<Key, Entry>>);

struct Entry {
    version: String,
    content: u64,
}

impl Ledger {
    /// One that forgets what changes or goes. To be made before others listen to the cache.
    pub fn of<K: ResourceExt>(cache: &Cache<K>) -> Arc<Self> {
        let ledger = Arc::new(Self::default());
        let listening = ledger.clone();
        cache.listen_to_changes(move |change| {
            let (Change::Put { new: object, .. } | Change::Gone(object)) = change;
            if !listening.is_known(change) {
                listening.entries().remove(&Key::of(*object));
            }
        });
        ledger
    }

    /// Whether a change is what this process wrote over something, come back. What it made is no echo: until now, nobody who
    /// looked at what is too much could see it.
    pub fn is_echo<K: ResourceExt>(&self, change: &Change<'_, K>) -> bool {
        matches!(change, Change::Put { old: Some(_), .. }) && self.is_known(change)
    }

    fn is_known<K: ResourceExt>(&self, change: &Change<'_, K>) -> bool {
        let Change::Put { new, .. } = change else { return false };
        self.entries().get(&Key::of(*new)).is_some_and(|entry| entry.is_at(*new))
    }

    /// As [`put`](crate::put): makes the API server hold `desired`, unless `current` is known or seen to.
    pub async fn put<K: Kind>(
        &self,
        manager: &str,
        api: &Api<K>,
        current: Option<&K>,
        desired: &K,
        extent: Extent,
    ) -> Result<Option<K>, Error> {
        let content = digest(desired);
        if current.is_some_and(|current| self.has(manager, current, desired, extent, content)) {
            return Ok(None);
        }
        let (written, as_desired) = apply(manager, api, desired, extent).await?;
        if as_desired {
            self.note(&written, content);
        }
        Ok(Some(written))
    }

    /// The version at which this process has last made an object hold something, unless others have changed it.
    pub fn version_of(&self, key: &Key) -> Option<String> {
        self.entries().get(key).map(|entry| entry.version.clone())
    }

    /// Takes note that this process changed nothing but the status.
    pub fn note_status<K: ResourceExt>(&self, before: &K, after: &K) {
        let mut entries = self.entries();
        let entry = entries.get_mut(&Key::of(before)).filter(|entry| entry.is_at(before));
        if let Some((entry, version)) = entry.zip(after.resource_version()) {
            entry.version = version;
        }
    }

    fn has<K: Kind>(&self, manager: &str, current: &K, desired: &K, extent: Extent, content: u64) -> bool {
        let known = self.entries().get(&Key::of(current)).map(|entry| (entry.is_at(current), entry.content));
        match known {
            // Other words for the same would be written once, in vain.
            Some((true, known)) => known == content,
            // What this process wrote last is something else: what is seen here was before that.
            Some((false, known)) if known != content => false,
            _ => {
                let has = holds(manager, current, desired, extent);
                if has {
                    self.note(current, content);
                }
                has
            }
        }
    }

    fn note<K: ResourceExt>(&self, object: &K, content: u64) {
        if let Some(version) = object.resource_version() {
            self.entries().insert(Key::of(object), Entry { version, content });
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_at<K: ResourceExt>(&self, object: &K) -> bool {
        object.meta().resource_version.as_ref() == Some(&self.version)
    }
}

/// Tells contents apart.
fn digest<T: Serialize>(object: &T) -> u64 {
    // What cannot be serialized cannot be written either.
    let text = serde_json::to_vec(object).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    hasher.write(&text);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(version: &str, value: &str) -> ConfigMap {
        let mut map =
            ConfigMap { data: Some([("key".to_owned(), value.to_owned())].into()), ..ConfigMap::default() };
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        map
    }

    fn has(ledger: &Ledger, current: &ConfigMap, desired: &ConfigMap) -> bool {
        ledger.has("us", current, desired, Extent::Whole, digest(desired))
    }

    #[test]
    fn what_was_seen_at_a_version_is_known_at_that_version_only() {
        let ledger = Ledger::default();
        let (wanted, other) = (map("", "wanted"), map("", "other"));
        assert!(has(&ledger, &map("1", "wanted"), &wanted));
        // At a version that is known nobody looks.
        assert!(has(&ledger, &map("1", "other"), &wanted));
        assert!(!has(&ledger, &map("1", "wanted"), &other));
        assert!(!has(&ledger, &map("2", "other"), &wanted));
        assert!(has(&ledger, &map("2", "wanted"), &wanted));
    }

    #[test]
    fn what_was_there_before_something_else_was_written_is_there_no_more() {
        let ledger = Ledger::default();
        let (wanted, other) = (map("", "wanted"), map("", "other"));
        ledger.note(&map("2", "other"), digest(&other));
        // Whoever took it from the cache before the write came back.
        assert!(!has(&ledger, &map("1", "wanted"), &wanted));
        assert!(has(&ledger, &map("2", "other"), &other));
    }

    #[test]
    fn an_echo_is_what_was_left_and_nothing_else() {
        let ledger = Ledger::default();
        ledger.note(&map("1", "a"), 0);
        let old = map("0", "a");
        let is_echo =
            |version: &str| ledger.is_echo(&Change::Put { old: Some(&old), new: &map(version, "a") });
        assert!(is_echo("1") && !is_echo("2"));
        assert!(!ledger.is_echo(&Change::Gone(&map("1", "a"))), "it went");
        assert!(
            !ledger.is_echo(&Change::Put { old: None, new: &map("1", "a") }),
            "it may be too much by now"
        );
        ledger.note_status(&map("1", "a"), &map("2", "a"));
        assert!(is_echo("2") && !is_echo("1"));
        ledger.note_status(&map("1", "a"), &map("3", "a"));
        assert!(is_echo("2"), "somebody else was there before");
    }
}
