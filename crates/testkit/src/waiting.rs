//! Waiting for what has to happen.

use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::how_soon;
use crate::{Server, patience};

/// Much longer than anything takes; what reaches it hangs.
const ENDLESS: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns when something holds; panics if it never does. For tests that are threads.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + ENDLESS;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns when something holds; panics if it never does. For tests that are tasks.
pub async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    within(ENDLESS, what, holds).await;
}

/// The same, if it has to hold within a limit. Real servers may take longer, which is noted.
pub async fn within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    if limit < ENDLESS && !Server::chosen().is_embedded() {
        how_soon(limit);
    }
    let deadline = Instant::now() + patience(limit);
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
