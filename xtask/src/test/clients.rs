//! The small Go programs that tests build for themselves: compiled here once, so that tests only link them.
//!
//! All of them, kubectl and the real servers use one release of the same large client. Go compiles it once for all, unless two ask
//! for it at the same time: then both compile it.

use std::process::Command;

use super::find;
use crate::{Outcome, root};

/// Where they are.
pub(crate) const FOLDERS: [&str; 2] = ["crates/cli/tests/kept/informers", "crates/cli/tests/playground/spdy"];

/// Makes sure that linking is all that is left to do. Without Go, their tests say that they did not run.
pub(super) fn provide() -> Outcome {
    if find("go").is_none() {
        return Ok(());
    }
    for folder in FOLDERS {
        let mut build = Command::new("go");
        build.args(["build", "-o", "/dev/null", "."]).current_dir(root().join(folder));
        if !build.status()?.success() {
            return Err(format!("the Go program in {folder} could not be built").into());
        }
    }
    Ok(())
}
