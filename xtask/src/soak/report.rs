//! What a run has shown, and whether memory stayed as it was. Pure.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

/// Seconds within which agents come to their size: caches fill, the first faults are over.
const WARM: u64 = 180;
/// How much larger they may be in the end, and megabytes on top: what allocators keep is no leak.
const GROWTH: f64 = 1.2;
const SLACK: f64 = 4.0;

/// How it was seen that a fault was one, or that it was looked at: the least of all times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) least: f64,
    pub(super) unit: String,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.least.fract() != 0.0);
        write!(f, "{:.digits$} {}", self.least, self.unit)
    }
}

#[derive(Debug, Default)]
struct Tally {
    times: u32,
    longest: Duration,
    seen: Option<Seen>,
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) changes: u64,
    faults: BTreeMap<&'static str, Tally>,
    /// Seconds since the beginning, and megabytes of the larger agent of the member that is spared.
    memory: Vec<(u64, f64)>,
}

impl Report {
    /// A fault is over, and all agreed so much later.
    pub(super) fn fault(&mut self, kind: &'static str, took: Duration, seen: Option<Seen>) {
        let tally = self.faults.entry(kind).or_default();
        tally.times += 1;
        tally.longest = tally.longest.max(took);
        let less = |one: Seen, other: Seen| if one.least <= other.least { one } else { other };
        tally.seen = match (tally.seen.take(), seen) {
            (Some(one), Some(other)) => Some(less(one, other)),
            (one, other) => one.or(other),
        };
    }

    /// When memory was looked at last.
    pub(super) fn last_look(&self) -> Option<u64> {
        self.memory.last().map(|(second, _)| *second)
    }

    pub(super) fn memory(&mut self, second: u64, megabytes: f64) {
        self.memory.push((second, megabytes));
    }

    /// What became of memory, in a sentence; an error if it grew.
    pub(super) fn judge_memory(&self) -> Result<String, String> {
        let first = self.memory.iter().filter(|(second, _)| *second <= WARM).map(|(_, size)| *size);
        let (Some((second, last)), Some(first)) = (self.memory.last(), first.max_by(f64::total_cmp)) else {
            return Ok("memory was not looked at".to_owned());
        };
        if *second <= WARM {
            return Ok(format!("{last:.1} MB; too short a run to tell whether memory grows"));
        }
        let most = first * GROWTH + SLACK;
        let told = format!("{first:.1} MB at most in the first minutes, {last:.1} MB in the end");
        if *last <= most { Ok(told) } else { Err(format!("memory grows: {told}, more than {most:.1} MB")) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\n| fault | times | all agree after, at most | seen, at least |\n|---|---|---|---|\n")?;
        for (kind, Tally { times, longest, seen }) in &self.faults {
            let seen = seen.as_ref().map(ToString::to_string).unwrap_or_default();
            writeln!(f, "| {kind} | {times} | {:.1} s | {seen} |", longest.as_secs_f64())?;
        }
        let mut figures = String::new();
        self.memory.iter().try_for_each(|(_, size)| write!(figures, " {size:.1}"))?;
        writeln!(f, "\n{} changes", self.changes)?;
        write!(f, "memory of the agents of the member that is spared, MB, every minute:{figures}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_memory(samples: &[(u64, f64)]) -> Report {
        Report { memory: samples.to_vec(), ..Report::default() }
    }

    #[test]
    fn memory_may_settle_in_the_first_minutes_and_not_grow_afterwards() {
        let flat = with_memory(&[(10, 20.0), (70, 30.0), (600, 45.0), (1800, 39.9)]);
        assert!(flat.judge_memory().is_ok_and(|told| told.starts_with("30.0 MB")));
        let grown = with_memory(&[(10, 20.0), (70, 30.0), (1800, 40.1)]);
        assert!(grown.judge_memory().is_err());
        assert!(with_memory(&[(10, 20.0), (100, 90.0)]).judge_memory().unwrap().contains("too short"));
        assert!(with_memory(&[]).judge_memory().is_ok());
    }

    #[test]
    fn a_row_has_the_worst_of_all_times() {
        let mut report = Report::default();
        for (seconds, least) in [(2, 11.5), (3, 10.5), (1, 12.0)] {
            report.fault(
                "flood",
                Duration::from_secs(seconds),
                Some(Seen { least, unit: "MB/s".to_owned() }),
            );
        }
        report.fault("death", Duration::from_millis(1500), None);
        let page = report.to_string();
        assert!(page.contains("| flood | 3 | 3.0 s | 10.5 MB/s |"), "{page}");
        assert!(page.contains("| death | 1 | 1.5 s |  |"), "{page}");
    }
}
