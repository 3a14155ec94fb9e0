//! `tombolo`: one binary, one subcommand per part.

mod admin;
mod agent;
mod apiserver;
mod connect;
mod dns;
mod failure;
mod interrupt;
mod proxy;
mod span;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Joins Kubernetes clusters, so that a Service exported in one is used in all.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    /// Say more: what led to an error, and debug logs.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run embedded Kubernetes API servers until Ctrl-C, with a kubeconfig that has a context for each.
    Apiserver(apiserver::Arguments),
    /// Run the agent of a member cluster: offer what it exports, import what others offer.
    Agent(Box<agent::Arguments>),
    /// Run the service proxy of a node, or say what it does for a Service.
    Proxy(Box<proxy::Arguments>),
    /// Answer DNS for supercluster.local and clusterset.local, or say why an answer is what it is.
    Dns(Box<dns::Arguments>),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_logging(arguments.verbose, &arguments.command);
    let outcome = match arguments.command {
        Command::Apiserver(command) => apiserver::run(command).await,
        Command::Agent(command) => agent::run(*command).await,
        Command::Proxy(command) => proxy::run(*command).await,
        Command::Dns(command) => dns::run(*command).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(arguments.verbose),
    }
}

/// Logs go to standard error; `RUST_LOG` decides in detail. What a person runs to try things is quiet; a part that runs
/// unattended says what it does.
fn start_logging(verbose: bool, command: &Command) {
    let quiet = match command {
        _ if verbose => "debug",
        Command::Apiserver(_) => "warn",
        Command::Proxy(command) if !command.runs_unattended() => "warn",
        Command::Dns(command) if command.is_question() => "warn",
        Command::Agent(_) | Command::Dns(_) | Command::Proxy(_) => "info",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| quiet.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
