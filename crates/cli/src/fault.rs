//! `tombolo fault`: breaks things in a playground, and mends them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tombolo_playground::{Directory, Fault, Request, ask};

use crate::failure::Failure;
use crate::span;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the playground.
    #[arg(long, default_value = ".tombolo", global = true)]
    dir: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Cut the link of a member or of the hub.
    Partition { name: String },
    /// Undo whatever was done to a member, a node or the hub.
    Heal { name: String },
    /// End everything on a node and cut its link.
    KillNode {
        #[arg(value_name = "MEMBER/NODE")]
        name: String,
    },
    /// End the API server of a member or of the hub; its data stays.
    KillApiserver { name: String },
    /// Let everything that leaves a member or the hub wait for so long.
    Slow {
        name: String,
        #[arg(value_parser = span::parse)]
        delay: Duration,
    },
}

#[expect(clippy::print_stdout, reason = "the person wants to know what happened")]
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let fault = match &arguments.what {
        What::Partition { name } => Fault::Partition(name.clone()),
        What::Heal { name } => Fault::Heal(name.clone()),
        What::KillNode { name } => Fault::KillNode(name.clone()),
        What::KillApiserver { name } => Fault::KillApiserver(name.clone()),
        What::Slow { name, delay } => {
            Fault::Slow(name.clone(), u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
        }
    };
    let said = ask(&Directory::new(&arguments.dir), &Request::Fault(fault));
    let said = said.map_err(|cause| Failure::new("nothing was done").because(cause))?;
    println!("{said}");
    Ok(())
}
