//! How long to wait before something broken is tried again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Twice as long each time, five seconds at most; without chance, so that a paused clock repeats itself.
#[derive(Debug, Default)]
pub struct Patience(u32);

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        Some(delay.min(Duration::from_secs(5)))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
