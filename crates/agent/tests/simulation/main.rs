//! The supercluster in one process, under paused time, with faults drawn from a seed.
//!
//! Each seed makes one run: users change things, networks and agents fail, and all the while invariants are watched. At
//! the end everything is healed and must become what the model says. A failing seed is printed with what happened:
//!
//! ```text
//! SEED=<n> cargo test -p tombolo-agent --test simulation -- --ignored replay
//! ```

#![allow(clippy::unwrap_used, reason = "tests panic")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a person reads the log of a failing seed")]

mod claims;
mod closure;
mod controllers;
mod convergence;
mod failures;
mod forgeries;
mod invariants;
mod log;
mod mutations;
mod native;
mod scenarios;
mod schedule;
mod truth;
mod users;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::invariants::Broken;
use self::log::Log;
use self::schedule::Run;

/// How many clusters there are besides the hub.
const CLUSTERS: usize = 5;

/// Seeds per test function: together they take about a minute in a debug build on two cores.
const SEEDS_EACH: u64 = 6;

/// Runs `work` under paused time.
fn with_time<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

/// Runs one seed and returns its log; panics with the log when an invariant breaks.
fn simulate(seed: u64, clusters: usize) -> String {
    // Watches that are interrupted wait for a random while.
    fastrand::seed(seed);
    let log = Log::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        with_time(async { Run::new(seed, clusters, log.clone()).await.finish().await })
    }));
    let why = match outcome {
        Ok(Ok(())) => return log.text(),
        Ok(Err(Broken { invariant, what })) => format!("{invariant:?}: {what}"),
        Err(panic) => format!("panic: {:?}", panic.downcast_ref::<String>()),
    };
    panic!(
        "seed {seed} with {clusters} clusters failed: {why}\n{}\nSEED={seed} CLUSTERS={clusters} cargo test -p tombolo-agent --test simulation -- --ignored replay",
        log.text()
    );
}

fn simulate_block(block: u64) {
    for seed in block * SEEDS_EACH..(block + 1) * SEEDS_EACH {
        simulate(seed, CLUSTERS);
    }
}

#[test]
fn invariants_hold_in_the_first_block_of_seeds() {
    simulate_block(0);
}

#[test]
fn invariants_hold_in_the_second_block_of_seeds() {
    simulate_block(1);
}

#[test]
fn a_seed_replays_every_change_exactly() {
    for seed in [4711, 4712] {
        assert_eq!(simulate(seed, 3), simulate(seed, 3));
        assert_ne!(simulate(seed, 3), simulate(seed + 2, 3));
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn clusters() -> usize {
    number("CLUSTERS").map_or(CLUSTERS, |count| usize::try_from(count).unwrap())
}

#[test]
#[ignore = "replays the seed in SEED"]
fn replay() {
    println!("{}", simulate(number("SEED").expect("SEED is set"), clusters()));
}

#[test]
#[ignore = "runs SEEDS seeds from FROM on all processors: cargo xtask simulate"]
fn many() {
    let (from, count) = (number("FROM").unwrap_or(0), number("SEEDS").expect("SEEDS is set"));
    let (next, done, failed) = (AtomicU64::new(from), AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    if catch_unwind(AssertUnwindSafe(|| simulate(seed, clusters()))).is_err() {
                        failed.lock().unwrap().push(seed);
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(100) {
                        println!("{done} of {count} seeds");
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count} seeds failed: {failed:?}", failed.len());
    println!("{count} seeds from {from} with {} clusters: no invariant broken", clusters());
}
