//! How far the agent has come with what the hub shows: the watermarks it publishes.
//!
//! Offers and slices come over two watches that know nothing of each other, so each has a watermark of its own: the
//! resource version up to which everything seen there has been applied. What could not be applied does not hold it back;
//! it is named among the failures instead.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::Error;
use tombolo_api::tombolo::{Dialect, Failure};
use tombolo_runtime::{Key, Next};

use crate::edition::Edition;

type Name = (Dialect, Key);

/// Everything seen, pending and failed.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    offers: Track,
    slices: Track,
    failures: BTreeMap<Name, Failure>,
}

/// One watch.
#[derive(Debug, Default)]
struct Track {
    seen: u64,
    /// What was published: everything up to here is applied, so nothing that is pending can be older.
    published: u64,
    /// What is not applied yet, with the first version that touched it.
    pending: BTreeMap<Name, u64>,
}

impl Track {
    fn saw(&mut self, name: Name, version: u64) {
        self.seen = self.seen.max(version);
        // The former state of what changes now is told with its old version.
        self.pending.entry(name).or_insert(version.max(self.published.saturating_add(1)));
    }

    fn publish(&mut self) -> Option<u64> {
        let watermark = self.watermark();
        self.published = self.published.max(watermark.unwrap_or(0));
        watermark
    }

    fn watermark(&self) -> Option<u64> {
        let oldest = self.pending.values().min();
        oldest.map_or(Some(self.seen), |oldest| oldest.checked_sub(1)).filter(|version| *version > 0)
    }
}

/// What is published of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) offers: Option<u64>,
    pub(crate) slices: Option<u64>,
    pub(crate) failures: Vec<Failure>,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saw_offer<E: Edition>(&self, key: &Key, version: Option<&str>) {
        if let Some(version) = version.and_then(|text| text.parse().ok()) {
            self.state().offers.saw((E::POLICY.dialect, key.clone()), version);
        }
    }

    pub(crate) fn saw_slice<E: Edition>(&self, key: &Key, version: Option<&str>) {
        if let Some(version) = version.and_then(|text| text.parse().ok()) {
            self.state().slices.saw((E::POLICY.dialect, key.clone()), version);
        }
    }

    /// A slice whose offer is not known yet: nothing is to be done for it now, and its offer brings it up again.
    pub(crate) fn saw_early_slice(&self, version: Option<&str>) {
        if let Some(version) = version.and_then(|text| text.parse().ok()) {
            let mut state = self.state();
            state.slices.seen = state.slices.seen.max(version);
        }
    }

    pub(crate) fn report(&self) -> Report {
        let mut state = self.state();
        Report {
            offers: state.offers.publish(),
            slices: state.slices.publish(),
            failures: state.failures.values().cloned().collect(),
        }
    }

    /// How far the watermarks of offers and slices are behind what was seen, in resource versions.
    pub(crate) fn lag(&self) -> (u64, u64) {
        let state = self.state();
        let lag = |track: &Track| track.seen - track.watermark().unwrap_or(0).min(track.seen);
        (lag(&state.offers), lag(&state.slices))
    }

    /// Someone looks at a service now. What is seen from here on counts as new.
    pub(crate) fn begin<E: Edition>(&self, key: &Key) -> Work<'_> {
        let name = (E::POLICY.dialect, key.clone());
        let state = self.state();
        let versions = [state.offers.pending.get(&name).copied(), state.slices.pending.get(&name).copied()];
        drop(state);
        Work { progress: self, name, versions }
    }
}

/// A service that is being looked at.
pub(crate) struct Work<'a> {
    progress: &'a Progress,
    name: Name,
    versions: [Option<u64>; 2],
}

impl Work<'_> {
    /// Takes note of what came of it.
    pub(crate) fn end(self, outcome: Result<Next, Error>) -> Result<Next, Error> {
        let mut state = self.progress.state();
        let State { offers, slices, failures } = &mut *state;
        // What was touched again meanwhile stays pending under the version that touched it first.
        for (track, version) in [offers, slices].into_iter().zip(self.versions) {
            if version.is_some() && track.pending.get(&self.name).copied() == version {
                track.pending.remove(&self.name);
            }
        }
        match &outcome {
            Ok(_) => failures.remove(&self.name),
            Err(error) => failures.insert(self.name.clone(), failure(&self.name, error)),
        };
        outcome
    }
}

fn failure((dialect, key): &Name, error: &Error) -> Failure {
    let reason = match error {
        Error::Api(status) if !status.reason.is_empty() => status.reason.clone(),
        Error::Api(_) => "ApiError".to_owned(),
        _ => "Unreachable".to_owned(),
    };
    Failure {
        dialect: *dialect,
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        reason,
        message: error.to_string().chars().take(1000).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edition::{Kep, Mcs};

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[test]
    fn the_watermark_stays_below_what_is_not_applied() {
        let progress = Progress::default();
        assert_eq!(progress.report(), Report::default());
        progress.saw_offer::<Kep>(&key("a"), Some("10"));
        progress.saw_offer::<Kep>(&key("b"), Some("12"));
        assert_eq!(progress.report().offers, Some(9));
        let _ = progress.begin::<Kep>(&key("a")).end(Ok(Next::Rest));
        assert_eq!(progress.report().offers, Some(11));
        let _ = progress.begin::<Kep>(&key("b")).end(Ok(Next::Rest));
        assert_eq!(progress.report().offers, Some(12));
    }

    #[test]
    fn the_dialects_do_not_answer_for_each_other() {
        let progress = Progress::default();
        progress.saw_offer::<Kep>(&key("a"), Some("10"));
        let _ = progress.begin::<Mcs>(&key("a")).end(Ok(Next::Rest));
        assert_eq!(progress.report().offers, Some(9));
    }

    #[test]
    fn a_slice_that_comes_before_its_offer_holds_nothing_back() {
        let progress = Progress::default();
        progress.saw_early_slice(Some("10"));
        assert_eq!(progress.report().slices, Some(10));
        progress.saw_slice::<Kep>(&key("a"), Some("11"));
        assert_eq!(progress.report().slices, Some(10));
    }

    #[test]
    fn a_published_watermark_does_not_go_back_when_something_old_changes() {
        let progress = Progress::default();
        for (name, version) in [("a", "10"), ("b", "20")] {
            progress.saw_offer::<Kep>(&key(name), Some(version));
            let _ = progress.begin::<Kep>(&key(name)).end(Ok(Next::Rest));
        }
        assert_eq!(progress.report().offers, Some(20));
        for version in ["10", "30"] {
            progress.saw_offer::<Kep>(&key("a"), Some(version));
        }
        assert_eq!(progress.report().offers, Some(20));
        let _ = progress.begin::<Kep>(&key("a")).end(Ok(Next::Rest));
        assert_eq!(progress.report().offers, Some(30));
    }

    #[test]
    fn a_failure_is_named_and_does_not_hold_others_back() {
        let progress = Progress::default();
        progress.saw_slice::<Mcs>(&key("a"), Some("10"));
        let broken = Error::LinesCodecMaxLineLengthExceeded;
        assert!(progress.begin::<Mcs>(&key("a")).end(Err(broken)).is_err());
        let report = progress.report();
        assert_eq!((report.slices, report.failures.len()), (Some(10), 1));
        let _ = progress.begin::<Mcs>(&key("a")).end(Ok(Next::Rest));
        assert!(progress.report().failures.is_empty());
    }
}
