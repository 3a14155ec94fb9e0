//! What a container said: the last of it, in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

/// Older lines go when there is more.
const MOST_BYTES: usize = 256 * 1024;
/// A longer line is cut in pieces.
const LONGEST_LINE: usize = 16 * 1024;
/// Chunks that may wait for whoever listens; who is slower loses some.
const WAITING: usize = 64;

/// A line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) time: Timestamp,
    pub(crate) text: Vec<u8>,
}

impl Line {
    /// What it takes in memory, which an empty one does, too.
    fn bytes(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

/// The lines of one container, of one of its lives.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Mutex<Lines>,
    /// How many lines there ever were.
    count: watch::Sender<u64>,
    /// What it says, as it says it; nothing at the end of a life.
    said: broadcast::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    bytes: usize,
    dropped: u64,
    /// The beginning of a line that has not ended.
    partial: Vec<u8>,
    closed: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { lines: Mutex::default(), count: watch::Sender::new(0), said: broadcast::Sender::new(WAITING) }
    }
}

impl Log {
    /// Takes what came out of the container.
    pub(crate) fn write(&self, bytes: &[u8], time: Timestamp) {
        if self.said.receiver_count() > 0 {
            let _ = self.said.send(Bytes::copy_from_slice(bytes));
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            if *byte == b'\n' || lines.partial.len() >= LONGEST_LINE {
                lines.end_line(time);
            }
            if *byte != b'\n' {
                lines.partial.push(*byte);
            }
        }
        self.tell(lines.dropped + lines.kept.len() as u64);
    }

    /// The container has ended, and with it a line that nobody will end any more.
    pub(crate) fn close(&self, time: Timestamp) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.partial.is_empty() {
            lines.end_line(time);
        }
        lines.closed = true;
        self.tell(lines.dropped + lines.kept.len() as u64);
        let _ = self.said.send(Bytes::new());
    }

    /// Whether all has been said.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// What comes from now on, before it is a line; an empty chunk is the end.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Bytes> {
        self.said.subscribe()
    }

    fn tell(&self, count: u64) {
        self.count.send_if_modified(|known| std::mem::replace(known, count) != count);
    }

    /// The lines from number `from` on, as far as they are kept, and the number of the next.
    pub(crate) fn since(&self, from: u64) -> (Vec<Line>, u64) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = from.saturating_sub(lines.dropped);
        let found = lines.kept.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)).cloned().collect();
        (found, lines.dropped + lines.kept.len() as u64)
    }

    /// Changes when there are more lines.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

impl Lines {
    fn end_line(&mut self, time: Timestamp) {
        let line = Line { time, text: std::mem::take(&mut self.partial) };
        self.bytes += line.bytes();
        self.kept.push_back(line);
        while self.bytes > MOST_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.bytes();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(log: &Log, from: u64) -> Vec<String> {
        let lines = log.since(from).0.into_iter();
        lines.map(|line| String::from_utf8(line.text).unwrap()).collect()
    }

    #[test]
    fn lines_are_put_together_and_numbered() {
        let log = Log::default();
        for part in ["on", "e\ntwo\n", "thr"] {
            log.write(part.as_bytes(), Timestamp::UNIX_EPOCH);
        }
        assert_eq!(texts(&log, 0), ["one", "two"]);
        assert_eq!((texts(&log, 1), log.since(0).1), (vec!["two".to_owned()], 2));
        assert!(!log.is_closed());
        log.close(Timestamp::UNIX_EPOCH);
        assert!(log.is_closed());
        assert_eq!(texts(&log, 2), ["thr"]);
        assert_eq!(*log.follow().borrow(), 3);
    }

    #[test]
    fn old_lines_go_and_long_ones_are_cut() {
        let log = Log::default();
        let line = [b'x'; 1000];
        for _ in 0..1000 {
            log.write(&line, Timestamp::UNIX_EPOCH);
            log.write(b"\n", Timestamp::UNIX_EPOCH);
        }
        let (kept, next) = log.since(0);
        assert_eq!(next, 1000);
        assert!(kept.len() < 300 && !kept.is_empty());
        assert_eq!(log.since(999).0.len(), 1);
        let log = Log::default();
        log.write(&vec![b'\n'; MOST_BYTES], Timestamp::UNIX_EPOCH);
        assert!(log.since(0).0.len() * size_of::<Line>() <= MOST_BYTES);
        let log = Log::default();
        log.write(&vec![b'y'; 2 * LONGEST_LINE + 1], Timestamp::UNIX_EPOCH);
        assert_eq!(log.since(0).0.len(), 2);
    }
}
