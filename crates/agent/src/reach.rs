//! Whether the hub takes this cluster's heartbeats.
//!
//! The others let go of a cluster whose heartbeats stay away. Nobody can tell it so, since the hub is out of its reach, but it
//! can count as well as they do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tombolo_runtime::Signal;

/// When a heartbeat was taken last.
pub(crate) struct Reach {
    dead_after: Duration,
    taken: Signal<Instant>,
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl Reach {
    /// One that begins now: a predecessor's last heartbeat may have been a moment ago.
    pub(crate) fn new(dead_after: Duration) -> Self {
        Self { dead_after, taken: Signal::new(Instant::now()), listeners: Mutex::default() }
    }

    /// Takes note of a heartbeat that was sent at this time and has been taken.
    pub(crate) fn note(&self, sent: Instant) {
        let was_lost = self.is_lost();
        self.taken.set(sent);
        if was_lost {
            self.tell();
        }
    }

    /// Whether no heartbeat was taken for so long that the others may have let this cluster go.
    pub(crate) fn is_lost(&self) -> bool {
        self.taken.get().elapsed() >= self.dead_after
    }

    /// Calls `listener` whenever the hub is lost, and when it is back.
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
            if self.is_lost() {
                tracing::warn!(after = ?self.dead_after, "the hub takes no heartbeats; others may let this cluster go");
                self.tell();
                self.taken.wait_for(|newest| newest > taken).await;
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
        let (reach, told) = (Arc::new(Reach::new(Duration::from_secs(30))), Arc::new(AtomicUsize::new(0)));
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
        expect(false, 2);
        sleep(Duration::from_secs(31)).await;
        expect(true, 3);
    }
}
