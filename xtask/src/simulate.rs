//! `cargo xtask simulate`: the simulated supercluster with as many seeds as wanted.

use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, setpriority_process};

use crate::Outcome;
use crate::cargo::cargo;

/// The priority of what has time, as `nice` counts.
const LEAST: i32 = 19;

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
    judge(with_seeds(&mut tests(args.of), args).status()?)
}

/// A run that takes the time that others leave: it needs nothing but a processor, and they mostly wait.
pub(crate) struct Beside(Child);

impl Beside {
    /// Builds what is missing, then begins with the seeds that every change has to pass.
    pub(crate) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let args = Args::default();
        if !tests(args.of).arg("--no-run").status()?.success() {
            return Err("the simulation could not be built".into());
        }
        let child = with_seeds(&mut tests(args.of), &args).spawn()?;
        // What it starts inherits this.
        setpriority_process(i32::try_from(child.id()).ok().and_then(Pid::from_raw), LEAST)?;
        Ok(Self(child))
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Outcome {
        judge(self.0.wait()?)
    }
}

/// Chosen from the whole workspace, so that nothing is built anew with other features.
fn tests(of: Subject) -> Command {
    let mut command = cargo();
    let [program, _] = of.test();
    command.args(["test", "--profile", "simulation", "--workspace", "--locked", "--test", program]);
    command
}

fn with_seeds<'a>(command: &'a mut Command, args: &Args) -> &'a mut Command {
    let [_, test] = args.of.test();
    command
        .args(["--", "--ignored", "--exact", "--nocapture", test])
        .env("SEEDS", args.seeds.to_string())
        .env("CLUSTERS", args.clusters.to_string())
        .env("FROM", args.from.to_string())
}

fn judge(status: ExitStatus) -> Outcome {
    if status.success() {
        Ok(())
    } else {
        Err("some seeds failed; each is printed above with how to replay it".into())
    }
}
