//! `tombolo apiserver`: embedded clusters for trying things out.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tombolo_apiserver::controllers::{self, Settings};
use tombolo_apiserver::{Cluster, Context, DataError, Options, Server, kubeconfig};

use crate::failure::Failure;
use crate::interrupt::interrupted;

/// The nodes of each cluster: two, so that things spread.
const PHANTOM_NODES: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many clusters to run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=200))]
    clusters: u16,
    /// Where to write the kubeconfig.
    #[arg(long, default_value = ".tombolo")]
    dir: PathBuf,
    /// Keep the clusters in this folder: they are there again when the command is, even after a crash. Without it
    /// everything is in memory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address to listen on. Anyone who can reach it and knows a token is administrator.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port of the first cluster; the others follow. 0 takes any free ports.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Evaluate RBAC roles; without it every known user may do everything.
    #[arg(long)]
    rbac: bool,
    /// Turn feature gates on or off, such as ServiceInternalTrafficPolicy=false.
    #[arg(long, value_delimiter = ',', value_name = "GATE=BOOL")]
    feature_gates: Vec<FeatureGate>,
}

#[derive(Clone, Copy, Debug)]
enum FeatureGate {
    ServiceInternalTrafficPolicy(bool),
    LoadBalancerStatusImprovements(bool),
}

impl std::str::FromStr for FeatureGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected GATE=true or GATE=false")?;
        let value = value.parse().map_err(|_| format!("{value:?} is neither true nor false"))?;
        match name {
            "ServiceInternalTrafficPolicy" => Ok(Self::ServiceInternalTrafficPolicy(value)),
            "LoadBalancerStatusImprovements" => Ok(Self::LoadBalancerStatusImprovements(value)),
            _ => {
                Err("known gates are ServiceInternalTrafficPolicy and LoadBalancerStatusImprovements"
                    .to_owned())
            }
        }
    }
}

/// A cluster that listens.
struct Listening {
    cluster: Cluster,
    server: Server,
    context: Context,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut listening = Vec::new();
    for place in 0..arguments.clusters {
        listening.push(start(&arguments, place).await?);
    }
    let contexts: Vec<Context> = listening.iter().map(|one| one.context.clone()).collect();
    let path = write_kubeconfig(&arguments.dir, &kubeconfig(&contexts))?;
    welcome(&path, &contexts, arguments.data.as_deref());
    serve(listening).await
}

async fn start(arguments: &Arguments, place: u16) -> Result<Listening, Failure> {
    let name = format!("member{}", place + 1);
    let port = if arguments.port == 0 { 0 } else { arguments.port.saturating_add(place) };
    let address = SocketAddr::new(arguments.address, port);
    let cannot = |what: &str, cause: std::io::Error| Failure::new(format!("{name}: {what}")).because(cause);
    let listener = TcpListener::bind(address).await.map_err(|cause| {
        cannot(&format!("cannot listen on {address}"), cause).hint("choose another --port or --address")
    })?;
    let cluster = open(arguments, &name)?;
    let server = cluster.serve(listener).map_err(|cause| cannot("cannot serve HTTPS", cause))?;
    let context = cluster.context(&server).map_err(|cause| cannot("cannot make a kubeconfig", cause))?;
    Ok(Listening { cluster, server, context })
}

fn open(arguments: &Arguments, name: &str) -> Result<Cluster, Failure> {
    let options = options(arguments, name);
    let Some(data) = &arguments.data else { return Ok(Cluster::new(options)) };
    Cluster::open(options, &data.join(name)).map_err(|cause| {
        let hint = match &cause {
            DataError::InUse { .. } => "end the other server or choose another --data",
            DataError::Damaged { .. } | DataError::Identity { .. } => {
                "put back a copy of the file, or start anew with another --data"
            }
            DataError::File { .. } => "make room or change permissions there, or choose another --data",
        };
        Failure::new(name).because(cause).hint(hint)
    })
}

fn options(arguments: &Arguments, name: &str) -> Options {
    let mut options = Options { rbac: arguments.rbac, ..Options::named(name) };
    for gate in &arguments.feature_gates {
        match *gate {
            FeatureGate::ServiceInternalTrafficPolicy(on) => {
                options.features.service_internal_traffic_policy = on
            }
            FeatureGate::LoadBalancerStatusImprovements(on) => {
                options.features.load_balancer_status_improvements = on;
            }
        }
    }
    options
}

fn write_kubeconfig(dir: &Path, text: &str) -> Result<PathBuf, Failure> {
    let path = dir.join("kubeconfig");
    let cannot = |cause: std::io::Error| {
        Failure::new(format!("cannot write {}", path.display())).because(cause).hint("choose another --dir")
    };
    std::fs::create_dir_all(dir).map_err(cannot)?;
    write_private(&path, text).map_err(cannot)?;
    Ok(path)
}

/// The file holds administrators' tokens: only its owner may read it, from the first byte on.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let next = path.with_extension("next");
    let _ = std::fs::remove_file(&next);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&next, path)
}

#[expect(clippy::print_stdout, reason = "this is what the person who started it wants to read")]
fn welcome(path: &Path, contexts: &[Context], data: Option<&Path>) {
    println!("{} embedded Kubernetes API servers are ready:", contexts.len());
    for context in contexts {
        println!("  {:<10} {}", context.name, context.server);
    }
    println!("\nTry, in another terminal:");
    println!("  export KUBECONFIG={}", path.display());
    println!("  kubectl --context member1 create deployment web --image=example --replicas=2");
    println!("  kubectl --context member1 get deployments,pods");
    match data {
        Some(data) => {
            println!(
                "\nNothing runs in the pods. Everything else is kept in {} until you remove it.",
                data.display()
            );
        }
        None => println!("\nNothing runs in the pods, and everything is gone after Ctrl-C."),
    }
}

async fn serve(listening: Vec<Listening>) -> Result<(), Failure> {
    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut breaking = JoinSet::new();
    for Listening { cluster, server, context } in listening {
        let stopped = |mut stopping: watch::Receiver<bool>| async move {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        let authority =
            cluster.authority_pem().map_err(|cause| Failure::new("no authority").because(cause))?;
        let settings =
            Settings { authority: Some(authority), phantom_nodes: PHANTOM_NODES, ..Settings::default() };
        tasks.spawn(controllers::run(cluster.client(), settings, stopped(stopping.clone())));
        tasks.spawn(server.run(stopped(stopping.clone())));
        breaking.spawn(async move { format!("{}: {}", context.name, cluster.broken().await) });
    }
    tokio::select! {
        result = interrupted() => result?,
        Some(broken) = breaking.join_next() => {
            let why = broken.unwrap_or_else(|error| error.to_string());
            return Err(Failure::new(why).hint("make room or change permissions at --data, then start it again"));
        }
        Some(ended) = tasks.join_next() => {
            return Err(Failure::new("a server ended by itself").because(format!("{ended:?}")));
        }
    }
    let _ = stop.send(true);
    while tasks.join_next().await.is_some() {}
    Ok(())
}
