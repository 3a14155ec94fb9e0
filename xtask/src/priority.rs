//! Programs that leave the processor to others.

use std::ffi::OsStr;
use std::process::Command;

/// How many steps those who give way are below everybody else: they get a quarter of what both want.
pub(crate) const STEPS: &str = "5";

/// The kernel shares the processor among sessions first, whatever their programs want, and a playground has one of its own. So
/// one that is idle has, too, and says there how little it wants. Where sessions do not count there is no such file.
const IN_AN_IDLE_SESSION: &str = "echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 \"$@\"";

/// One that takes it only while nobody else wants it. It ends with the thread that starts it.
pub(crate) fn idle(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "setsid", "sh", "-c", IN_AN_IDLE_SESSION, "sh"]).arg(program);
    command
}

/// One that gives way.
pub(crate) fn modest(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", STEPS]).arg(program);
    command
}
