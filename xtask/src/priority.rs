//! Programs that leave the processor to others.

use std::ffi::OsStr;
use std::process::Command;

/// How many steps those who give way are below everybody else: they get a quarter of what both want.
pub(crate) const STEPS: &str = "5";

/// One that takes it only while nobody else wants it. It ends with the thread that starts it.
pub(crate) fn idle(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "chrt", "--idle", "0"]).arg(program);
    command
}

/// One that gives way.
pub(crate) fn modest(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", STEPS]).arg(program);
    command
}
