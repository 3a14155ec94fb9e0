//! The time of day, injected: a test that pauses Tokio's clock gets the same timestamps every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where a process gets the time of day from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Wall,
    Tokio { epoch: Timestamp, start: Instant, jumped: Arc<AtomicI64> },
}

impl Clock {
    /// The computer's clock.
    pub fn wall() -> Self {
        Self(Source::Wall)
    }

    /// A clock that reads `epoch` now and moves with Tokio's time, paused or not.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self(Source::Tokio { epoch, start: Instant::now(), jumped: Arc::default() })
    }

    /// Sets the clock and all its clones forward or back, as an operator may. The computer's clock is left alone.
    pub fn jump(&self, by: SignedDuration) {
        if let Source::Tokio { jumped, .. } = &self.0 {
            jumped.fetch_add(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
        }
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Wall => Timestamp::now(),
            Source::Tokio { epoch, start, jumped } => {
                let jumped = SignedDuration::from_millis(jumped.load(Ordering::Relaxed));
                let now = epoch.checked_add(start.elapsed()).and_then(|now| now.checked_add(jumped));
                now.unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// The format of `metav1.Time`: whole seconds, UTC.
pub fn stamp(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_jumps_takes_its_clones_along() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let copy = clock.clone();
        clock.jump(SignedDuration::from_mins(-10));
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(copy.now().as_second(), -599);
    }
}
