//! `tombolo outside`: a command on a host that belongs to no cluster but shares the nodes' network.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use tombolo_playground::{Directory, enter_outside};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the playground.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
    /// What to run there.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Becomes the command; returns only when that fails.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = Directory::new(&arguments.dir);
    enter_outside(&directory).map_err(|cause| {
        Failure::new("there is no way outside").because(cause).hint("--dir says where the playground is")
    })?;
    let Some((program, rest)) = arguments.command.split_first() else { return Ok(()) };
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(std::path::absolute(directory.tools()).unwrap_or_default());
    let cause = Command::new(program).args(rest).env("PATH", path).exec();
    Err(Failure::new(format!("cannot run {program}")).because(cause))
}
