//! Everything at once, drawn from a seed: users who change their minds, clusters that come and go, agents and hubs that die,
//! links that fail, a hub restored from an old backup. All the while invariants are watched, and in the end everything is
//! as it should be. A failing seed is printed with what happened:
//!
//! ```text
//! SEED=<n> cargo test -p tombolo-cli --test hub -- --ignored --exact simulation::replay
//! ```
//!
//! With `RUST_LOG=info` and `--nocapture` hub and agents say what they do, and when.

#![allow(clippy::print_stdout, reason = "a person reads the log of a failing seed")]

mod guard;
mod mutations;
mod schedule;
mod sight;
mod truth;
mod users;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use tokio::time::Instant;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use self::schedule::Run;

/// Seeds of an ordinary test: each takes some seconds in a debug build.
const SEEDS: std::ops::Range<u64> = 0..4;

/// Runs `work` under paused time.
fn with_time<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// Runs one seed and returns its log; panics with the log when an invariant breaks.
fn simulate(seed: u64) -> String {
    let log = guard::Log::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        with_time(async { Run::new(seed, log.clone()).await.finish().await })
    }));
    let why = match outcome {
        Ok(Ok(())) => return log.text(),
        Ok(Err(broken)) => format!("{broken:?}"),
        Err(panic) => format!("panic: {:?}", panic.downcast_ref::<String>()),
    };
    panic!(
        "seed {seed} failed: {why}\n{}\nSEED={seed} cargo test -p tombolo-cli --test hub -- --ignored --exact simulation::replay",
        log.text()
    );
}

#[test]
fn invariants_hold_whatever_happens_and_in_the_end_everything_is_as_it_should_be() {
    SEEDS.for_each(|seed| drop(simulate(seed)));
}

#[test]
fn a_seed_replays_its_schedule_exactly() {
    assert_eq!(simulate(4711), simulate(4711));
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
#[ignore = "replays the seed in SEED"]
fn replay() {
    let said = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(said).with_timer(SimulatedTime).with_ansi(false).init();
    println!("{}", simulate(number("SEED").expect("SEED is set")));
}

/// Seconds since the first message.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        write!(writer, "{:>9.3}s", FIRST.get_or_init(Instant::now).elapsed().as_secs_f64())
    }
}

#[test]
#[ignore = "runs SEEDS seeds from FROM on all processors: cargo xtask simulate --of works"]
fn many() {
    let (from, count) = (number("FROM").unwrap_or(0), number("SEEDS").expect("SEEDS is set"));
    let (next, failed) = (AtomicU64::new(from), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    if catch_unwind(AssertUnwindSafe(|| simulate(seed))).is_err() {
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} seeds failed: {failed:?}", failed.len());
    println!("{count} seeds from {from}: no invariant broken");
}
