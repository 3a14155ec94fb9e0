//! For how long a server could be heard, as far as one observer can tell.
//!
//! The sign that it can is something that the observer wrote itself and sees again: a watch keeps order, so whoever had
//! not been heard until then had truly not spoken. Signs are expected at a steady pace. When they fail to come, nobody
//! knows whether others could speak, so that time does not count; and after a long gap they all need time to return.

use std::time::Duration;

use crate::liveness::Contact;

/// What an observer remembers of the signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    last: Option<Duration>,
    heard: Duration,
    since: Duration,
}

/// One sign may be missing, and the next be late.
fn bearable(period: Duration) -> Duration {
    period.saturating_mul(5) / 2
}

impl Hearing {
    /// Takes note of a sign. One is expected every `period`; after a gap as long as `long` others may need as long.
    pub fn hear(&mut self, now: Duration, period: Duration, long: Duration) {
        let gap = self.last.map(|last| now.saturating_sub(last));
        match gap {
            Some(gap) if gap <= bearable(period) => self.heard = self.heard.saturating_add(gap),
            Some(gap) if gap < long => {}
            _ => self.since = self.heard,
        }
        self.last = Some(now);
    }

    /// The contact as it seems now: until a sign is overdue nothing is wrong.
    pub fn contact(&self, now: Duration, period: Duration) -> Contact {
        let running = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        let running = if running <= bearable(period) { running } else { Duration::ZERO };
        Contact { heard: self.heard.saturating_add(running), since: self.since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(5);
    const LONG: Duration = Duration::from_secs(30);

    fn after(signs: &[u64]) -> Hearing {
        let mut hearing = Hearing::default();
        signs.iter().for_each(|second| hearing.hear(Duration::from_secs(*second), PERIOD, LONG));
        hearing
    }

    fn check(signs: &[u64], now: u64, heard: u64, since: u64) {
        let contact = after(signs).contact(Duration::from_secs(now), PERIOD);
        let found = (contact.heard.as_secs(), contact.since.as_secs());
        assert_eq!(found, (heard, since), "{signs:?} at {now}");
    }

    #[test]
    fn while_signs_come_all_time_counts() {
        check(&[], 100, 0, 0);
        check(&[100], 100, 0, 0);
        check(&[100, 105, 110], 113, 13, 0);
        check(&[100, 105, 115], 116, 16, 0);
    }

    #[test]
    fn a_gap_does_not_count() {
        check(&[100, 105], 118, 5, 0);
        check(&[100, 105, 125], 125, 5, 0);
        check(&[100, 105, 125, 130], 130, 10, 0);
    }

    #[test]
    fn after_a_long_gap_everybody_begins_anew() {
        check(&[100, 105, 135], 135, 5, 5);
        check(&[100, 105, 135, 140], 142, 12, 5);
    }
}
