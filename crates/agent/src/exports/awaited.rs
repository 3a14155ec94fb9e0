//! Which versions, besides that of its offer, the members have to pass before an export is called everywhere.
//!
//! While an export waits, the version is the one from when the waiting began: were it always the newest, a service whose
//! endpoints never rest would never be called exported. One that is everywhere stays so when its endpoints change, or what
//! others offer, but not for long: a member that does not follow within seconds is waited for, and the export says so.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tombolo_model::acknowledge::{Acknowledgement, Others};
use tombolo_runtime::{Key, Next};

/// How long members may take to follow, beyond the time between two of their reports, before an export that was everywhere is
/// said not to be.
const PATIENCE: Duration = Duration::from_secs(4);

#[derive(Default)]
pub(crate) struct Awaited(Mutex<BTreeMap<Key, Awaiting>>);

#[derive(Clone, Copy)]
struct Awaiting {
    versions: Others,
    since: Instant,
    /// Nothing is said of it yet.
    patient: bool,
}

impl Awaited {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Awaiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// The exports that say that they wait: whatever a member has applied may concern them.
    pub(crate) fn waiting(&self) -> Vec<Key> {
        let awaited = self.lock();
        awaited.iter().filter(|(_, awaiting)| !awaiting.patient).map(|(key, _)| key.clone()).collect()
    }

    /// How far the export has come, and when to ask again, given the newest versions, whether it says that it is
    /// everywhere, how often members report, and how to find out about versions.
    pub(crate) fn judge(
        &self,
        key: &Key,
        newest: Others,
        says_everywhere: bool,
        pace: Duration,
        ask: impl Fn(Others) -> Acknowledgement,
    ) -> (Acknowledgement, Next) {
        let patience = PATIENCE.saturating_add(pace);
        let now = Instant::now();
        let known = self.lock().get(key).copied();
        let mut awaiting = known.unwrap_or(Awaiting { versions: newest, since: now, patient: false });
        let mut seen = ask(awaiting.versions);
        let mut next = Next::Rest;
        let passed = matches!(seen, Acknowledgement::Everywhere { .. });
        if passed && (newest == awaiting.versions || ask(newest) == seen) {
            self.forget(key);
            return (seen, next);
        }
        if passed {
            awaiting = Awaiting { versions: newest, since: now, patient: true };
            next = Next::Again(patience);
        } else {
            let left = patience.saturating_sub(now.duration_since(awaiting.since));
            let waits = matches!(seen, Acknowledgement::Waiting { .. });
            awaiting.patient = says_everywhere && waits && !left.is_zero();
            if awaiting.patient {
                (seen, next) = (ask(Others::default()), Next::Again(left));
            }
        }
        self.lock().insert(key.clone(), awaiting);
        (seen, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;
    use tombolo_model::ClusterId;

    fn key() -> Key {
        Key::new("demo", "echo")
    }

    fn waiting() -> Acknowledgement {
        Acknowledgement::Waiting { on: vec!["b".parse::<ClusterId>().expect("a name")] }
    }

    const PACE: Duration = Duration::from_secs(1);
    const LONGEST: Duration = PACE.saturating_add(PATIENCE);
    const EVERYWHERE: Acknowledgement = Acknowledgement::Everywhere { members: 2 };

    /// One member of two has passed `applied`.
    fn ask(applied: u64) -> impl Fn(Others) -> Acknowledgement {
        let passed = move |version: Option<u64>| version.is_none_or(|version| version <= applied);
        move |others| if passed(others.slices) && passed(others.offers) { EVERYWHERE } else { waiting() }
    }

    fn slices(version: u64) -> Others {
        Others { slices: Some(version), offers: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_waits_for_the_version_from_when_the_waiting_began() {
        let awaited = Awaited::default();
        assert_eq!(awaited.judge(&key(), slices(10), false, PACE, ask(9)), (waiting(), Next::Rest));
        assert_eq!(awaited.waiting(), [key()]);
        advance(LONGEST * 3).await;
        assert_eq!(awaited.judge(&key(), slices(12), false, PACE, ask(9)), (waiting(), Next::Rest));
        assert_eq!(
            awaited.judge(&key(), slices(13), false, PACE, ask(10)),
            (EVERYWHERE, Next::Again(LONGEST))
        );
        assert_eq!(awaited.judge(&key(), slices(13), true, PACE, ask(13)), (EVERYWHERE, Next::Rest));
        assert!(awaited.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_everywhere_stays_so_for_seconds_while_members_follow() {
        let awaited = Awaited::default();
        assert_eq!(awaited.judge(&key(), slices(10), true, PACE, ask(9)), (EVERYWHERE, Next::Again(LONGEST)));
        assert!(awaited.waiting().is_empty(), "nobody is told of every step");
        advance(LONGEST / 2).await;
        assert_eq!(
            awaited.judge(&key(), slices(11), true, PACE, ask(9)),
            (EVERYWHERE, Next::Again(LONGEST / 2))
        );
        advance(LONGEST / 2).await;
        assert_eq!(awaited.judge(&key(), slices(11), true, PACE, ask(9)), (waiting(), Next::Rest));
        assert_eq!(awaited.waiting(), [key()]);
    }

    #[tokio::test(start_paused = true)]
    async fn members_have_to_have_heard_of_what_others_offer() {
        let awaited = Awaited::default();
        let offers = Others { slices: Some(5), offers: Some(10) };
        assert_eq!(awaited.judge(&key(), offers, false, PACE, ask(9)), (waiting(), Next::Rest));
        assert_eq!(awaited.judge(&key(), offers, false, PACE, ask(10)), (EVERYWHERE, Next::Rest));
    }

    #[tokio::test(start_paused = true)]
    async fn one_whose_endpoints_never_rest_stays_everywhere_as_long_as_members_follow() {
        let awaited = Awaited::default();
        for version in 10..100 {
            assert_eq!(awaited.judge(&key(), slices(version), true, PACE, ask(version - 2)).0, EVERYWHERE);
            advance(LONGEST / 3).await;
        }
    }
}
