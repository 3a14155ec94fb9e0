//! `cargo xtask bench works`: many clusters and many MultiClusterServices, in one process.

use crate::Outcome;
use crate::cargo::cargo;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many clusters besides the hub
    #[arg(long, default_value_t = 100)]
    clusters: u64,
    /// How many MultiClusterServices, each provided by one cluster and consumed by all
    #[arg(long, default_value_t = 1_000)]
    services: u64,
    /// How many of them change
    #[arg(long, default_value_t = 20)]
    changes: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let status = cargo()
        .args(["test", "--release", "--workspace", "--locked", "--test", "hub"])
        .args(["--", "--ignored", "--exact", "--nocapture", "scale::large"])
        .env("CLUSTERS", args.clusters.to_string())
        .env("SERVICES", args.services.to_string())
        .env("CHANGES", args.changes.to_string())
        .status()?;
    if status.success() { Ok(()) } else { Err("the run failed".into()) }
}
