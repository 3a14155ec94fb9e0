//! `cargo xtask fuzz`: broken input for a long time, against the code as users run it.

use std::process::Command as Process;

use clap::Subcommand;

use crate::{Outcome, root};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Mutated packets for a DNS server, over UDP and TCP; every few it must still answer a good one
    Dns {
        /// For how long
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Where the sequence of chance begins
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    let Command::Dns { minutes, seed } = command;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Process::new(cargo)
        .args(["test", "--locked", "--package", "tombolo-dns", "--test", "scenarios"])
        .args(["--", "--ignored", "--exact", "--nocapture", "fuzz::many"])
        .env("MINUTES", minutes.to_string())
        .env("SEED", seed.to_string())
        .current_dir(root())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the server broke; the seed and the packet are printed above".into())
    }
}
