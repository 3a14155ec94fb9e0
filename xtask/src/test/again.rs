//! A second attempt for tests that share two cores with many processes whose time cannot be paused: real API servers, or
//! whoever sends and answers packets. That one was needed is told, in the table and at the end of the run.

use std::process::Command;

use super::outcome::{Outcomes, Verdict, follow};

type Failure = Box<dyn std::error::Error>;

/// What is said of those that needed it.
const SECOND: &str = "only at the second attempt, alone";

/// Runs the tests of a program that failed once more, one at a time. `command` starts the program.
pub(super) fn try_again(
    outcomes: &mut Outcomes,
    program: &str,
    label: &str,
    command: impl Fn() -> Result<Command, Failure>,
) -> Result<(), Failure> {
    let failed = outcomes.of(program).filter(|(_, verdict)| **verdict == Verdict::Failed);
    for test in failed.map(|(test, _)| test.to_owned()).collect::<Vec<_>>() {
        println!("\n{label}: {test} failed; once more, alone");
        let mut command = command()?;
        command.args(["--exact", &test]);
        let second = follow(command, program, label)?;
        let passed = |verdict: &Verdict| matches!(verdict, Verdict::Passed | Verdict::PassedBut(_));
        if !second.has_failures() && second.count(passed) == 1 {
            outcomes.set(program, &test, Verdict::PassedBut(SECOND.to_owned()));
        }
    }
    Ok(())
}
