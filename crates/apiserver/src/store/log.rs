//! The recent changes of one resource, and how watchers follow them.
//!
//! Watchers pull: each remembers the revision it has seen, sleeps until the bell rings and takes what is newer. A slow
//! one costs nothing but its own place; when that has been forgotten, it is told to list again (410).

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tombolo_runtime::Signal;

use super::Stored;

/// Never fewer changes than this are remembered, however old.
const KEEP_AT_LEAST: usize = 1_024;
/// Never more, however young.
const KEEP_AT_MOST: usize = 100_000;
/// Between the two, changes of this age may go.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(75);

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: ChangeKind,
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
    /// The watch event in its commonest form, encoded by the first watcher that needs it.
    line: OnceLock<Bytes>,
}

impl Change {
    pub(crate) fn new(
        revision: u64,
        kind: ChangeKind,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) -> Self {
        Self { revision, kind, object, previous, line: OnceLock::new() }
    }

    pub(crate) fn line(&self, encode: impl FnOnce() -> Bytes) -> Bytes {
        self.line.get_or_init(encode).clone()
    }
}

/// The recent changes of one resource, oldest first.
#[derive(Debug)]
pub(super) struct Log {
    changes: VecDeque<(Timestamp, Arc<Change>)>,
    /// Every change after this revision is still here.
    floor: u64,
    bell: Arc<Bell>,
}

/// Shows the newest revision, or that there will be no other.
pub(super) type Bell = Signal<Option<u64>>;

impl Drop for Log {
    fn drop(&mut self) {
        self.bell.set(None);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::starting(0)
    }
}

impl Log {
    pub(super) fn starting(floor: u64) -> Self {
        Self { changes: VecDeque::new(), floor, bell: Arc::new(Bell::new(Some(floor))) }
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    pub(super) fn push(&mut self, change: Change, now: Timestamp) {
        self.changes.push_back((now, Arc::new(change)));
        while self.changes.len() > KEEP_AT_LEAST && self.oldest_may_go(now) {
            if let Some((_, forgotten)) = self.changes.pop_front() {
                self.floor = forgotten.revision;
            }
        }
    }

    fn oldest_may_go(&self, now: Timestamp) -> bool {
        let crowded = self.changes.len() > KEEP_AT_MOST;
        crowded || self.changes.front().is_some_and(|(at, _)| now.duration_since(*at) > KEEP_FOR)
    }

    /// What happened after `revision`; `None` when part of it is forgotten.
    pub(super) fn after(&self, revision: u64) -> Option<Vec<Arc<Change>>> {
        if revision < self.floor {
            return None;
        }
        let start = self.changes.partition_point(|(_, change)| change.revision <= revision);
        Some(self.changes.range(start..).map(|(_, change)| change.clone()).collect())
    }

    pub(super) fn cursor(&self, revision: u64) -> Cursor {
        Cursor { seen: revision, bell: self.bell.clone() }
    }
}

/// A watcher's place in the log.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) seen: u64,
    bell: Arc<Bell>,
}

impl Cursor {
    /// Waits until there may be something newer; false when the store, or this part of its history, is gone.
    pub(crate) async fn news(&mut self) -> bool {
        let seen = self.seen;
        self.bell.wait_for(|latest| latest.is_none_or(|latest| latest > seen)).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn push(log: &mut Log, revision: u64, at: i64) {
        let object = Stored::new(json!({}), revision);
        let now = Timestamp::from_second(at).unwrap();
        log.push(Change::new(revision, ChangeKind::Added, object, None), now);
    }

    #[test]
    fn a_watcher_that_fell_too_far_behind_is_told_so() {
        let mut log = Log::starting(0);
        for revision in 1..=(KEEP_AT_LEAST as u64 + 10) {
            push(&mut log, revision, revision as i64 * 100);
        }
        assert!(log.after(9).is_none());
        assert_eq!(log.after(10).map(|changes| changes.len()), Some(KEEP_AT_LEAST));
    }

    #[test]
    fn young_changes_are_kept_beyond_the_minimum() {
        let mut log = Log::starting(0);
        for revision in 1..=(KEEP_AT_LEAST as u64 + 10) {
            push(&mut log, revision, 5);
        }
        assert_eq!(log.after(0).map(|changes| changes.len()), Some(KEEP_AT_LEAST + 10));
    }

    #[test]
    fn a_log_that_starts_later_does_not_pretend_to_know_the_past() {
        let log = Log::starting(50);
        assert!(log.after(49).is_none());
        assert_eq!(log.after(50).map(|changes| changes.len()), Some(0));
    }
}
