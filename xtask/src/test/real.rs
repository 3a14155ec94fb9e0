//! Programs of tests on real servers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::built::{Built, Name};
use super::end_to_end::{PROGRAMS, Program};
use super::keeper::HASTE;
use super::outcome::{Outcomes, Verdict, follow};

type Failure = Box<dyn std::error::Error>;

/// The variable that the test kit reads.
const SERVER: &str = "TOMBOLO_TEST_APISERVER";

/// The variable that tells it where to find real clusters.
const KEEPER: &str = "TOMBOLO_TEST_KEEPER";

/// What is said of those that needed a second attempt.
const SECOND: &str = "only at the second attempt, alone";

/// What they need.
pub(super) struct Real {
    /// Where the servers are, and all else that tests start.
    pub(super) path: OsString,
    /// Where the keeper of their clusters listens, unless each has its own.
    pub(super) socket: Option<PathBuf>,
}

impl Real {
    /// Runs the tests of a program, but for those that only the embedded server can run.
    pub(super) fn run(&self, program: &Program, built: &Built) -> Result<Outcomes, Failure> {
        let modules = program.embedded.iter().flat_map(|(module, _)| ["--skip", module]);
        let mut command = self.tests_of(program, built)?;
        command.arg(program.threads).args(modules);
        follow(command, program.target, &format!("{} on kube", program.target))
    }

    /// Several tests share two cores with many servers, whose time cannot be paused: what fails there is given a second
    /// attempt alone. That it needed one is told, in the table and at the end of the run.
    pub(super) fn try_again(&self, outcomes: &mut Outcomes, built: &Built) -> Result<(), Failure> {
        for program in &PROGRAMS {
            let failed = outcomes.of(program.target).filter(|(_, verdict)| **verdict == Verdict::Failed);
            for test in failed.map(|(test, _)| test.to_owned()).collect::<Vec<_>>() {
                println!("\n{} {test} failed; once more, alone", program.target);
                if self.passes(program, &test, built)? {
                    outcomes.set(program.target, &test, Verdict::PassedBut(SECOND.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn passes(&self, program: &Program, test: &str, built: &Built) -> Result<bool, Failure> {
        let mut command = self.tests_of(program, built)?;
        command.args(["--exact", test]);
        let outcomes = follow(command, program.target, &format!("{} on kube", program.target))?;
        let passed = |verdict: &Verdict| matches!(verdict, Verdict::Passed | Verdict::PassedBut(_));
        Ok(!outcomes.has_failures() && outcomes.count(passed) == 1)
    }

    fn tests_of(&self, program: &Program, built: &Built) -> Result<Command, Failure> {
        let name = Name::new(program.package, program.target);
        // Who shares servers shares the processor, too, with tests that count on it.
        let mut command = match self.socket {
            Some(_) => built.modest_tests_of(&name)?,
            None => built.tests_of(&name)?,
        };
        command.env("PATH", &self.path).env(SERVER, "kube").envs(HASTE);
        command.envs(self.socket.iter().map(|socket| (KEEPER, socket)));
        Ok(command)
    }
}
