//! What a container said, life by life: in the latest one, and in the one before it.
//!
//! Which of the two is meant follows kubelet: between two lives, the one that has ended is both, because it is what
//! `lastState` shows; once a container is not started again, its last life is not the previous one.

use std::sync::Arc;

use super::log::Log;

/// The logs of a container that are kept.
#[derive(Debug, Default)]
pub(super) struct Lives {
    latest: Option<Arc<Log>>,
    previous: Option<Arc<Log>>,
}

impl Lives {
    /// The container was started, and speaks into `log`.
    pub(super) fn begin(&mut self, log: Arc<Log>) {
        self.latest = Some(log);
    }

    /// It has ended, and will be started again.
    pub(super) fn end(&mut self) {
        self.previous.clone_from(&self.latest);
    }

    pub(super) fn log(&self, previous: bool) -> Option<Arc<Log>> {
        if previous { self.previous.clone() } else { self.latest.clone() }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn said(text: &str) -> Arc<Log> {
        let log = Log::default();
        log.write(text.as_bytes(), Timestamp::UNIX_EPOCH);
        log.close(Timestamp::UNIX_EPOCH);
        Arc::new(log)
    }

    /// What is found as the latest and as the previous.
    fn found(lives: &Lives) -> (String, String) {
        let text = |previous| {
            let lines = lives.log(previous).map(|log| log.since(0).0).unwrap_or_default();
            lines.into_iter().map(|line| String::from_utf8(line.text).unwrap()).collect()
        };
        (text(false), text(true))
    }

    #[test]
    fn the_previous_life_is_the_last_that_ended_for_another() {
        let mut lives = Lives::default();
        let mut steps = vec![found(&lives)];
        lives.begin(said("one"));
        steps.push(found(&lives));
        lives.end();
        steps.push(found(&lives));
        lives.begin(said("two"));
        steps.push(found(&lives));
        lives.end();
        lives.begin(said("three"));
        steps.push(found(&lives));
        let expected = [("", ""), ("one", ""), ("one", "one"), ("two", "one"), ("three", "two")];
        assert_eq!(steps, expected.map(|(latest, previous)| (latest.to_owned(), previous.to_owned())));
    }
}
