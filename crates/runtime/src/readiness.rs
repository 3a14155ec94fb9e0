//! What a part still waits for before it is ready, by name.
//!
//! A part that is not ready says why: `/readyz` lists what is missing. Each thing waited for is a guard; dropping it
//! means it has happened.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything a process waits for. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<String>>>);

impl Readiness {
    /// Not ready until the guard is dropped.
    pub fn wait_for(&self, what: impl Into<String>) -> Waiting {
        let what = what.into();
        self.pending_set().insert(what.clone());
        Waiting { what, readiness: self.clone() }
    }

    /// What is still missing; empty when ready.
    pub fn pending(&self) -> Vec<String> {
        self.pending_set().iter().cloned().collect()
    }

    fn pending_set(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that has not happened yet.
#[derive(Debug)]
pub struct Waiting {
    what: String,
    readiness: Readiness,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.readiness.pending_set().remove(&self.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_nothing_is_waited_for() {
        let readiness = Readiness::default();
        let (hub, member) = (readiness.wait_for("hub"), readiness.wait_for("member"));
        assert_eq!(readiness.pending(), ["hub", "member"]);
        drop(member);
        assert_eq!(readiness.pending(), ["hub"]);
        drop(hub);
        assert!(readiness.pending().is_empty());
    }
}
