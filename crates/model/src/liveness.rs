//! Whether a source cluster is alive, as far as one observer can tell.
//!
//! A source writes a heartbeat at the hub. Its time is by the source's clock, so it is only asked whether it *changed*;
//! how long it has not is measured by the observer's own monotonic clock, which every function here takes as the time
//! since some beginning. No two machines' clocks are ever compared.
//!
//! While the hub is out of reach no heartbeat can be seen, so silence counts against a source only for as long as it could
//! have been heard (see [`crate::hearing`]). A source that was well when contact was lost is held, for at most the hold
//! time: losing the control plane must not stop traffic. One that was silent before stays dead. A source that is heard
//! again is alive at once.
//!
//! The same [`Pulse`] serves both watchers: the agent, which watches the sources' heartbeats at the hub and writes one lease
//! per source into its own cluster, and the controller there, which watches those leases and removes slices.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How patient an observer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After so long without a heartbeat a source is dead.
    pub duration: Duration,
    /// For so much longer it may be silent while the hub is to blame; zero is strict.
    pub hold: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { duration: Duration::from_secs(30), hold: Duration::from_secs(15 * 60) }
    }
}

/// The observer's contact with the hub, measured in time during which the hub could be heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// For how long it could be heard so far.
    pub heard: Duration,
    /// What that was when contact returned after a loss so long that sources need all their time to be heard again.
    pub since: Duration,
}

/// What a source is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    /// Silent, but the hub is to blame: all stays as it is.
    Held,
    /// Dead: its slices go.
    Expired,
}

/// The mark of a heartbeat: anything that differs from write to write. Compared for equality only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    pub renewed: Option<Timestamp>,
    pub holder: Option<String>,
    pub transitions: Option<i32>,
}

impl From<&LeaseSpec> for Beat {
    fn from(lease: &LeaseSpec) -> Self {
        Beat {
            renewed: lease.renew_time.as_ref().map(|time| time.0),
            holder: lease.holder_identity.clone(),
            transitions: lease.lease_transitions,
        }
    }
}

/// What an observer remembers of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    beat: Option<Beat>,
    advanced_at: Duration,
    /// For how long the hub had been heard then; taken down when it is judged next.
    heard: Option<Duration>,
    expired: bool,
}

impl Beat {
    /// Whether its writer says good-bye: a lease without a holder, not one that never names any.
    fn is_released(&self) -> bool {
        self.holder.as_deref() == Some("")
    }
}

impl Pulse {
    /// A source seen for the first time: it has as much time as any other to be heard.
    pub fn first_seen(beat: Option<Beat>, now: Duration) -> Self {
        let expired = beat.as_ref().is_some_and(Beat::is_released);
        Pulse { beat, advanced_at: now, heard: None, expired }
    }

    /// A source that was dead when this observer's predecessor stopped: it must be heard before it is believed.
    pub fn known_dead(beat: Option<Beat>, now: Duration) -> Self {
        Pulse { beat, advanced_at: now, heard: None, expired: true }
    }

    /// Takes note of the heartbeat as it is now and returns whether it has advanced. A released one means death at once.
    pub fn observe(&mut self, beat: Beat, now: Duration) -> bool {
        if self.beat.as_ref() == Some(&beat) {
            return false;
        }
        let expired = beat.is_released();
        *self = Pulse { beat: Some(beat), advanced_at: now, heard: None, expired };
        !expired
    }

    /// Takes note of the heartbeat that an observer sees first, of a source that it knew before: as with
    /// [`Pulse::first_seen`], that there is one is no sign of life, but a released one means death.
    pub fn recall(&mut self, beat: Beat) {
        if self.beat.is_none() {
            self.expired |= beat.is_released();
            self.beat = Some(beat);
        }
    }

    /// What the source is taken for now. A dead one stays dead until it is heard.
    pub fn judge(&mut self, contact: Contact, patience: &Patience, now: Duration) -> Liveness {
        if self.expired {
            return Liveness::Expired;
        }
        let heard = *self.heard.get_or_insert(contact.heard);
        let silent = now.saturating_sub(self.advanced_at);
        if silent < patience.duration {
            return Liveness::Alive;
        }
        let audible = contact.heard.saturating_sub(heard.max(contact.since));
        let hold_is_over = silent >= patience.duration.saturating_add(patience.hold);
        self.expired = audible >= patience.duration || hold_is_over;
        if self.expired { Liveness::Expired } else { Liveness::Held }
    }
}

/// What the lease of a source in the observer's cluster shall say; `None` if it says so already.
///
/// It is renewed when the source's heartbeat has advanced, and while the source is held: `renew` says that one of both is
/// the case, so that the lease runs out as long after the last heartbeat as the source dies. It is released, without a
/// holder, when the source is dead: so an observer that starts anew knows. `now` is the observer's wall clock, for people
/// to read.
pub fn lease(
    current: Option<&LeaseSpec>,
    liveness: Liveness,
    renew: bool,
    observer: &str,
    patience: &Patience,
    now: Timestamp,
) -> Option<LeaseSpec> {
    let before = current.cloned().unwrap_or_default();
    let dead = liveness == Liveness::Expired;
    let holder = if dead { "" } else { observer };
    let same_holder = before.holder_identity.as_deref() == Some(holder);
    let seconds = i32::try_from(patience.duration.as_secs()).unwrap_or(i32::MAX).max(1);
    let settled = current.is_some() && same_holder && before.lease_duration_seconds == Some(seconds);
    if settled && (dead || !renew) {
        return None;
    }
    let acquired = !same_holder && !dead;
    Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: if acquired { Some(MicroTime(now)) } else { before.acquire_time.clone() },
        renew_time: if dead { before.renew_time.clone() } else { Some(MicroTime(now)) },
        lease_transitions: Some(before.lease_transitions.unwrap_or(0).saturating_add(i32::from(acquired))),
        ..before
    })
}

/// Whether a lease says that its source is dead.
pub fn is_released(lease: &LeaseSpec) -> bool {
    Beat::from(lease).is_released()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Liveness::{Alive, Expired, Held};
    use super::*;

    const PATIENCE: Patience = Patience { duration: Duration::from_secs(30), hold: Duration::from_secs(900) };

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn beat(second: i64) -> Beat {
        Beat { renewed: Some(Timestamp::from_second(second).unwrap()), ..Beat::default() }
    }

    /// The hub has been heard for so long, after a long loss since then.
    fn contact(since: u64, heard: u64) -> Contact {
        Contact { since: secs(since), heard: secs(heard) }
    }

    /// A source last heard at 100, when the hub had been heard for 100 seconds. Each case: the time, for how long the hub
    /// has been heard, since when after a long loss.
    fn check(patience: &Patience, expected: &[(u64, u64, u64, Liveness)]) {
        for (now, heard, since, liveness) in expected {
            let mut pulse = Pulse::first_seen(Some(beat(1)), secs(100));
            assert_eq!(pulse.judge(contact(0, 100), patience, secs(100)), Alive);
            let found = pulse.judge(contact(*since, *heard), patience, secs(*now));
            assert_eq!(found, *liveness, "at {now}, heard {heard} since {since}");
        }
    }

    #[test]
    fn a_source_is_dead_when_it_was_silent_for_the_duration_in_full_sight() {
        check(
            &PATIENCE,
            &[(100, 100, 0, Alive), (129, 129, 0, Alive), (130, 130, 0, Expired), (0, 100, 0, Alive)],
        );
    }

    #[test]
    fn while_the_hub_is_lost_nobody_is_declared_dead_for_the_hold_time() {
        let lost = [(129, 110, 0, Alive), (130, 110, 0, Held), (1029, 110, 0, Held), (1030, 110, 0, Expired)];
        check(&PATIENCE, &lost);
    }

    #[test]
    fn a_source_that_was_silent_before_the_hub_was_lost_stays_dead() {
        check(&PATIENCE, &[(131, 130, 0, Expired), (200, 130, 0, Expired), (131, 129, 0, Held)]);
    }

    #[test]
    fn after_a_long_loss_sources_have_the_duration_to_be_heard_again() {
        check(&PATIENCE, &[(500, 110, 110, Held), (529, 139, 110, Held), (530, 140, 110, Expired)]);
    }

    #[test]
    fn a_link_that_often_fails_does_not_keep_a_dead_source_alive_until_the_hold_is_over() {
        // Of every second only half was heard.
        check(&PATIENCE, &[(130, 115, 0, Held), (158, 129, 0, Held), (160, 130, 0, Expired)]);
    }

    #[test]
    fn a_flapping_hub_does_not_keep_a_dead_source_alive_beyond_the_hold() {
        check(&PATIENCE, &[(1029, 110, 110, Held), (1030, 111, 110, Expired)]);
    }

    #[test]
    fn without_a_hold_time_losing_the_hub_is_no_excuse() {
        let strict = Patience { hold: Duration::ZERO, ..PATIENCE };
        check(&strict, &[(129, 110, 0, Alive), (130, 110, 0, Expired), (130, 125, 120, Expired)]);
    }

    #[test]
    fn a_source_that_returns_is_alive_at_once_even_with_a_clock_that_went_back() {
        let mut pulse = Pulse::first_seen(Some(beat(1000)), secs(0));
        assert_eq!(pulse.judge(contact(0, 0), &PATIENCE, secs(0)), Alive);
        assert_eq!(pulse.judge(contact(0, 40), &PATIENCE, secs(40)), Expired);
        assert_eq!(
            pulse.judge(contact(39, 41), &PATIENCE, secs(41)),
            Expired,
            "a new contact is no sign of life"
        );
        assert!(!pulse.observe(beat(1000), secs(42)), "the same heartbeat is no sign of life");
        assert_eq!(pulse.judge(contact(0, 42), &PATIENCE, secs(42)), Expired);
        assert!(pulse.observe(beat(3), secs(43)));
        assert_eq!(pulse.judge(contact(0, 43), &PATIENCE, secs(43)), Alive);
    }

    #[test]
    fn the_first_heartbeat_that_is_seen_of_a_source_known_before_is_no_sign_of_life() {
        for (before, expected) in
            [(Pulse::known_dead(None, secs(0)), Expired), (Pulse::first_seen(None, secs(0)), Alive)]
        {
            let mut pulse = before;
            pulse.recall(beat(1));
            assert_eq!(pulse.judge(contact(0, 0), &PATIENCE, secs(1)), expected);
            assert!(!pulse.observe(beat(1), secs(2)), "it stands still");
            assert!(pulse.observe(beat(2), secs(3)));
            assert_eq!(pulse.judge(contact(0, 1), &PATIENCE, secs(3)), Alive);
        }
        let mut released = Pulse::first_seen(None, secs(0));
        released.recall(Beat { holder: Some(String::new()), ..beat(1) });
        assert_eq!(released.judge(contact(0, 0), &PATIENCE, secs(1)), Expired);
    }

    #[test]
    fn a_source_known_dead_must_be_heard_first() {
        let mut pulse = Pulse::known_dead(Some(beat(1)), secs(0));
        assert_eq!(pulse.judge(contact(0, 0), &PATIENCE, secs(0)), Expired);
        assert!(pulse.observe(beat(2), secs(1)));
        assert_eq!(pulse.judge(contact(0, 1), &PATIENCE, secs(1)), Alive);
    }

    #[test]
    fn the_controller_that_watches_the_lease_sees_its_release_at_once_and_its_renewal_as_life() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let renewed = lease(None, Alive, true, "agent-1", &PATIENCE, now(1)).unwrap();
        let released = lease(Some(&renewed), Expired, false, "agent-1", &PATIENCE, now(40)).unwrap();
        let back = lease(Some(&released), Alive, true, "agent-1", &PATIENCE, now(50)).unwrap();
        let mut pulse = Pulse::first_seen(Some(Beat::from(&renewed)), secs(0));
        for (spec, second, advanced, liveness) in
            [(&renewed, 1, false, Alive), (&released, 2, false, Expired), (&back, 3, true, Alive)]
        {
            assert_eq!(pulse.observe(Beat::from(spec), secs(second)), advanced);
            assert_eq!(pulse.judge(contact(0, second), &PATIENCE, secs(second)), liveness);
        }
        let mut late = Pulse::first_seen(Some(Beat::from(&released)), secs(0));
        assert_eq!(late.judge(contact(0, 0), &PATIENCE, secs(0)), Expired);
    }

    #[test]
    fn the_lease_is_renewed_with_the_heartbeat_released_with_the_source_and_left_alone_otherwise() {
        let now = |second| Timestamp::from_second(second).unwrap();
        let say = |current: Option<&LeaseSpec>, liveness, renew, at| {
            lease(current, liveness, renew, "agent-1", &PATIENCE, now(at))
        };
        let first = say(None, Alive, false, 1).unwrap();
        assert_eq!(first.holder_identity.as_deref(), Some("agent-1"));
        assert_eq!(first.lease_duration_seconds, Some(30));
        assert_eq!(first.renew_time, Some(MicroTime(now(1))));
        assert!(!is_released(&first));

        assert_eq!(say(Some(&first), Alive, false, 2), None, "no heartbeat, no renewal");
        let renewed = say(Some(&first), Alive, true, 5).unwrap();
        assert_eq!(
            (renewed.acquire_time, renewed.renew_time),
            (first.acquire_time.clone(), Some(MicroTime(now(5))))
        );
        assert!(say(Some(&first), Held, true, 60).is_some());

        let released = say(Some(&first), Expired, false, 40).unwrap();
        assert!(is_released(&released));
        assert_eq!(released.renew_time, first.renew_time, "nobody was heard");
        for renew in [false, true] {
            assert_eq!(say(Some(&released), Expired, renew, 41), None, "the dead are not renewed");
        }

        let back = say(Some(&released), Alive, true, 50).unwrap();
        assert_eq!((is_released(&back), back.lease_transitions), (false, Some(2)));
        let other = lease(Some(&back), Alive, false, "agent-2", &PATIENCE, now(51)).unwrap();
        assert_eq!(other.lease_transitions, Some(3));
    }

    #[test]
    fn even_a_dead_source_without_a_lease_gets_one_that_says_so() {
        assert!(is_released(&lease(None, Expired, false, "x", &PATIENCE, Timestamp::UNIX_EPOCH).unwrap()));
    }

    proptest! {
        /// Whatever happens to the hub in between.
        #[test]
        fn no_source_expires_whose_heartbeat_advanced_within_the_duration(
            steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..400, 0u64..400), 1..40),
            duration in 1u64..60,
            hold in 0u64..120,
        ) {
            let patience = Patience { duration: secs(duration), hold: secs(hold) };
            let mut pulse = Pulse::first_seen(None, secs(0));
            let (mut now, mut last) = (0, 0);
            for (step, (wait, beats, since, heard)) in steps.into_iter().enumerate() {
                now += wait;
                if beats {
                    pulse.observe(beat(step as i64), secs(now));
                    last = now;
                }
                let liveness = pulse.judge(contact(since, heard), &patience, secs(now));
                if now - last < duration {
                    prop_assert_eq!(liveness, Alive);
                }
                if now - last >= duration + hold {
                    prop_assert_eq!(liveness, Expired);
                }
            }
        }
    }
}
