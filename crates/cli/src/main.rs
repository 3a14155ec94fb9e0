//! `tombolo`: one binary, one subcommand per part.

mod admin;
mod agent;
mod apiserver;
mod balancer;
mod completions;
mod connect;
mod coredns;
mod demo;
mod dns;
mod doctor;
mod down;
mod explain;
mod export;
mod failure;
mod fault;
mod fitting;
mod host;
mod hub;
mod hub_address;
mod install;
mod interrupt;
mod join;
mod leave;
mod membership;
mod outside;
mod paint;
mod parts;
mod process;
mod proxy;
mod quantity;
mod say;
mod servers;
mod service_name;
mod span;
mod status;
mod survey;
mod table;
mod top;
mod uninstall;
mod up;

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::failure::Failure;

/// Parts read and write small objects all day: with the allocator of the C library that is a quarter of what they do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How kubectl calls the program to be a plugin.
const PLUGIN: &str = "kubectl-tombolo";
/// What is true of all commands, below the help.
const AFTER_HELP: &str = "Exit codes: 0 done; 1 it failed; 2 the command line was wrong; 3 explain or doctor found \
                          something broken.";

/// Joins Kubernetes clusters, so that a Service exported in one is used in all.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, propagate_version = true, after_help = AFTER_HELP)]
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
    /// Run the load balancers of a node: addresses for LoadBalancer Services, answered for on its network.
    Balancer(Box<balancer::Arguments>),
    /// Run the hub's own part: look after clusters and MultiClusterServices.
    Hub(Box<hub::Arguments>),
    /// Answer DNS for supercluster.local and clusterset.local, or say why an answer is what it is.
    Dns(Box<dns::Arguments>),
    /// Bring parts into a cluster, or print what that would be.
    Install(Box<install::Arguments>),
    /// Take parts out of a cluster.
    Uninstall(Box<uninstall::Arguments>),
    /// Make a cluster a member: a place at the hub, and the way there.
    Join(Box<join::Arguments>),
    /// Undo that.
    Leave(Box<leave::Arguments>),
    /// Run a whole supercluster on this computer until Ctrl-C: a hub, clusters, nodes, pods.
    Up(up::Arguments),
    /// Take the tour: three clusters share a service, lose one, and go on.
    Demo(demo::Arguments),
    /// End what `up` started.
    Down(down::Arguments),
    /// Run a command on a host of the playground that belongs to no cluster but shares the nodes' network.
    Outside(outside::Arguments),
    /// Break something in the playground, or make it whole again.
    Fault(fault::Arguments),
    /// Show clusters, what they export and import, and who disagrees.
    Status(status::Arguments),
    /// Show clusters, services and parts on a screen, live.
    Top(top::Arguments),
    /// Export a Service to all clusters.
    Export(export::Arguments),
    /// Take an export back.
    Unexport(export::Arguments),
    /// Walk the way of a service from cluster to cluster and say where it is broken.
    Explain(explain::Arguments),
    /// Check what Tombolo needs: versions, kinds, rights, clocks, ways, addresses.
    Doctor(doctor::Arguments),
    /// Print what a shell needs to complete commands.
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    if let Some(code) = tombolo_playground::become_tool() {
        return code;
    }
    // Not for people, so not among the subcommands: the playground calls this program to be a container.
    if std::env::args().nth(1).as_deref() == Some(tombolo_playground::SUBCOMMAND) {
        return tombolo_playground::become_container();
    }
    let arguments = parse();
    start_logging(arguments.verbose, &arguments.command);
    match run(arguments.command, arguments.verbose) {
        Ok(code) => code,
        Err(failure) => failure.report(arguments.verbose),
    }
}

/// Reads the command line. As a plugin of kubectl it speaks of itself as such.
fn parse() -> Arguments {
    let called = std::env::args().next().unwrap_or_default();
    let is_plugin = called.rsplit('/').next() == Some(PLUGIN);
    let command = Arguments::command();
    let command = if is_plugin { command.bin_name("kubectl tombolo") } else { command };
    Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// What has to happen before there are threads happens here.
fn run(command: Command, verbose: bool) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Explain(command) => return block_on(explain::run(command)),
        Command::Doctor(command) => return block_on(doctor::run(command)),
        Command::Apiserver(command) => block_on(apiserver::run(command)),
        Command::Agent(command) => block_on(agent::run(*command)),
        Command::Proxy(command) => block_on(proxy::run(*command)),
        Command::Balancer(command) => block_on(balancer::run(*command)),
        Command::Dns(command) => block_on(dns::run(*command)),
        Command::Hub(command) => block_on(hub::run(*command)),
        Command::Install(command) => block_on(install::run(*command)),
        Command::Uninstall(command) => block_on(uninstall::run(*command)),
        Command::Join(command) => block_on(join::run(*command)),
        Command::Leave(command) => block_on(leave::run(*command)),
        Command::Up(command) if command.wants_background() => up::start_in_background(&command, verbose),
        Command::Up(command) => {
            let network = command.network();
            block_on(up::run(command, network))
        }
        Command::Demo(command) => {
            let network = tombolo_playground::acquire();
            block_on(demo::run(command, network))
        }
        Command::Down(command) => down::run(&command),
        Command::Outside(command) => outside::run(&command),
        Command::Fault(command) => fault::run(&command),
        Command::Status(command) => block_on(status::run(command)),
        Command::Top(command) => block_on(top::run(command)),
        Command::Export(command) => block_on(export::export(command)),
        Command::Unexport(command) => block_on(export::unexport(command)),
        Command::Completions(command) => {
            completions::run(&command);
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|cause| Failure::new("there is no runtime").because(cause))?;
    runtime.block_on(future)
}

/// Logs go to standard error; `RUST_LOG` decides in detail. What a person runs to try things is quiet; a part that runs
/// unattended says what it does.
fn start_logging(verbose: bool, command: &Command) {
    let quiet = match command {
        _ if verbose => "debug",
        Command::Apiserver(_) | Command::Down(_) | Command::Outside(_) | Command::Fault(_) => "warn",
        // What cannot be reached is told in the answer.
        Command::Status(_) | Command::Top(_) | Command::Explain(_) | Command::Doctor(_) => "off",
        Command::Export(_) | Command::Unexport(_) | Command::Completions(_) => "warn",
        Command::Install(_) | Command::Uninstall(_) | Command::Join(_) | Command::Leave(_) => "warn",
        // Parts that complain about what was broken on purpose are no news to the person who did it.
        Command::Up(_) | Command::Demo(_) => "error,kube_client=off",
        Command::Proxy(command) if !command.runs_unattended() => "warn",
        Command::Dns(command) if command.is_question() => "warn",
        Command::Agent(_) | Command::Balancer(_) | Command::Dns(_) | Command::Hub(_) | Command::Proxy(_) => {
            "info"
        }
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| quiet.into());
    let coloured = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(coloured).with_writer(stderr).init();
}
