//! Benchmarks: they measure and report; nothing here fails because a machine was slow.

mod apiserver;
mod client;
mod dns;
mod process;
mod propagation;
mod proxy;
mod sample;
mod works;

use clap::Subcommand;

pub(crate) use self::client::connector;
pub(crate) use self::process::resident_memory;

use crate::Outcome;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The embedded API server, or with --kubeconfig any other, over TLS on loopback
    Apiserver(apiserver::Args),
    /// From a change of endpoints in one member to the imported slice in another
    Propagation(propagation::Args),
    /// DNS, with NSD and Knot in the same run
    Dns(dns::Args),
    /// The service proxy: loading and changing thousands of Services, against nft in kube-proxy's layout. Needs root
    Proxy(proxy::Args),
    /// Many clusters and many MultiClusterServices: writes per change, and what heartbeats cost
    Works(works::Args),
}

pub(crate) fn run(command: Command) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match command {
        Command::Apiserver(args) => runtime.block_on(apiserver::run(&args)),
        Command::Propagation(args) => runtime.block_on(propagation::run(&args)),
        Command::Dns(args) => dns::run(&args),
        Command::Proxy(args) => runtime.block_on(proxy::run(&args)),
        Command::Works(args) => works::run(&args),
    }
}
