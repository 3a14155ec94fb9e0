//! Many durations, told in a few.

use std::time::Duration;

/// Durations of one kind of thing.
#[derive(Default)]
pub(super) struct Sample(Vec<Duration>);

impl Sample {
    pub(super) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The duration that `share` of all stay below.
    pub(super) fn quantile(&mut self, share: f64) -> Duration {
        self.0.sort_unstable();
        let place = (self.0.len() as f64 * share) as usize;
        self.0.get(place.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// In milliseconds with two digits.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
