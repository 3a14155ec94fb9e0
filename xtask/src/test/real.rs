//! Programs of tests on real servers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::again::try_again;
use super::built::{Built, Name};
use super::end_to_end::{PROGRAMS, Program};
use super::keeper::HASTE;
use super::outcome::{Outcomes, follow};

type Failure = Box<dyn std::error::Error>;

/// The variable that the test kit reads.
const SERVER: &str = "TOMBOLO_TEST_APISERVER";

/// The variable that tells it where to find real clusters.
const KEEPER: &str = "TOMBOLO_TEST_KEEPER";

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

    pub(super) fn try_again(&self, outcomes: &mut Outcomes, built: &Built) -> Result<(), Failure> {
        PROGRAMS.iter().try_for_each(|program| {
            let label = format!("{} on kube", program.target);
            try_again(outcomes, program.target, &label, || self.tests_of(program, built))
        })
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
