//! Programs that take the processor only while nobody else wants it.

use std::ffi::OsStr;
use std::process::Command;

/// Such a program. It ends with the thread that starts it.
pub(crate) fn idle(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "chrt", "--idle", "0"]).arg(program);
    command
}
