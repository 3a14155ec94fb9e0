//! Developer automation for Tombolo, run as `cargo xtask <command>`.
//!
//! One module per command. A command that writes generated files has `--check`, which fails instead when they are stale.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to a person")]

mod bench;
mod cargo;
mod crds;
mod deploy;
mod fuzz;
mod generated;
mod image;
mod kube;
mod priority;
mod servers;
mod simulate;
mod soak;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

/// Developer automation for Tombolo.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a part against its targets
    #[command(subcommand)]
    Bench(bench::Command),
    /// Write the CRD manifests in deploy/crds
    Crds(generated::Args),
    /// Write the manifests and the Helm chart in deploy
    Deploy(generated::Args),
    /// Throw broken input at a part for a while
    #[command(subcommand)]
    Fuzz(fuzz::Command),
    /// Make the container image
    Image(image::Args),
    /// Build the servers of a real cluster and say where they are
    Kube(kube::Args),
    /// Keep real API servers and lend them to tests
    #[command(hide = true)]
    Keep(test::keeper::Args),
    /// Run the simulated supercluster with many seeds
    Simulate(simulate::Args),
    /// Keep a supercluster on real API servers under change and faults for a while
    Soak(soak::Args),
    /// Install what the tests need and run all of them
    Test(test::Args),
}

/// What a command ends with; the error is printed with its causes.
type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(command) => bench::run(command),
        Command::Crds(args) => crds::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Fuzz(command) => fuzz::run(&command),
        Command::Image(args) => image::run(&args),
        Command::Kube(args) => kube::run(&args),
        Command::Keep(args) => test::keeper::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Test(args) => test::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

fn report(error: &dyn std::error::Error) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
}

/// The root of the checkout that Cargo was called in. The one that this was built in may be another, where several share a
/// folder for what they build.
fn root() -> &'static Path {
    static PACKAGE: LazyLock<PathBuf> = LazyLock::new(|| {
        let called = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        called.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
    });
    PACKAGE.parent().unwrap_or(&PACKAGE)
}
