//! The time of day, injected: a test that pauses Tokio's clock gets the same timestamps every time.

use jiff::Timestamp;
use tokio::time::Instant;

/// Where a process gets the time of day from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Wall,
    Tokio { epoch: Timestamp, start: Instant },
}

impl Clock {
    /// The computer's clock.
    pub fn wall() -> Self {
        Self(Source::Wall)
    }

    /// A clock that reads `epoch` now and moves with Tokio's time, paused or not.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self(Source::Tokio { epoch, start: Instant::now() })
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Wall => Timestamp::now(),
            Source::Tokio { epoch, start } => epoch.checked_add(start.elapsed()).unwrap_or(Timestamp::MAX),
        }
    }
}

/// The format of `metav1.Time`: whole seconds, UTC.
pub fn stamp(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}
