//! Whether the hub takes this cluster's heartbeats.
//!
//! The others let go of a cluster whose heartbeats stay away. Nobody can tell it so, since the hub is out of its reach, but it
//! can count as well as they do. When the hub is back they need a moment until they have brought in again what they let go of,
//! and so does this cluster with theirs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tombolo_runtime::Signal;

/// When a heartbeat was taken last.
pub(crate) struct Reach {
    dead_after: Duration,
    /// How long the others take to bring in again what they let go of.
    recovery: Duration,
    taken: Signal<Instant>,
    /// When the hub was back after it had been lost.
    back: Mutex<Option<Instant>>,
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl Reach {
    /// One that begins now: a predecessor's last heartbeat may have been a moment ago.
    pub(crate) fn new(dead_after: Duration, recovery: Duration) -> Self {
        let (taken, listeners) = (Signal::new(Instant::now()), Mutex::default());
        Self { dead_after, recovery, taken, back: Mutex::default(), listeners }
    }

    /// Takes note of a heartbeat that was sent at this time and has been taken.
    pub(crate) fn note(&self, sent: Instant) {
        if self.is_silent() {
            *self.back.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        self.taken.set(sent);
    }

    /// Whether no heartbeat was taken for so long that the others may have let this cluster go, or they may not have it again yet.
    pub(crate) fn is_lost(&self) -> bool {
        let back = *self.back.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_silent() || back.is_some_and(|back| back.elapsed() < self.recovery)
    }

    fn is_silent(&self) -> bool {
        self.taken.get().elapsed() >= self.dead_after
    }

    /// Calls `listener` whenever the hub is lost, and when it is lost no more.
    pub(crate) fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub(crate) fn stop_telling(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn tell(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|listener| listener());
    }

    /// Notices that the hub is lost, for ever.
    pub(crate) async fn watch(&self) {
        loop {
            let taken = self.taken.get();
            sleep_until(taken + self.dead_after).await;
            if self.is_silent() {
                tracing::warn!(after = ?self.dead_after, "the hub takes no heartbeats; others may let this cluster go");
                self.tell();
                self.taken.wait_for(|newest| newest > taken).await;
                sleep(self.recovery).await;
                self.tell();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn losing_the_hub_and_finding_it_again_are_told_once_each() {
        let (reach, told) =
            (Reach::new(Duration::from_secs(30), Duration::from_secs(5)), AtomicUsize::new(0));
        let (reach, told) = (Arc::new(reach), Arc::new(told));
        let (count, watching) = (told.clone(), reach.clone());
        reach.on_change(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        tokio::spawn(async move { watching.watch().await });
        let expect = |lost, times| assert_eq!((reach.is_lost(), told.load(Ordering::SeqCst)), (lost, times));
        for _ in 0..10 {
            reach.note(Instant::now());
            sleep(Duration::from_secs(20)).await;
            expect(false, 0);
        }
        sleep(Duration::from_secs(11)).await;
        expect(true, 1);
        sleep(Duration::from_secs(600)).await;
        expect(true, 1);
        reach.note(Instant::now());
        sleep(Duration::from_secs(4)).await;
        expect(true, 1);
        sleep(Duration::from_secs(2)).await;
        expect(false, 2);
        sleep(Duration::from_secs(25)).await;
        expect(true, 3);
    }
}
