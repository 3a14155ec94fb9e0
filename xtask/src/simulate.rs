//! `cargo xtask simulate`: the simulated supercluster with as many seeds as wanted.

use crate::Outcome;
use crate::cargo::cargo;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// How many clusters besides the hub; works begin with three, and others join
    #[arg(long, default_value_t = 5)]
    clusters: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// What is simulated
    #[arg(long, value_enum, default_value_t = Subject::Exports)]
    of: Subject,
}

/// What may be simulated.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Subject {
    /// Agents, exports and imports
    Exports,
    /// A hub, MultiClusterServices and Works
    Works,
}

impl Subject {
    /// Program and test.
    fn test(self) -> [&'static str; 2] {
        match self {
            Subject::Exports => ["simulation", "many"],
            Subject::Works => ["hub", "simulation::many"],
        }
    }
}

impl Default for Args {
    /// What every change has to pass.
    fn default() -> Self {
        Self { seeds: 1_000, clusters: 5, from: 0, of: Subject::Exports }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let [program, test] = args.of.test();
    let status = cargo()
        .args(["test", "--profile", "simulation", "--workspace", "--locked", "--test", program])
        .args(["--", "--ignored", "--exact", "--nocapture", test])
        .env("SEEDS", args.seeds.to_string())
        .env("CLUSTERS", args.clusters.to_string())
        .env("FROM", args.from.to_string())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("some seeds failed; each is printed above with how to replay it".into())
    }
}
