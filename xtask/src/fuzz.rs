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
    /// The same packets without a network in between: many more in the same time
    Messages {
        /// How many times 2,020 packets
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
        /// Where the sequence of chance begins
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    let (test, variable, amount, seed) = match command {
        Command::Dns { minutes, seed } => ("fuzz::many", "MINUTES", minutes, seed),
        Command::Messages { rounds, seed } => {
            ("fuzz::mutated_packets_are_answered_in_process", "ROUNDS", rounds, seed)
        }
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Process::new(cargo)
        .args(["test", "--locked", "--package", "tombolo-dns", "--test", "scenarios"])
        .args(["--", "--include-ignored", "--exact", "--nocapture", test])
        .env(variable, amount.to_string())
        .env("SEED", seed.to_string())
        .current_dir(root())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the server broke; the seed and the packet are printed above".into())
    }
}
