//! Which exports could not be brought to the hub for so long that what they say of themselves is no longer true.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tombolo_runtime::Key;

/// Conflicts and restarts of the hub are over sooner.
const PATIENCE: Duration = Duration::from_secs(5);

/// Since when attempts have failed.
#[derive(Default)]
pub(super) struct Overdue(Mutex<BTreeMap<Key, Instant>>);

impl Overdue {
    /// Takes note of a failure of an attempt that was begun at this time. Returns whether there was no success for too long.
    pub(super) fn is_over(&self, key: &Key, begun: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.entry(key.clone()).or_insert(begun).elapsed() >= PATIENCE
    }

    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_success_gives_new_time() {
        let (overdue, key) = (Overdue::default(), Key::new("demo", "echo"));
        assert!(!overdue.is_over(&key, Instant::now()));
        tokio::time::advance(PATIENCE).await;
        assert!(overdue.is_over(&key, Instant::now()));
        overdue.forget(&key);
        assert!(!overdue.is_over(&key, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_took_long_counts_from_its_beginning() {
        let (overdue, key, begun) = (Overdue::default(), Key::new("demo", "echo"), Instant::now());
        tokio::time::advance(PATIENCE).await;
        assert!(overdue.is_over(&key, begun));
    }
}
