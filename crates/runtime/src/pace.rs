//! Leaving it to a part when it tries again.
//!
//! By itself the library repeats what a server is too busy for (429, 503, 504) up to fifteen times, with pauses that grow
//! to minutes, and whoever asked hears nothing of it meanwhile. A command that asks once is glad of that. A part has a pace
//! of its own, in its queues, watches and leases: beneath it a watch would sleep on long after the server is well again, and
//! a candidate would not lead.

use kube::Config;

use crate::silence::notice_silence;

/// The way of a part to a server: silence is noticed, and what the server says is heard at once, also that it is busy.
pub fn at_own_pace(mut config: Config) -> Config {
    config.default_retry = false;
    notice_silence(config)
}
