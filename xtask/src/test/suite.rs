//! All tests that are wanted, on the embedded server and on real ones, in lanes: most of them wait most of the time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::built::{Built, Name};
use super::end_to_end::{PROGRAMS, Program};
use super::keeper::Keeper;
use super::lanes::{self, Piece};
use super::meanwhile::Meanwhile;
use super::outcome::{Outcomes, follow};
use super::path_with;
use super::real::Real;
use crate::Outcome;

type Failure = Box<dyn std::error::Error>;

/// So many programs run at the same time: while the last tests of one wait, others begin.
const LANES: usize = 2;

/// The programs that send packets: two of them would take the processor from each other at the wrong moment.
const WITH_TRAFFIC: [&str; 8] =
    ["balancer", "cluster", "kernel", "kube_proxy", "load_balancers", "packets", "playground", "proxy"];

/// What is wanted.
pub(super) struct Suite {
    /// Where to search first for what tests start.
    pub(super) tools: Vec<PathBuf>,
    pub(super) embedded: bool,
    pub(super) real: bool,
    /// When no more programs are begun on real servers.
    pub(super) deadline: Option<Instant>,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Results {
    pub(super) embedded: Outcomes,
    pub(super) real: Outcomes,
    /// The programs that were not begun on real servers, because it was too late.
    pub(super) not_begun: Vec<&'static str>,
    /// Why there are no real servers, though they are wanted.
    pub(super) no_servers: Option<String>,
}

impl Suite {
    /// Runs all tests, with `meanwhile` in the processor's idle time. Real servers leave little of the processor to others, so they
    /// come when all else is done.
    pub(super) fn run(&self, meanwhile: Meanwhile) -> Result<Results, Failure> {
        let (built, results) = (Built::all()?, Mutex::default());
        if self.embedded {
            self.run_embedded(&built, &results)?;
        }
        // Whoever has to mend something wants to know soon.
        if !locked(&results).embedded.has_failures() {
            self.run_rest(&built, meanwhile, &results)?;
        }
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn run_rest(&self, built: &Built, meanwhile: Meanwhile, results: &Mutex<Results>) -> Outcome {
        if !self.real {
            return meanwhile.finish();
        }
        match meanwhile.servers() {
            Ok(folder) => self.run_real(built, &folder, meanwhile, results),
            Err(failure) => {
                locked(results).no_servers = Some(failure.to_string());
                meanwhile.finish()
            }
        }
    }

    /// Programs with traffic come first, because they are one after the other.
    fn run_embedded(&self, built: &Built, results: &Mutex<Results>) -> Outcome {
        let path = path_with(self.tools.iter().cloned())?;
        let mut pieces: Vec<Piece<&Name>> = built.names().map(|name| piece(name, &name.target)).collect();
        pieces.sort_by_key(|piece| !piece.is_loud);
        let act = |name: &Name| {
            let mut command = built.tests_of(name)?;
            command.env("PATH", &path);
            let outcomes = follow(command, &name.target, &name.target)?;
            locked(results).embedded.add(outcomes);
            Ok::<(), Failure>(())
        };
        Ok(lanes::run(LANES, pieces, |name| act(name).map_err(|failure| failure.to_string()))?)
    }

    fn run_real(
        &self,
        built: &Built,
        folder: &Path,
        meanwhile: Meanwhile,
        results: &Mutex<Results>,
    ) -> Outcome {
        let path = path_with(self.tools.iter().cloned().chain([folder.to_owned()]))?;
        let keeper = Keeper::start(folder)?;
        let mut real = Real { path, socket: Some(keeper.socket()) };
        let (own, shared): (Vec<_>, Vec<_>) = PROGRAMS.iter().partition(|program| program.has_own_servers);
        let pieces = shared.into_iter().map(|program| piece(program, program.target));
        let act = |real: &Real, program: &'static Program| {
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                locked(results).not_begun.push(program.target);
                return Ok(());
            }
            let outcomes = real.run(program, built)?;
            locked(results).real.add(outcomes);
            Ok::<(), Failure>(())
        };
        lanes::run(LANES, pieces, |program| act(&real, program).map_err(|failure| failure.to_string()))?;
        // What is left has the processor for itself: servers of others are not idle even if nobody asks them for anything.
        drop(keeper);
        meanwhile.finish()?;
        real.socket = None;
        own.into_iter().try_for_each(|program| act(&real, program))?;
        real.try_again(&mut locked(results).real, built)
    }
}

fn piece<W>(work: W, target: &str) -> Piece<W> {
    Piece { work, is_loud: WITH_TRAFFIC.contains(&target) }
}

fn locked(results: &Mutex<Results>) -> MutexGuard<'_, Results> {
    results.lock().unwrap_or_else(PoisonError::into_inner)
}
