//! How well the hub reaches its API server, and hears it.
//!
//! Two things that may fail apart. What tells that the server is reached is an answer to the heartbeat that the hub itself
//! leaves there (`mark`); what tells that it is heard is that heartbeat coming back over the watch that brings those of the
//! clusters. A server that answers may still have stopped telling what happens, and then silence says nothing about
//! anybody.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tombolo_model::hearing::Hearing;
use tombolo_model::liveness::Contact;

/// What is remembered of both.
pub(crate) struct Ear {
    start: Instant,
    period: Duration,
    long: Duration,
    reached: Mutex<Hearing>,
    heard: Mutex<Hearing>,
}

impl Ear {
    /// One that expects both signs every `period`; after a silence as long as `long` clusters may need as long to return.
    pub(crate) fn new(period: Duration, long: Duration) -> Self {
        Self { start: Instant::now(), period, long, reached: Mutex::default(), heard: Mutex::default() }
    }

    /// The server answered.
    pub(crate) fn note_answer(&self) {
        self.note(&self.reached);
    }

    /// The hub's own heartbeat came back.
    pub(crate) fn note_echo(&self) {
        self.note(&self.heard);
    }

    fn note(&self, signs: &Mutex<Hearing>) {
        let mut signs = signs.lock().unwrap_or_else(PoisonError::into_inner);
        signs.hear(self.start.elapsed(), self.period, self.long);
    }

    /// For how long heartbeats could be heard.
    pub(crate) fn contact(&self) -> Contact {
        self.read(&self.heard)
    }

    /// For how long the server was reached: the time by which the silence of clusters is measured. It stands still while
    /// nothing could be written down anyway, so that nobody is found to be overdue when that is over.
    pub(crate) fn time(&self) -> Duration {
        self.read(&self.reached).heard
    }

    fn read(&self, signs: &Mutex<Hearing>) -> Contact {
        let signs = signs.lock().unwrap_or_else(PoisonError::into_inner);
        signs.contact(self.start.elapsed(), self.period)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn time_passes_while_the_server_answers_whether_or_not_it_is_heard() {
        let ear = Ear::new(PERIOD, Duration::from_secs(30));
        ear.note_answer();
        ear.note_echo();
        for _ in 0..20 {
            advance(PERIOD).await;
            ear.note_answer();
        }
        assert_eq!((ear.time().as_secs(), ear.contact().heard.as_secs()), (40, 0));
        advance(Duration::from_secs(3600)).await;
        assert_eq!(ear.time().as_secs(), 40, "it stands still");
    }
}
