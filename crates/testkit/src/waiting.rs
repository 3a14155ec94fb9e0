//! Waiting for what has to happen, in tests that are threads.

use std::thread;
use std::time::{Duration, Instant};

/// Much longer than anything takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns when something holds; panics if it never does.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
