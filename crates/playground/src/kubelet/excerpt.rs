//! What somebody who asks for a log gets: which lines, as which bytes, and what comes later.
//!
//! The order is kubelet's: first the last lines, then of these what is young enough, then as many bytes as are wanted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use jiff::{SignedDuration, Timestamp};
use tombolo_apiserver::{LogOptions, Since};

use super::log::{Line, Log};

/// How often somebody who follows a log looks whether the node is still there.
const LOOK: Duration = Duration::from_millis(500);

/// What is in a log, and if asked what comes, until its container ends or `is_there` denies its node.
pub(super) fn stream(
    log: Arc<Log>,
    options: &LogOptions,
    now: Timestamp,
    is_there: impl Fn() -> bool + Send + Sync + 'static,
) -> BoxStream<'static, Bytes> {
    let mut excerpt = Excerpt::new(options, now);
    let (there, next) = log.since(0);
    let skip = options.tail.map_or(0, |tail| there.len().saturating_sub(tail));
    let first = stream::iter([excerpt.show(&there[skip..])]);
    if !options.follow {
        return first.boxed();
    }
    let is_there = Arc::new(is_there);
    let rest = stream::unfold((next, log, excerpt), move |(from, log, mut excerpt)| {
        let is_there = is_there.clone();
        async move {
            if excerpt.is_full() {
                return None;
            }
            let (found, next) = more(&log, from, is_there.as_ref()).await?;
            Some((excerpt.show(&found), (next, log, excerpt)))
        }
    });
    first.chain(rest).boxed()
}

/// Waits for further lines; nothing once the container has ended and all was told.
async fn more(log: &Log, from: u64, is_there: impl Fn() -> bool) -> Option<(Vec<Line>, u64)> {
    let mut count = log.follow();
    loop {
        // Asked before looking: what was written until the end is told.
        let is_over = log.is_closed() || !is_there();
        let (found, next) = log.since(from);
        if !found.is_empty() {
            return Some((found, next));
        }
        if is_over {
            return None;
        }
        let _ = tokio::time::timeout(LOOK, count.wait_for(|count| *count > from)).await;
    }
}

/// What is wanted of the lines of a log, and how much more.
#[derive(Debug)]
struct Excerpt {
    timestamps: bool,
    since: Timestamp,
    /// As many bytes more.
    room: usize,
}

impl Excerpt {
    fn new(options: &LogOptions, now: Timestamp) -> Self {
        let since = match options.since {
            None => Timestamp::MIN,
            Some(Since::Time(time)) => time,
            Some(Since::SecondsAgo(seconds)) => ago(now, seconds),
        };
        Self { timestamps: options.timestamps, since, room: options.most_bytes.unwrap_or(usize::MAX) }
    }

    fn show(&mut self, lines: &[Line]) -> Bytes {
        let mut out = Vec::new();
        for line in lines.iter().filter(|line| line.time >= self.since) {
            if self.timestamps {
                out.extend_from_slice(format!("{:.9} ", line.time).as_bytes());
            }
            out.extend_from_slice(&line.text);
            out.push(b'\n');
        }
        out.truncate(self.room);
        self.room -= out.len();
        out.into()
    }

    fn is_full(&self) -> bool {
        self.room == 0
    }
}

/// Before all that can be said, if that is asked.
fn ago(now: Timestamp, seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.checked_sub(seconds).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A log of a line at each of the seconds 1, 2 and 3, whose container still runs.
    fn three_lines() -> Arc<Log> {
        let log = Log::default();
        for (second, text) in [(1, "one\n"), (2, "two\n"), (3, "three\n")] {
            log.write(text.as_bytes(), at(second));
        }
        Arc::new(log)
    }

    async fn all(of: BoxStream<'static, Bytes>) -> String {
        let chunks: Vec<Bytes> = of.collect().await;
        String::from_utf8(chunks.concat()).unwrap()
    }

    #[tokio::test]
    async fn the_last_lines_are_taken_then_the_young_ones_then_some_bytes() {
        let none = LogOptions::default;
        let since = |since| LogOptions { since: Some(since), ..none() };
        let cases = [
            (none(), "one\ntwo\nthree\n"),
            (LogOptions { tail: Some(2), ..none() }, "two\nthree\n"),
            (LogOptions { tail: Some(0), ..none() }, ""),
            (since(Since::Time(at(2))), "two\nthree\n"),
            (since(Since::Time(at(4))), ""),
            (since(Since::SecondsAgo(1)), "three\n"),
            (since(Since::SecondsAgo(u64::MAX)), "one\ntwo\nthree\n"),
            // The last two lines, of which one is young enough: kubelet does not look for another.
            (LogOptions { tail: Some(2), ..since(Since::Time(at(3))) }, "three\n"),
            (LogOptions { most_bytes: Some(5), ..none() }, "one\nt"),
            (LogOptions { most_bytes: Some(5), ..since(Since::Time(at(2))) }, "two\nt"),
            (LogOptions { most_bytes: Some(99), ..none() }, "one\ntwo\nthree\n"),
            (
                LogOptions { most_bytes: Some(33), timestamps: true, ..none() },
                "1970-01-01T00:00:01.000000000Z on",
            ),
        ];
        for (options, expected) in cases {
            let told = stream(three_lines(), &options, at(4), || true);
            assert_eq!(all(told).await, expected, "{options:?}");
        }
    }

    #[tokio::test]
    async fn who_follows_hears_what_comes_until_the_container_ends() {
        let log = three_lines();
        let options = LogOptions { follow: true, tail: Some(1), ..LogOptions::default() };
        let mut told = stream(log.clone(), &options, at(4), || true);
        assert_eq!(told.next().await.unwrap(), "three\n");
        log.write(b"four\nfive", at(5));
        assert_eq!(told.next().await.unwrap(), "four\n");
        log.close(at(6));
        assert_eq!(all(told).await, "five\n");
    }

    #[tokio::test]
    async fn who_follows_a_life_that_has_ended_hears_its_end() {
        let log = three_lines();
        log.close(at(4));
        let options = LogOptions { follow: true, ..LogOptions::default() };
        assert_eq!(all(stream(log, &options, at(4), || true)).await, "one\ntwo\nthree\n");
    }

    #[tokio::test]
    async fn who_follows_hears_no_more_bytes_than_wanted_and_no_lines_of_an_earlier_time() {
        let log = three_lines();
        let since = Some(Since::Time(at(10)));
        let options = LogOptions { follow: true, most_bytes: Some(8), since, ..LogOptions::default() };
        let told = stream(log.clone(), &options, at(4), || true);
        log.write(b"nine\n", at(9));
        log.write(b"ten\neleven\n", at(10));
        assert_eq!(all(told).await, "ten\nelev", "though the container still runs");
    }

    #[tokio::test]
    async fn who_follows_is_let_go_when_the_node_is_gone() {
        let options = LogOptions { follow: true, ..LogOptions::default() };
        assert_eq!(all(stream(three_lines(), &options, at(4), || false)).await, "one\ntwo\nthree\n");
    }
}
