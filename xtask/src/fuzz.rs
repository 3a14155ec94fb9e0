//! `cargo xtask fuzz`: broken input for a long time, against the code as users run it.

use clap::Subcommand;

use crate::Outcome;
use crate::cargo::cargo;

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
    /// Mutated bodies and queries for the embedded API server: patches, protobuf, YAML, JSON, selectors
    Apiserver {
        /// For how long, each of the eight kinds of input
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// Where the sequence of chance begins
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only this one: JsonPatch, MergePatch, StrategicPatch, Apply, Protobuf, Yaml, Json or Queries
        #[arg(long, default_value = "")]
        target: String,
    },
    /// Torn and damaged logs of the embedded API server
    Journal {
        /// How many logs, each torn and damaged once
        #[arg(long, default_value_t = 1_000_000)]
        rounds: u64,
        /// Where the sequence of chance begins
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// A test that is run for long.
struct Long {
    package: &'static str,
    /// The program of tests; none for those within the library.
    program: Option<&'static str>,
    test: &'static str,
    settings: Vec<(&'static str, String)>,
}

impl Command {
    fn test(&self) -> Long {
        let dns = |test, amount, seed: &u64| Long {
            package: "tombolo-dns",
            program: Some("scenarios"),
            test,
            settings: vec![amount, ("SEED", seed.to_string())],
        };
        match self {
            Self::Dns { minutes, seed } => dns("fuzz::many", ("MINUTES", minutes.to_string()), seed),
            Self::Messages { rounds, seed } => {
                dns("fuzz::mutated_packets_are_answered_in_process", ("ROUNDS", rounds.to_string()), seed)
            }
            Self::Apiserver { minutes, seed, target } => Long {
                package: "tombolo-apiserver",
                program: Some("wire"),
                test: "fuzz::many",
                settings: vec![
                    ("MINUTES", minutes.to_string()),
                    ("SEED", seed.to_string()),
                    ("TARGET", target.clone()),
                ],
            },
            Self::Journal { rounds, seed } => Long {
                package: "tombolo-apiserver",
                program: None,
                test: "store::journal::fuzz::torn_logs_lead_to_what_was_finished_and_damaged_ones_are_recovered_or_refused",
                settings: vec![("ROUNDS", rounds.to_string()), ("SEED", seed.to_string())],
            },
        }
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    let Long { package, program, test, settings } = command.test();
    let program = program.map_or(vec!["--lib"], |program| vec!["--test", program]);
    let status = cargo()
        .args(["test", "--locked", "--package", package])
        .args(program)
        .args(["--", "--include-ignored", "--exact", "--nocapture", test])
        .envs(settings)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the server broke; the seed and the input are printed above".into())
    }
}
