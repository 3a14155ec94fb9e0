//! `tombolo down`: ends a playground and waits until nothing of it is left.

use std::path::PathBuf;

use clap::Args;
use tombolo_playground::{Directory, Request, ask};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the playground.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stopped = ask(&Directory::new(&arguments.dir), &Request::Stop);
    stopped.map(drop).map_err(|cause| {
        Failure::new("nothing was stopped").because(cause).hint("--dir says where the playground is")
    })
}
