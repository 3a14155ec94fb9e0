//! `cargo xtask soak`: a supercluster on real API servers, under change and faults, for as long as wanted.
//!
//! The clusters are installed and joined as people do it; agents have the rights that are shipped and tokens that run out.
//! Users move, export and withdraw services while agents, API servers and etcd are killed, frozen and flooded, one after the
//! other. After each fault every member must come to hold exactly what users want: nothing lost, nothing stale. While the
//! hub is away nothing may go; when a member is silent for longer than its lease, the others must have let it go. Agents
//! disagree about the time by up to twenty minutes, and API servers that were away come back with other certificates. The
//! memory of agents that nobody kills is watched.

mod fault;
mod fleet;
mod station;
mod wanted;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::fault::Fault;
use self::fleet::{Fleet, id};
use self::wanted::{Step, Wanted, difference};
use crate::servers::Failure;
use crate::test::debian;
use crate::{Outcome, bench};

/// Much longer than it takes to agree after a fault.
const PATIENCE: Duration = Duration::from_secs(180);
/// A user's request that takes longer is made again.
const ANSWER: Duration = Duration::from_secs(5);
const BETWEEN_FAULTS: Duration = Duration::from_secs(10);
const MEMORY_EVERY: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// How many members besides the hub
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=100))]
    members: u8,
    /// How many services, each in two of the members
    #[arg(long, default_value_t = 50)]
    services: usize,
    /// Changes per second
    #[arg(long, default_value_t = 5)]
    rate: u32,
    /// Decides what is changed and what goes wrong; real servers do the rest, so a run cannot be repeated exactly
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A tombolo to use instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where to leave what the agents say; a file for each member
    #[arg(long, default_value_os_t = std::env::temp_dir().join("tombolo-soak"))]
    logs: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    debian::provide(&[("faketime", "faketime")])?;
    // One thread: the servers end with the thread that starts them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let binary = match &args.binary {
            Some(binary) => binary.clone(),
            None => bench::build("tombolo-cli").await?,
        };
        let soaked = soak(args, &binary).await;
        soaked.map_err(|failure| -> Box<dyn std::error::Error> { failure })
    })
}

async fn soak(args: &Args, binary: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.logs)?;
    let fleet = Fleet::start(binary, usize::from(args.members), &args.logs).await?;
    Soak::new(args, fleet).run().await
}

/// A run, and what it has shown so far.
struct Soak<'a> {
    args: &'a Args,
    begin: Instant,
    fleet: Fleet,
    wanted: Wanted,
    /// What users have asked for and no server has acknowledged.
    pending: VecDeque<Step>,
    random: Rng,
    changes: u64,
    /// How often each kind of fault was there, and the longest that it took until all agreed.
    faults: BTreeMap<&'static str, (u32, Duration)>,
    /// Seconds since the beginning, and megabytes.
    memory: Vec<(u64, f64)>,
}

impl<'a> Soak<'a> {
    fn new(args: &'a Args, fleet: Fleet) -> Self {
        let (wanted, steps) = Wanted::new(args.services, usize::from(args.members));
        Self {
            args,
            begin: Instant::now(),
            fleet,
            wanted,
            pending: steps.into(),
            random: Rng::with_seed(args.seed),
            changes: 0,
            faults: BTreeMap::new(),
            memory: Vec::new(),
        }
    }

    async fn run(mut self) -> Result<(), Failure> {
        let took = self.settle().await?;
        self.say(&format!("{} services are everywhere, after {took:.1?}", self.args.services));
        self.begin = Instant::now();
        let end = Duration::from_secs(self.args.minutes * 60);
        while self.begin.elapsed() < end {
            self.churn(BETWEEN_FAULTS).await?;
            let fault = Fault::pick(&mut self.random, usize::from(self.args.members));
            self.suffer(fault).await?;
        }
        self.report();
        Ok(())
    }

    fn say(&self, what: &str) {
        println!("{:6.0} s  {what}", self.begin.elapsed().as_secs_f64());
    }

    /// Changes for a while.
    async fn churn(&mut self, lasts: Duration) -> Result<(), Failure> {
        let begin = Instant::now();
        while begin.elapsed() < lasts {
            self.pending.push_back(self.wanted.change(&mut self.random));
            self.changes += 1;
            self.fleet.restart_ended()?;
            self.work_off().await;
            sleep(Duration::from_secs(1) / self.args.rate.max(1)).await;
        }
        self.watch_memory()
    }

    /// Asks once more for everything that has not been acknowledged, in order; a cluster that does not answer holds up only
    /// what is asked of itself.
    async fn work_off(&mut self) {
        let mut deaf = BTreeSet::new();
        for step in std::mem::take(&mut self.pending) {
            let (Step::Serve(part, _) | Step::Export(part) | Step::Withdraw(part)) = &step;
            let done = !deaf.contains(&part.member)
                && matches!(timeout(ANSWER, self.fleet.apply(&step)).await, Ok(Ok(())));
            if !done {
                deaf.insert(part.member);
                self.pending.push_back(step);
            }
        }
    }

    async fn suffer(&mut self, fault: Fault) -> Result<(), Failure> {
        self.say(&fault.to_string());
        if fault.wants_calm() {
            self.settle().await?;
        }
        let mut tasks = JoinSet::new();
        fault.begin(&mut self.fleet, &mut tasks).await?;
        if fault.wants_calm() {
            sleep(fault.lasts()).await;
            self.check_meanwhile(fault).await?;
        } else {
            self.churn(fault.lasts()).await?;
        }
        fault.end(&mut self.fleet, &mut tasks).await?;
        let took = self.settle().await.map_err(|failure| format!("after {fault}: {failure}"))?;
        self.say(&format!("  all agree after {took:.1?}"));
        let (count, longest) = self.faults.entry(fault.kind()).or_default();
        *count += 1;
        *longest = took.max(*longest);
        Ok(())
    }

    /// Before a long fault is over: who is given up is gone everywhere else, and nothing else is.
    async fn check_meanwhile(&self, fault: Fault) -> Result<(), Failure> {
        let dead = fault.given_up();
        let expected = self.wanted.expected(dead);
        for member in (0..self.fleet.members.len()).filter(|member| Some(*member) != dead) {
            let seen = self.fleet.view(member).await?;
            if let Some(what) = difference(&expected, &seen) {
                return Err(format!("during {fault}, in {}: {what}", id(member)).into());
            }
        }
        Ok(())
    }

    /// Waits until every member holds exactly what users want. How long that took.
    async fn settle(&mut self) -> Result<Duration, Failure> {
        let begin = Instant::now();
        loop {
            self.fleet.restart_ended()?;
            self.work_off().await;
            let Some(what) = self.disagreement().await else { return Ok(begin.elapsed()) };
            if begin.elapsed() > PATIENCE {
                return Err(format!("not after {PATIENCE:?}: {what}").into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn disagreement(&self) -> Option<String> {
        if let Some(step) = self.pending.front() {
            return Some(format!("{step:?} was not acknowledged"));
        }
        let expected = self.wanted.expected(None);
        for member in 0..self.fleet.members.len() {
            match timeout(ANSWER, self.fleet.view(member)).await {
                Ok(Ok(seen)) => {
                    if let Some(what) = difference(&expected, &seen) {
                        return Some(format!("in {}: {what}", id(member)));
                    }
                }
                Ok(Err(error)) => return Some(format!("{}: {error}", id(member))),
                Err(_) => return Some(format!("{} does not answer", id(member))),
            }
        }
        None
    }

    fn watch_memory(&mut self) -> Result<(), Failure> {
        let now = self.begin.elapsed();
        if self.memory.last().is_none_or(|(last, _)| now.as_secs() - last >= MEMORY_EVERY.as_secs()) {
            self.memory.push((now.as_secs(), self.fleet.memory(0)?));
        }
        Ok(())
    }

    fn report(&self) {
        println!("\n| fault | times | all agree after, at most |\n|---|---|---|");
        for (kind, (count, longest)) in &self.faults {
            println!("| {kind} | {count} | {:.1} s |", longest.as_secs_f64());
        }
        println!("\n{} changes; nothing lost, nothing stale", self.changes);
        let figures: Vec<String> = self.memory.iter().map(|(_, size)| format!("{size:.1}")).collect();
        println!("memory of an agent that nobody killed, MB, every minute: {}", figures.join(" "));
    }
}
