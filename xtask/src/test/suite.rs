//! All tests that are wanted, on the embedded server and on real ones, in lanes: most of them wait most of the time.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::again::try_again;
use super::built::{Built, Name};
use super::end_to_end::{PROGRAMS, Program};
use super::keeper::Keeper;
use super::lanes::{self, Kind, Piece};
use super::meanwhile::Meanwhile;
use super::outcome::{Outcomes, follow};
use super::path_with;
use super::real::Real;
use crate::Outcome;

type Failure = Box<dyn std::error::Error>;

/// So many programs run at the same time: while the last tests of one wait, others begin.
const LANES: usize = 3;

/// The programs that send packets.
const WITH_TRAFFIC: [&str; 8] =
    ["balancer", "cluster", "kernel", "kube_proxy", "load_balancers", "packets", "playground", "proxy"];

/// What is wanted.
pub(super) struct Suite {
    /// Where to search first for what tests start.
    pub(super) tools: Vec<PathBuf>,
    pub(super) embedded: bool,
    pub(super) real: bool,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Results {
    pub(super) embedded: Outcomes,
    pub(super) real: Outcomes,
    /// Why there are no real servers, though they are wanted.
    pub(super) no_servers: Option<String>,
}

/// A program of tests, and what it runs on.
enum Work<'a> {
    Embedded(&'a Name),
    Real(&'static Program),
}

/// A run that is under way.
struct Run<'a> {
    suite: &'a Suite,
    built: &'a Built,
    results: Mutex<Results>,
    /// What tests on real servers need; nothing if there are none.
    real: OnceLock<Option<Real>>,
}

impl Suite {
    /// Runs all tests, with `meanwhile` in the processor's idle time. Those on real servers begin when nothing else is left to begin,
    /// and give way to the others.
    pub(super) fn run(&self, meanwhile: Meanwhile) -> Result<Results, Failure> {
        let built = Built::all()?;
        let run = Run { suite: self, built: &built, results: Mutex::default(), real: OnceLock::new() };
        let keeper = std::thread::scope(|scope| {
            let lanes = scope.spawn(|| run.run_lanes());
            // The keeper ends with the thread that starts it.
            let keeper = run.start_keeper(&meanwhile);
            lanes.join().expect("the lanes end")?;
            keeper.map_err(|failure| failure.to_string())
        })?;
        // Whoever has to mend something wants to know soon.
        if !run.results().embedded.has_failures() {
            // What is left has the processor for itself: servers of others are not idle even if nobody asks them for anything.
            drop(keeper);
            run.run_alone()?;
            meanwhile.finish()?;
        }
        Ok(run.results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Run<'_> {
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the servers. Whoever waits for them is told.
    fn start_keeper(&self, meanwhile: &Meanwhile) -> Result<Option<Keeper>, Failure> {
        let started = self.try_to_start_keeper(meanwhile);
        let _ = self.real.set(None);
        started
    }

    fn try_to_start_keeper(&self, meanwhile: &Meanwhile) -> Result<Option<Keeper>, Failure> {
        if !self.suite.real {
            return Ok(None);
        }
        let folder = match meanwhile.servers() {
            Ok(folder) => folder,
            Err(failure) => {
                self.results().no_servers = Some(failure.to_string());
                return Ok(None);
            }
        };
        let path = path_with(self.suite.tools.iter().cloned().chain([folder.clone()]))?;
        let keeper = Keeper::start(&folder)?;
        let _ = self.real.set(Some(Real { path, socket: Some(keeper.socket()) }));
        Ok(Some(keeper))
    }

    /// All tests but those that have to be alone. Programs with traffic come first, because they are one after the other.
    fn run_lanes(&self) -> Result<(), String> {
        let mut pieces = Vec::new();
        if self.suite.embedded {
            pieces.extend(self.built.names().map(|name| piece(Work::Embedded(name), &name.target, &[])));
            pieces.sort_by_key(|piece| piece.kinds.is_empty());
        }
        if self.suite.real {
            let shared = PROGRAMS.iter().filter(|program| !program.has_own_servers);
            pieces.extend(shared.map(|program| piece(Work::Real(program), program.target, &[Kind::Real])));
        }
        let act = |work| match work {
            Work::Embedded(name) => self.run_embedded(name),
            Work::Real(program) => self.run_real(program, self.real.wait().as_ref()),
        };
        lanes::run(LANES, pieces, |work| act(work).map_err(|failure| failure.to_string()))
    }

    /// Tests that start all their servers themselves, and those that failed.
    fn run_alone(&self) -> Outcome {
        let shared = self.real.get().and_then(Option::as_ref);
        let Some(real) = shared.map(|real| Real { path: real.path.clone(), socket: None }) else {
            return Ok(());
        };
        let mut own = PROGRAMS.iter().filter(|program| program.has_own_servers);
        own.try_for_each(|program| self.run_real(program, Some(&real)))?;
        real.try_again(&mut self.results().real, self.built)
    }

    fn run_embedded(&self, name: &Name) -> Outcome {
        let path = path_with(self.suite.tools.iter().cloned())?;
        let tests = || {
            let mut command = self.built.tests_of(name)?;
            command.env("PATH", &path);
            Ok(command)
        };
        let mut outcomes = follow(tests()?, &name.target, &name.target)?;
        if WITH_TRAFFIC.contains(&name.target.as_str()) {
            try_again(&mut outcomes, &name.target, &name.target, tests)?;
        }
        self.results().embedded.add(outcomes);
        Ok(())
    }

    fn run_real(&self, program: &'static Program, real: Option<&Real>) -> Outcome {
        let Some(real) = real else { return Ok(()) };
        if self.results().embedded.has_failures() {
            return Ok(());
        }
        let outcomes = real.run(program, self.built)?;
        self.results().real.add(outcomes);
        Ok(())
    }
}

fn piece<'a>(work: Work<'a>, target: &str, kinds: &[Kind]) -> Piece<Work<'a>> {
    let loud = WITH_TRAFFIC.contains(&target).then_some(Kind::Loud);
    Piece { work, kinds: kinds.iter().copied().chain(loud).collect() }
}
