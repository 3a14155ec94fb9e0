//! `tombolo dns`: the DNS server of a member, as a process; and `tombolo dns query`, which says why.

mod query;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tombolo_dns::{Config, Dns, Metrics};
use tombolo_runtime::{Readiness, Waiting};

use crate::admin;
use crate::connect::{connect, connect_part};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::span;

/// How long the end may take, after the drain, before it is forced.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    zones: Zones,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read the cluster once and say what would be answered, and why.
    Query(query::Arguments),
}

/// What is answered for, and from where.
#[derive(Debug, Args)]
struct Zones {
    /// The kubeconfig of the member; without it the default one, or the pod's own account.
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context of the member in its kubeconfig.
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// Zones of the first edition of the API; an empty value for none.
    #[arg(
        long,
        value_name = "ZONE",
        value_delimiter = ',',
        default_value = "supercluster.local",
        global = true
    )]
    kep_zone: Vec<String>,
    /// Zones of today's API; an empty value for none.
    #[arg(
        long,
        value_name = "ZONE",
        value_delimiter = ',',
        default_value = "clusterset.local",
        global = true
    )]
    mcs_zone: Vec<String>,
    /// Zones of the cluster's own Services: only where no other DNS answers for them.
    #[arg(long, value_name = "ZONE", value_delimiter = ',', global = true)]
    cluster_zone: Vec<String>,
    /// Zones below in-addr.arpa and ip6.arpa where an address that is not known does not exist; elsewhere it is
    /// forwarded or refused.
    #[arg(long, value_name = "ZONE", value_delimiter = ',', global = true)]
    reverse_zone: Vec<String>,
    /// Seconds that answers may be kept.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, global = true)]
    ttl: u32,
    /// Seconds that it may be kept that there is no answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, global = true)]
    negative_ttl: u32,
}

/// How it serves.
#[derive(Debug, Args)]
struct Server {
    /// Where to listen, UDP and TCP; may be given several times.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',', default_value = "127.0.0.1:53")]
    listen: Vec<SocketAddr>,
    /// Open all sockets in this network namespace, such as /run/netns/NAME.
    #[arg(long, value_name = "FILE")]
    network_namespace: Option<PathBuf>,
    /// Threads that answer UDP; without it one per core.
    #[arg(long, value_name = "NUMBER")]
    workers: Option<usize>,
    /// Ask these for everything else, the first that works first.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    forward: Vec<SocketAddr>,
    /// Addresses under which others know the server, for NS records; without it those it listens on.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    server_address: Vec<IpAddr>,
    /// Addresses that may have whole zones (AXFR): every service name is in them.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    allow_transfer: Vec<IpAddr>,
    /// Give answers of many records always in the same order.
    #[arg(long)]
    no_shuffle: bool,
    /// Queries per second that one address may ask, and as many again at once; 0: no limit.
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    rate_limit: u32,
    /// TCP connections at one time; a quarter of them may come from one address.
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    tcp_connections: usize,
    /// How long a TCP connection may be silent.
    #[arg(long, value_name = "SPAN", default_value = "15s", value_parser = span::parse)]
    tcp_idle: Duration,
    /// How long to go on answering, not ready any more, after being asked to end.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span::parse)]
    drain: Duration,
    /// Where /metrics, /livez and /readyz are answered. Whoever can reach it can read them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9471")]
    admin_address: SocketAddr,
}

impl Arguments {
    /// Whether this only asks, and does not serve.
    pub(crate) fn is_question(&self) -> bool {
        self.command.is_some()
    }

    fn config(&self) -> Config {
        let named = |zones: &[String]| zones.iter().filter(|zone| !zone.is_empty()).cloned().collect();
        let (zones, server) = (&self.zones, &self.server);
        let usual = Config::default();
        Config {
            listen: server.listen.clone(),
            network: server.network_namespace.clone(),
            workers: server.workers.unwrap_or(usual.workers),
            kep_zones: named(&zones.kep_zone),
            mcs_zones: named(&zones.mcs_zone),
            cluster_zones: named(&zones.cluster_zone),
            reverse_zones: named(&zones.reverse_zone),
            ttl: zones.ttl,
            negative_ttl: zones.negative_ttl,
            shuffle: !server.no_shuffle,
            servers: server.server_address.clone(),
            transfer: server.allow_transfer.clone(),
            forward: server.forward.clone(),
            rate_limit: server.rate_limit,
            connections: server.tcp_connections,
            connections_per_address: server.tcp_connections.div_ceil(4),
            idle: server.tcp_idle,
            drain: server.drain,
            clock: usual.clock,
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (file, context) = (arguments.zones.kubeconfig.as_deref(), arguments.zones.context.as_deref());
    let flags = "--kubeconfig and --context";
    let config = arguments.config();
    if let Some(Command::Query(question)) = &arguments.command {
        let client = connect("member", flags, file, context).await?;
        return query::run(question, &config, &client).await;
    }
    announce(&config);
    let client = connect_part("member", flags, file, context).await?;
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let dns = Dns::bind(config, client).map_err(cannot)?.with_metrics(&metrics).with_readiness(&readiness);
    for address in dns.addresses() {
        tracing::info!(%address, "listening");
    }
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let admin = admin::bind(arguments.server.admin_address, registry, readiness.clone()).await?;
    let (stop, mut stopping) = watch::channel(false);
    let drain = arguments.server.drain;
    let serve = dns.run(async move { drop(stopping.wait_for(|stop| *stop).await) });
    tokio::pin!(serve);
    let admin = admin.run(std::future::pending());
    tokio::pin!(admin);
    tokio::select! {
        ended = &mut serve => {
            ended.map_err(cannot)?;
            return Err(Failure::new("the server ended by itself"));
        }
        () = &mut admin => {}
        asked = interrupted() => asked?,
    }
    tracing::info!("stopping");
    // Whoever looks at readiness sends no more queries; those that come all the same are answered.
    let _draining: Waiting = readiness.wait_for("the end");
    let _ = stop.send(true);
    tokio::select! {
        _ = tokio::time::timeout(drain + PATIENCE, &mut serve) => {}
        () = &mut admin => {}
    }
    Ok(())
}

fn cannot(error: tombolo_dns::Error) -> Failure {
    use tombolo_dns::Error::{Listen, Loop, Network, NoZone, Twice, Worker, Zone};
    let hint = match &error {
        Zone(..) | Twice(_) | NoZone => "see --kep-zone, --mcs-zone, --cluster-zone and --reverse-zone",
        Network(..) => "see --network-namespace",
        Listen(..) => {
            "choose another --listen; port 0 takes any free one, ports below 1024 need CAP_NET_BIND_SERVICE"
        }
        Loop(_) => "see --forward",
        Worker(_) => "the machine is out of threads or descriptors",
    };
    let what = error.to_string();
    let failure = Failure::new(what).hint(hint);
    match error {
        Network(_, cause) | Listen(_, cause) | Worker(cause) => failure.because(cause),
        Zone(..) | Twice(_) | NoZone | Loop(_) => failure,
    }
}

/// What was resolved, once, so that nobody has to guess later.
fn announce(config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = ?config.listen,
        network = ?config.network,
        workers = config.workers,
        kep_zones = ?config.kep_zones,
        mcs_zones = ?config.mcs_zones,
        cluster_zones = ?config.cluster_zones,
        reverse_zones = ?config.reverse_zones,
        ttl = config.ttl,
        negative_ttl = config.negative_ttl,
        shuffle = config.shuffle,
        transfer = ?config.transfer,
        forward = ?config.forward,
        rate_limit = config.rate_limit,
        connections = config.connections,
        idle = ?config.idle,
        drain = ?config.drain,
        "dns"
    );
}
