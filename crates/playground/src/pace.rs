//! How soon silence is death.

use std::time::Duration;

/// The clocks of a supercluster. The usual ones are those of the parts themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How often an agent says that it lives.
    pub heartbeat: Duration,
    /// Who was not heard for so long is dead.
    pub dead_after: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(5), dead_after: Duration::from_secs(30) }
    }
}

impl Pace {
    /// For those who wait for it: an outage is noticed in seconds.
    pub fn fast() -> Self {
        Self { heartbeat: Duration::from_secs(1), dead_after: Duration::from_secs(5) }
    }
}
