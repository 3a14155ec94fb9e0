//! `cargo xtask test`: everything the tests need, then all of them, then the simulation with many seeds.
//!
//! On a machine where it may, it gets what is missing; elsewhere it names it and stops, because a test that is skipped in
//! silence is worse than one that fails.

mod debian;
mod dns;
mod kubectl;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::{Outcome, root, simulate};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let extra = kubectl::provide()?;
    dns::provide()?;
    debian::provide()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--workspace", "--locked"])
        .args(&args.rest)
        .env("PATH", path_with(extra)?)
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("some tests failed".into());
    }
    // Whoever asks for certain tests does not mean the many seeds.
    if args.rest.is_empty() { simulate::run(&simulate::Args::default()) } else { Ok(()) }
}

/// Where things are kept between runs, outside the checkout.
pub(crate) fn cache() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Ok(base.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("tombolo"))
}

/// The search path, with the folders in `first` before all others.
fn path_with(first: impl IntoIterator<Item = PathBuf>) -> Result<OsString, std::env::JoinPathsError> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&usual)))
}

/// The file of a program on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
