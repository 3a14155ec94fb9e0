//! How far the agent has come with what the hub shows: the watermarks it publishes.
//!
//! Offers and slices come over two watches that know nothing of each other, so each has a watermark of its own: the
//! resource version up to which everything seen there has been applied. What could not be applied does not hold it back;
//! it is named among the failures instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Error, ResourceExt};
use tombolo_api::tombolo::{Dialect, Failure, ServiceOffer};
use tombolo_runtime::{Change, Key, Next};

use crate::edition::Edition;

/// An import that a user wrote may have a longer name than any Service: nobody exports that, so nobody waits to hear of it, and
/// the hub would refuse the whole report for it.
const LONGEST_NAME: usize = 63;
/// As long as a reason may be.
const LONGEST_REASON: usize = 128;

type Name = (Dialect, Key);

/// What may fail of a service: its import, or its native name. One does not answer for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Door {
    Import,
    NativeName,
}

/// Everything seen, pending and failed.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    offers: Track,
    slices: Track,
    failures: BTreeMap<(Name, Door), Failure>,
    beginning: Beginning,
}

/// After a start everything listed has to be looked at before anything is said: until then, what the agent's predecessor
/// said stands.
#[derive(Debug, Default)]
enum Beginning {
    #[default]
    Listing,
    Left(BTreeSet<Name>),
}

/// One watch.
#[derive(Debug, Default)]
struct Track {
    seen: u64,
    /// What was published: everything up to here is applied, so nothing that is pending can be older.
    published: u64,
    /// What is not applied yet.
    pending: BTreeMap<Name, Touched>,
}

/// The first versions that touched a service since it was applied: what comes while somebody looks at it counts for itself,
/// because that may have been missed.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    /// Before somebody began to look, who is not done, or gave up.
    looked_at: Option<u64>,
    since: Option<u64>,
}

impl Touched {
    fn first(self) -> Option<u64> {
        self.looked_at.into_iter().chain(self.since).min()
    }
}

impl Track {
    fn saw<K: ResourceExt>(&mut self, name: Option<Name>, change: &Change<'_, K>) {
        let version = |object: &K| object.resource_version().and_then(|text| text.parse::<u64>().ok());
        let (Change::Put { new: object, .. } | Change::Gone(object)) = change;
        let Some(version) = version(object) else { return };
        let touched = match change {
            // What is applied is applied: nothing that is pending can be older than what was published.
            Change::Put { .. } => version.max(self.published + 1),
            // Missing in a new list, it went at some version after all that had been seen.
            Change::Gone(_) => version.max(self.seen + 1),
        };
        self.seen = self.seen.max(version);
        if let Some(name) = name {
            let since = &mut self.pending.entry(name).or_default().since;
            *since = Some(since.map_or(touched, |first| first.min(touched)));
        }
    }

    fn begin(&mut self, name: &Name) {
        if let Some(touched) = self.pending.get_mut(name) {
            *touched = Touched { looked_at: touched.first(), since: None };
        }
    }

    fn end(&mut self, name: &Name) {
        let Some(touched) = self.pending.get_mut(name) else { return };
        touched.looked_at = None;
        if touched.since.is_none() {
            self.pending.remove(name);
        }
    }

    fn publish(&mut self) -> Option<u64> {
        let watermark = self.watermark();
        self.published = self.published.max(watermark.unwrap_or(0));
        watermark
    }

    fn watermark(&self) -> Option<u64> {
        let oldest = self.pending.values().filter_map(|touched| touched.first()).min();
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

    pub(crate) fn saw_offer<E: Edition>(&self, key: &Key, change: &Change<'_, ServiceOffer>) {
        self.state().offers.saw(Some((E::POLICY.dialect, key.clone())), change);
    }

    pub(crate) fn saw_slice<E: Edition>(&self, key: &Key, change: &Change<'_, EndpointSlice>) {
        self.state().slices.saw(Some((E::POLICY.dialect, key.clone())), change);
    }

    /// A slice whose offer is not known yet: nothing is to be done for it now, and its offer brings it up again.
    pub(crate) fn saw_early_slice(&self, change: &Change<'_, EndpointSlice>) {
        self.state().slices.saw(None, change);
    }

    /// Everything has been listed once.
    pub(crate) fn listed(&self) {
        let mut state = self.state();
        let pending = state.offers.pending.keys().chain(state.slices.pending.keys()).cloned().collect();
        state.beginning = Beginning::Left(pending);
    }

    /// What can be said; nothing before all that was there at the beginning has been looked at. Of offers everything up to
    /// `complete` has been seen, also those that went before anybody looked.
    pub(crate) fn report(&self, complete: u64) -> Option<Report> {
        let mut state = self.state();
        state.offers.seen = state.offers.seen.max(complete);
        let begun = matches!(&state.beginning, Beginning::Left(names) if names.is_empty());
        begun.then(|| Report {
            offers: state.offers.publish(),
            slices: state.slices.publish(),
            failures: state.failures(),
        })
    }

    /// The newest resource version of the hub that was seen.
    pub(crate) fn seen(&self) -> u64 {
        let state = self.state();
        state.offers.seen.max(state.slices.seen)
    }

    /// How far the watermarks of offers and slices are behind what was seen, in resource versions.
    pub(crate) fn lag(&self) -> (u64, u64) {
        let state = self.state();
        let lag = |track: &Track| track.seen - track.watermark().unwrap_or(0).min(track.seen);
        (lag(&state.offers), lag(&state.slices))
    }

    /// Someone has looked at the native name of a service, which only exports of that edition can have.
    pub(crate) fn note_native_name(&self, key: &Key, error: Option<&Error>) {
        self.state().note(&(Dialect::Mcs, key.clone()), Door::NativeName, error);
    }

    /// Someone looks at a service now. What is seen from here on counts as new.
    pub(crate) fn begin<E: Edition>(&self, key: &Key) -> Work<'_> {
        let name = (E::POLICY.dialect, key.clone());
        let mut state = self.state();
        state.offers.begin(&name);
        state.slices.begin(&name);
        drop(state);
        Work { progress: self, name }
    }
}

impl State {
    /// One for every service that has any.
    fn failures(&self) -> Vec<Failure> {
        let mut names = BTreeSet::new();
        let firsts = self.failures.iter().filter(|((name, _), _)| names.insert(name.clone()));
        firsts.map(|(_, failure)| failure.clone()).collect()
    }

    fn note(&mut self, name: &Name, door: Door, error: Option<&Error>) {
        match error {
            Some(error) if name.1.name.len() <= LONGEST_NAME => {
                self.failures.insert((name.clone(), door), failure(name, error))
            }
            _ => self.failures.remove(&(name.clone(), door)),
        };
    }
}

/// A service that is being looked at.
pub(crate) struct Work<'a> {
    progress: &'a Progress,
    name: Name,
}

impl Work<'_> {
    /// Takes note of what came of it.
    pub(crate) fn end(self, outcome: Result<Next, Error>) -> Result<Next, Error> {
        let mut state = self.progress.state();
        if let Beginning::Left(names) = &mut state.beginning {
            names.remove(&self.name);
        }
        state.offers.end(&self.name);
        state.slices.end(&self.name);
        state.note(&self.name, Door::Import, outcome.as_ref().err());
        outcome
    }
}

fn failure((dialect, key): &Name, error: &Error) -> Failure {
    let reason = match error {
        Error::Api(status) if !status.reason.is_empty() => {
            status.reason.chars().take(LONGEST_REASON).collect()
        }
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

    fn slice(version: &str) -> EndpointSlice {
        let mut slice = EndpointSlice::default();
        slice.metadata.resource_version = Some(version.to_owned());
        slice
    }

    /// A change on the watch of offers; any kind of object will do.
    fn saw<E: Edition>(progress: &Progress, name: &str, change: &Change<'_, EndpointSlice>) {
        progress.state().offers.saw(Some((E::POLICY.dialect, key(name))), change);
    }

    fn saw_offer<E: Edition>(progress: &Progress, name: &str, version: &str) {
        saw::<E>(progress, name, &Change::Put { old: None, new: &slice(version) });
    }

    fn apply<E: Edition>(progress: &Progress, name: &str) {
        assert!(progress.begin::<E>(&key(name)).end(Ok(Next::Rest)).is_ok());
    }

    fn started() -> Progress {
        let progress = Progress::default();
        progress.listed();
        progress
    }

    fn offers(progress: &Progress) -> Option<u64> {
        progress.report(0).expect("it has begun").offers
    }

    #[test]
    fn the_watermark_stays_below_what_is_not_applied() {
        let progress = started();
        assert_eq!(progress.report(0), Some(Report::default()));
        saw_offer::<Kep>(&progress, "a", "10");
        saw_offer::<Kep>(&progress, "b", "12");
        assert_eq!(offers(&progress), Some(9));
        apply::<Kep>(&progress, "a");
        assert_eq!(offers(&progress), Some(11));
        apply::<Kep>(&progress, "b");
        assert_eq!(offers(&progress), Some(12));
    }

    #[test]
    fn what_changes_while_it_is_looked_at_is_not_applied() {
        let progress = started();
        saw_offer::<Kep>(&progress, "a", "10");
        let work = progress.begin::<Kep>(&key("a"));
        saw_offer::<Kep>(&progress, "a", "12");
        saw_offer::<Kep>(&progress, "b", "20");
        assert_eq!(offers(&progress), Some(9));
        assert!(work.end(Ok(Next::Rest)).is_ok());
        assert_eq!(offers(&progress), Some(11), "what came first is");
        apply::<Kep>(&progress, "a");
        assert_eq!(offers(&progress), Some(19));
    }

    #[test]
    fn an_attempt_that_is_given_up_has_applied_nothing() {
        let progress = started();
        saw_offer::<Kep>(&progress, "a", "10");
        drop(progress.begin::<Kep>(&key("a")));
        saw_offer::<Kep>(&progress, "a", "12");
        assert_eq!(offers(&progress), Some(9));
        let work = progress.begin::<Kep>(&key("a"));
        assert_eq!(offers(&progress), Some(9));
        assert!(work.end(Ok(Next::Rest)).is_ok());
        assert_eq!(offers(&progress), Some(12));
    }

    #[test]
    fn what_went_before_anybody_looked_counts_as_seen() {
        let progress = Progress::default();
        progress.listed();
        assert_eq!(progress.report(0).expect("it has begun").offers, None);
        assert_eq!(progress.report(7).expect("it has begun").offers, Some(7));
        assert_eq!(progress.report(5).expect("it has begun").offers, Some(7));
    }

    #[test]
    fn nothing_is_said_before_all_that_was_there_has_been_looked_at() {
        let progress = Progress::default();
        saw_offer::<Kep>(&progress, "a", "10");
        apply::<Kep>(&progress, "a");
        saw_offer::<Kep>(&progress, "b", "5");
        assert_eq!(progress.report(0), None);
        progress.listed();
        saw_offer::<Kep>(&progress, "c", "13");
        assert_eq!(progress.report(0), None);
        apply::<Kep>(&progress, "b");
        assert_eq!(offers(&progress), Some(12));
    }

    #[test]
    fn a_change_or_a_deletion_does_not_bring_the_watermark_back() {
        let progress = started();
        saw_offer::<Kep>(&progress, "a", "10");
        apply::<Kep>(&progress, "a");
        let (old, new) = (slice("10"), slice("20"));
        saw::<Kep>(&progress, "a", &Change::Put { old: Some(&old), new: &new });
        assert_eq!(offers(&progress), Some(19));
        apply::<Kep>(&progress, "a");
        saw::<Kep>(&progress, "a", &Change::Gone(&new));
        assert_eq!(offers(&progress), Some(20), "it went at a version that nobody has seen");
        apply::<Kep>(&progress, "a");
        saw::<Kep>(&progress, "b", &Change::Gone(&slice("25")));
        assert_eq!(offers(&progress), Some(24));
    }

    #[test]
    fn the_dialects_do_not_answer_for_each_other() {
        let progress = started();
        saw_offer::<Kep>(&progress, "a", "10");
        apply::<Mcs>(&progress, "a");
        assert_eq!(offers(&progress), Some(9));
    }

    #[test]
    fn a_slice_that_comes_before_its_offer_holds_nothing_back() {
        let progress = started();
        let slices = || progress.report(0).expect("it has begun").slices;
        progress.saw_early_slice(&Change::Put { old: None, new: &slice("10") });
        assert_eq!(slices(), Some(10));
        progress.saw_slice::<Kep>(&key("a"), &Change::Put { old: None, new: &slice("11") });
        assert_eq!(slices(), Some(10));
    }

    #[test]
    fn a_published_watermark_does_not_go_back_when_something_old_is_listed() {
        let progress = started();
        for (name, version) in [("a", "10"), ("b", "20")] {
            saw_offer::<Kep>(&progress, name, version);
            apply::<Kep>(&progress, name);
        }
        assert_eq!(offers(&progress), Some(20));
        saw_offer::<Kep>(&progress, "a", "15");
        assert_eq!(offers(&progress), Some(20));
        apply::<Kep>(&progress, "a");
        saw_offer::<Kep>(&progress, "a", "30");
        assert_eq!(offers(&progress), Some(29));
    }

    #[test]
    fn an_import_and_a_native_name_do_not_answer_for_each_other() {
        let progress = started();
        let failures = || progress.report(0).expect("it has begun").failures.len();
        let broken = || Error::LinesCodecMaxLineLengthExceeded;
        progress.note_native_name(&key("a"), Some(&broken()));
        apply::<Mcs>(&progress, "a");
        assert_eq!(failures(), 1, "the import is there, the name is not");
        assert!(progress.begin::<Mcs>(&key("a")).end(Err(broken())).is_err());
        assert_eq!(failures(), 1, "a service is named once");
        progress.note_native_name(&key("a"), None);
        assert_eq!(failures(), 1);
        apply::<Mcs>(&progress, "a");
        assert_eq!(failures(), 0);
    }

    #[test]
    fn what_cannot_be_the_name_of_a_service_is_not_reported() {
        let progress = started();
        let broken = Error::LinesCodecMaxLineLengthExceeded;
        progress.note_native_name(&key(&"x".repeat(64)), Some(&broken));
        progress.note_native_name(&key(&"x".repeat(63)), Some(&broken));
        let failures = progress.report(0).expect("it has begun").failures;
        assert_eq!(failures.iter().map(|failure| failure.name.len()).collect::<Vec<_>>(), [63]);
    }

    #[test]
    fn a_failure_is_named_and_does_not_hold_others_back() {
        let progress = started();
        progress.saw_slice::<Mcs>(&key("a"), &Change::Put { old: None, new: &slice("10") });
        let broken = Error::LinesCodecMaxLineLengthExceeded;
        assert!(progress.begin::<Mcs>(&key("a")).end(Err(broken)).is_err());
        let report = progress.report(0).expect("it has begun");
        assert_eq!((report.slices, report.failures.len()), (Some(10), 1));
        apply::<Mcs>(&progress, "a");
        assert!(progress.report(0).expect("it has begun").failures.is_empty());
    }
}
