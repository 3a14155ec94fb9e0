//! Noticing that a server went silent without a word.
//!
//! A connection whose other end is gone, or is forgotten by a machine in between, looks just like one on which nothing
//! happens. Watches are therefore short ([`follow`](crate::follow)), so that on every connection something happens within
//! half a minute, and one on which nothing does for longer is given up.

use std::time::Duration;

use kube::Config;

/// Longer than a watch on which nothing happens.
const SILENCE: Duration = Duration::from_secs(45);

/// The way to a server, on which silence is noticed.
pub fn notice_silence(mut config: Config) -> Config {
    config.read_timeout = Some(SILENCE);
    // An idle connection is given as much time as a new one when it is used again.
    config.reset_reader_on_write = true;
    config
}
