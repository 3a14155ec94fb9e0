//! `cargo xtask soak`: a supercluster on real API servers, under change and faults, for as long as wanted.
//!
//! The clusters are installed and joined as people do it; agents have the rights that are shipped and tokens that run out.
//! Users move, export and withdraw services while agents, API servers and etcd are killed, frozen, throttled and flooded, one
//! after the other. After each fault every member must come to hold exactly what users want: nothing lost, nothing stale. While
//! the hub is away nothing may go, not for a second; when a member is silent for longer than its lease, the others must have
//! let it go; after two agents of a member were alive, writing must come to rest. Agents disagree about the time by up to
//! twenty minutes, and API servers that were away come back with other certificates. Agents that nobody kills must live to the
//! end, and not grow. A fault that does not show by itself is seen to be there, or the run fails.

mod deck;
mod fault;
mod fleet;
mod flood;
mod report;
mod station;
mod throttle;
mod wanted;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use self::deck::Deck;
use self::fault::{Fault, Meanwhile};
use self::fleet::{Fleet, Versions, id};
use self::report::{Report, Seen};
use self::wanted::{Step, Wanted, difference, gap};
use crate::Outcome;
use crate::cargo::release;
use crate::servers::Failure;
use crate::test::debian;

/// Much longer than it takes to agree after a fault.
const PATIENCE: Duration = Duration::from_secs(180);
/// A user's request that takes longer is made again.
const ANSWER: Duration = Duration::from_secs(5);
const BETWEEN_FAULTS: Duration = Duration::from_secs(10);
const MEMORY_EVERY: Duration = Duration::from_secs(60);
/// How often members are looked at that must not lose anything.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Nobody writes for so long when all is done, and how long that may take to come.
const REST: Duration = Duration::from_secs(10);
const REST_WITHIN: Duration = Duration::from_secs(60);

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
    /// A tombolo of another version, which installs and joins and is then updated to half: one agent of each member is still
    /// of it
    #[arg(long)]
    previous: Option<PathBuf>,
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
            None => release("tombolo-cli")?,
        };
        let previous = args.previous.clone().unwrap_or_else(|| binary.clone());
        let soaked = soak(args, Versions { previous, current: binary }).await;
        soaked.map_err(|failure| -> Box<dyn std::error::Error> { failure })
    })
}

async fn soak(args: &Args, versions: Versions) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.logs)?;
    let fleet = Fleet::start(versions, usize::from(args.members), &args.logs).await?;
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
    deck: Deck,
    report: Report,
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
            deck: Deck::new(usize::from(args.members)),
            report: Report::default(),
        }
    }

    async fn run(mut self) -> Result<(), Failure> {
        let took = self.settle().await?;
        self.say(&format!("{} services are everywhere, after {took:.1?}", self.args.services));
        self.begin = Instant::now();
        let end = Duration::from_secs(self.args.minutes * 60);
        while self.begin.elapsed() < end {
            self.churn(BETWEEN_FAULTS).await?;
            let fault = self.deck.draw(&mut self.random);
            self.suffer(fault).await?;
        }
        self.look_at_memory()?;
        println!("{}", self.report);
        println!("{}", self.report.judge_memory()?);
        println!("nothing lost, nothing stale, and no agent ended to which nobody did anything");
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
            self.report.changes += 1;
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
        if fault.meanwhile() != Meanwhile::Churn {
            self.settle().await?;
        }
        let course = fault.begin(&mut self.fleet).await?;
        let during = |failure: Failure| format!("during {fault}: {failure}");
        let held = match fault.meanwhile() {
            Meanwhile::Churn => self.churn(fault.lasts()).await.map(|()| None),
            Meanwhile::Hold => self.hold(fault.lasts()).await.map(Some),
            Meanwhile::GiveUp(member) => self.give_up(member, fault.lasts()).await.map(|()| None),
        };
        let held = held.map_err(during)?;
        let seen = course.end(&mut self.fleet).await.map_err(during)?.or(held);
        let after = |failure: Failure| format!("after {fault}: {failure}");
        let took = self.settle().await.map_err(after)?;
        if let Some(member) = fault.leaves_two_alive() {
            self.rest(member).await.map_err(after)?;
        }
        let seen_so = seen.as_ref().map(|seen| format!("; {seen}")).unwrap_or_default();
        self.say(&format!("  all agree after {took:.1?}{seen_so}"));
        self.report.fault(fault.kind(), took, seen);
        Ok(())
    }

    /// Users move services for a while; every member is looked at every second, and none may lose an endpoint.
    async fn hold(&mut self, lasts: Duration) -> Result<Seen, Failure> {
        let (begin, before, mut moved) = (Instant::now(), self.wanted.expected(None), BTreeSet::new());
        let mut looks = vec![0_u32; self.fleet.members.len()];
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while begin.elapsed() < lasts {
            ticks.tick().await;
            for _ in 0..self.args.rate {
                let (part, step) = self.wanted.relocate(&mut self.random);
                moved.insert(part);
                self.pending.push_back(step);
                self.report.changes += 1;
            }
            self.fleet.restart_ended()?;
            self.work_off().await;
            for (member, looks) in looks.iter_mut().enumerate() {
                // One that does not answer now is looked at the next time.
                let Ok(Ok(seen)) = timeout(ANSWER, self.fleet.view(member)).await else { continue };
                *looks += 1;
                if let Some(what) = gap(&before, &moved, &seen) {
                    return Err(format!("in {}: {what}", id(member)).into());
                }
            }
        }
        let (least, seconds) = (looks.into_iter().min().unwrap_or_default(), lasts.as_secs());
        if u64::from(least) < seconds / 3 {
            return Err(
                format!("members were looked at {least} times in {seconds} s, which is too seldom").into()
            );
        }
        Ok(Seen { least: f64::from(least), unit: "looks without a gap".to_owned() })
    }

    /// Nobody does anything for a while; before it is over, who is given up is gone everywhere else, and nothing else is.
    async fn give_up(&self, dead: usize, lasts: Duration) -> Result<(), Failure> {
        sleep(lasts).await;
        let expected = self.wanted.expected(Some(dead));
        for member in (0..self.fleet.members.len()).filter(|member| *member != dead) {
            let seen = self.fleet.view(member).await?;
            if let Some(what) = difference(&expected, &seen) {
                return Err(format!("in {}: {what}", id(member)).into());
            }
        }
        Ok(())
    }

    /// Waits until nobody writes any more for a member. Agents that undo each other's work never come to rest.
    async fn rest(&mut self, member: usize) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            let before = self.fleet.written(member).await?;
            sleep(REST).await;
            self.fleet.restart_ended()?;
            let now = self.fleet.written(member).await?;
            let restless = now.iter().find(|(name, version)| before.get(*name) != Some(version));
            let Some((name, _)) = restless else { return Ok(()) };
            if begin.elapsed() > REST_WITHIN {
                return Err(
                    format!("{name} of {} is still written when there is nothing to do", id(member)).into()
                );
            }
        }
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
        let (now, last) = (self.begin.elapsed().as_secs(), self.report.last_look());
        if last.is_none_or(|last| now - last >= MEMORY_EVERY.as_secs()) {
            self.look_at_memory()
        } else {
            Ok(())
        }
    }

    fn look_at_memory(&mut self) -> Result<(), Failure> {
        self.report.memory(self.begin.elapsed().as_secs(), self.fleet.memory()?);
        Ok(())
    }
}
