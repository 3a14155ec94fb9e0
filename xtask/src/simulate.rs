//! `cargo xtask simulate`: the simulated supercluster with as many seeds as wanted.

use std::process::Child;

use crate::Outcome;
use crate::test::built::{Built, Name};

type Failure = Box<dyn std::error::Error>;

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
    /// Package, program and test.
    fn test(self) -> [&'static str; 3] {
        match self {
            Subject::Exports => ["tombolo-agent", "simulation", "many"],
            Subject::Works => ["tombolo-cli", "hub", "simulation::many"],
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
    Simulation::begin(args, false)?.finish()
}

/// One that runs.
pub(crate) struct Simulation(Child);

impl Simulation {
    /// Builds what is missing and begins. One that is `idle` takes the processor only while nobody else wants it: its time is
    /// paused, so it may take as long as it likes.
    pub(crate) fn begin(args: &Args, idle: bool) -> Result<Self, Failure> {
        let [package, program, test] = args.of.test();
        let (built, name) = (Built::all()?, Name::new(package, program));
        let mut command = if idle { built.idle_tests_of(&name)? } else { built.tests_of(&name)? };
        command
            .args(["--ignored", "--exact", "--nocapture", test])
            .env("SEEDS", args.seeds.to_string())
            .env("CLUSTERS", args.clusters.to_string())
            .env("FROM", args.from.to_string());
        Ok(Self(command.spawn()?))
    }

    /// Waits for the last seed.
    pub(crate) fn finish(mut self) -> Outcome {
        if self.0.wait()?.success() {
            return Ok(());
        }
        Err("some seeds failed; each is printed above with how to replay it".into())
    }
}
