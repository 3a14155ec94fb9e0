//! `LocalFirst`: when remote endpoints stand behind a Service beside the local ones.
//!
//! They do only while fewer local endpoints are ready than wanted. A pod whose readiness flaps must not make traffic flap
//! between clusters, and no client may ever find an empty Service while an endpoint is ready anywhere. So the two ways are
//! not alike. Attaching is cheap and safe: it is done at once, and without question when nothing local is left. Detaching
//! waits until enough local endpoints have been ready for [`DWELL`] without a break, which nothing that flaps faster ever
//! is. It follows that neither way is taken twice within [`DWELL`].
//!
//! Time is what the caller's monotonic clock shows, as the time since some beginning, as in [`liveness`](crate::liveness).
//! Whoever keeps the slices of a Service keeps one [`LocalFirst`] for it:
//!
//! ```
//! use std::time::Duration;
//! use tombolo_model::strategy::local_first::{LocalFirst, MinReady};
//!
//! let wanted = MinReady::default();
//! let mut state = LocalFirst::started_with(false);
//! let first = state.observe(0, wanted, Duration::from_secs(1));
//! assert!(first.attached);
//! let then = state.observe(1, wanted, Duration::from_secs(2));
//! assert!(then.attached);
//! assert_eq!(then.look_again_in, Some(Duration::from_secs(10)));
//! assert!(!state.observe(1, wanted, Duration::from_secs(12)).attached);
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use thiserror::Error;
use tombolo_api::tombolo::LOCAL_FIRST_MIN_READY_ANNOTATION;

/// For so long enough local endpoints have to be ready before remote ones go; and so far apart are switches by choice.
pub const DWELL: Duration = Duration::from_secs(10);

/// How many ready local endpoints are enough: one at least, because with none the remote ones are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinReady(NonZeroU32);

impl Default for MinReady {
    fn default() -> Self {
        MinReady(NonZeroU32::MIN)
    }
}

/// A threshold that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{LOCAL_FIRST_MIN_READY_ANNOTATION} is {0:?}, expected a number of endpoints, 1 or more")]
pub struct BadMinReady(String);

impl MinReady {
    /// What the annotations of a MultiClusterService say; one that makes no sense is refused, not guessed at.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, BadMinReady> {
        let Some(text) = annotations.get(LOCAL_FIRST_MIN_READY_ANNOTATION) else {
            return Ok(Self::default());
        };
        text.parse().map(MinReady).map_err(|_| BadMinReady(text.chars().take(100).collect()))
    }

    fn is_met(self, local_ready: usize) -> bool {
        u32::try_from(local_ready).unwrap_or(u32::MAX) >= self.0.get()
    }
}

/// What is remembered of one Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFirst {
    attached: bool,
    switched_at: Option<Duration>,
    /// Since when enough local endpoints are ready, if they are.
    enough_since: Option<Duration>,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the remote endpoints stand behind the Service.
    pub attached: bool,
    /// When time alone may change the answer.
    pub look_again_in: Option<Duration>,
}

impl LocalFirst {
    /// One that finds the remote endpoints attached or not, such as after a restart. What was before is not known, so
    /// detaching waits in full.
    pub fn started_with(attached: bool) -> Self {
        LocalFirst { attached, switched_at: None, enough_since: None }
    }

    /// Whether the remote endpoints stand behind the Service.
    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// Takes note of how many local endpoints are ready now.
    pub fn observe(&mut self, local_ready: usize, wanted: MinReady, now: Duration) -> Answer {
        self.enough_since = wanted.is_met(local_ready).then(|| self.enough_since.unwrap_or(now));
        let due = self.due(local_ready);
        if due.is_some_and(|due| due <= now) {
            self.attached = !self.attached;
            self.switched_at = Some(now);
            return Answer { attached: self.attached, look_again_in: None };
        }
        Answer { attached: self.attached, look_again_in: due.map(|due| due.saturating_sub(now)) }
    }

    /// When to switch, if all stays as it is.
    fn due(&self, local_ready: usize) -> Option<Duration> {
        let rested = self.switched_at.map_or(Duration::ZERO, |at| at.saturating_add(DWELL));
        match (self.attached, self.enough_since) {
            (true, Some(since)) => Some(since.saturating_add(DWELL).max(rested)),
            (true, None) | (false, Some(_)) => None,
            // Some endpoints are better than none, whatever was promised about switching.
            (false, None) if local_ready == 0 => Some(Duration::ZERO),
            (false, None) => Some(rested),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wanted(count: u32) -> MinReady {
        MinReady(NonZeroU32::new(count).unwrap())
    }

    /// Feeds counts at seconds and compares whether remote endpoints are attached.
    fn check(count: u32, starts_attached: bool, steps: &[(u64, usize, bool)]) {
        let mut state = LocalFirst::started_with(starts_attached);
        for (second, local, attached) in steps {
            let answer = state.observe(*local, wanted(count), secs(*second));
            assert_eq!(answer.attached, *attached, "{local} ready at {second} s of {steps:?}");
        }
    }

    #[test]
    fn remote_endpoints_come_at_once_and_go_when_local_ones_have_proved_themselves() {
        check(1, false, &[(0, 3, false), (1, 0, true), (2, 1, true), (11, 1, true), (12, 1, false)]);
        check(
            1,
            false,
            &[(0, 0, true), (1, 1, true), (9, 0, true), (10, 1, true), (19, 1, true), (20, 1, false)],
        );
        check(3, false, &[(0, 3, false), (1, 2, true), (2, 3, true), (12, 5, false)]);
    }

    #[test]
    fn too_few_local_ones_wait_for_the_rate_but_none_at_all_does_not() {
        let detached = [(0, 1, true), (1, 2, true), (11, 2, false)];
        check(2, true, &[&detached[..], &[(12, 1, false), (20, 1, false), (21, 1, true)]].concat());
        check(2, true, &[&detached[..], &[(12, 0, true)]].concat());
    }

    #[test]
    fn after_a_restart_what_is_attached_stays_until_the_local_ones_have_proved_themselves_again() {
        check(1, true, &[(0, 5, true), (9, 5, true), (10, 5, false)]);
        check(1, false, &[(0, 5, false), (60, 5, false)]);
        check(1, false, &[(0, 0, true)]);
    }

    #[test]
    fn a_readiness_that_flaps_every_second_switches_once() {
        let mut state = LocalFirst::started_with(false);
        let answers: Vec<bool> = (0..600)
            .map(|second| state.observe(usize::from(second % 2 == 0), wanted(1), secs(second)).attached)
            .collect();
        assert_eq!(answers.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1);
    }

    #[test]
    fn the_threshold_is_a_number_above_zero_or_refused() {
        let read = |text: &str| {
            MinReady::read(&[(LOCAL_FIRST_MIN_READY_ANNOTATION.to_owned(), text.to_owned())].into())
        };
        assert_eq!(MinReady::read(&BTreeMap::new()), Ok(wanted(1)));
        assert_eq!(read("3"), Ok(wanted(3)));
        for bad in ["", "0", "-1", "two", "1.5", "99999999999"] {
            assert_eq!(read(bad), Err(BadMinReady(bad.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn whatever_happens_a_service_is_never_left_empty_and_switches_are_far_apart(
            steps in prop::collection::vec((0u64..25_000, 0usize..4), 1..80),
            count in 1u32..4,
            starts_attached in any::<bool>(),
        ) {
            let mut state = LocalFirst::started_with(starts_attached);
            let (mut now, mut attached) = (Duration::ZERO, starts_attached);
            let mut last = [None::<Duration>; 2];
            let mut enough_since = None;
            for (wait, local) in steps {
                now += Duration::from_millis(wait);
                let answer = state.observe(local, wanted(count), now);
                prop_assert!(local > 0 || answer.attached, "nothing local is ready and nothing else is there");
                let enough = local >= count as usize;
                enough_since = enough.then(|| enough_since.unwrap_or(now));
                if answer.attached != attached {
                    attached = answer.attached;
                    prop_assert_eq!(attached, !enough);
                    if !attached {
                        prop_assert!(now - enough_since.unwrap() >= DWELL);
                    }
                    let same_way = last[usize::from(attached)].replace(now);
                    prop_assert!(same_way.is_none_or(|before| now - before >= DWELL));
                }
                if let Some(wait) = answer.look_again_in {
                    let after = state.clone().observe(local, wanted(count), now + wait);
                    prop_assert_ne!(after.attached, answer.attached, "it says when to look again");
                }
            }
        }

        #[test]
        fn the_answer_does_not_depend_on_how_often_it_is_asked_for(local in 0usize..3, times in 1u64..30) {
            let mut often = LocalFirst::started_with(true);
            for second in 0..=times {
                often.observe(local, wanted(1), secs(second));
            }
            let mut seldom = LocalFirst::started_with(true);
            seldom.observe(local, wanted(1), secs(0));
            seldom.observe(local, wanted(1), secs(times));
            prop_assert_eq!(often.attached, seldom.attached);
        }
    }
}
