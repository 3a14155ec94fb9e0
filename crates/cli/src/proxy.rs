//! `tombolo proxy`: the service proxy of one node, as a process.
//!
//! Flags are resolved into a configuration that is logged once. A kernel that cannot be written to is said at the start,
//! with what to do about it. The end of the process leaves the rules where they are: connections do not depend on it, and
//! the next one takes them over. `--cleanup` removes them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use ipnet::IpNet;
use prometheus_client::registry::Registry;
use tombolo_model::ClusterId;
use tombolo_proxy::kernel::{Kernel, clean_up};
use tombolo_proxy::{Config, Metrics, Proxy, Settings, explain};
use tombolo_runtime::{Admin, Key, Readiness};

use crate::connect::Way;
use crate::failure::Failure;
use crate::host::node_name;
use crate::interrupt::interrupted;
use crate::membership::{Facts, parse};
use crate::span;

/// Whoever watches balancers expects a change within so long.
const LONGEST_GATHER: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    /// The network namespace of the node, such as /run/netns/NAME; without it that of the process.
    #[arg(long, value_name = "FILE")]
    network_namespace: Option<PathBuf>,
    /// Where the pods of this node have their addresses; may be given several times. Without it, as the Node says.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_delimiter = ',')]
    pod_cidrs: Vec<IpNet>,
    /// Where Services have their cluster IPs; may be given several times. Without it, as the cluster's ServiceCIDRs say.
    #[arg(long = "service-cidr", value_name = "CIDR", value_delimiter = ',')]
    service_cidrs: Vec<IpNet>,
    /// The node's addresses that have node ports; may be given several times. Without it all but loopback.
    #[arg(long = "nodeport-addresses", value_name = "CIDR", value_delimiter = ',')]
    node_port_addresses: Vec<IpNet>,
    /// Let connections to cluster IPs come from the node's address, too.
    #[arg(long)]
    masquerade_all: bool,
    /// How long changes are gathered before they are written together; at most 50ms.
    #[arg(long, value_name = "SPAN", default_value = "20ms", value_parser = span::parse)]
    gather: Duration,
    /// How often to look whether somebody else changed the rules.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = span::parse)]
    verify: Duration,
    /// Where /healthz and /livez are answered as kube-proxy does, for load balancers.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:10256")]
    healthz_address: SocketAddr,
    /// Where /metrics, /livez and /readyz are answered. Whoever can reach it can read them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9473")]
    admin_address: SocketAddr,
    /// Remove the proxy's rules from the kernel, and end.
    #[arg(long)]
    cleanup: bool,
}

/// Which cluster, and where in it.
#[derive(Clone, Debug, Args)]
struct Place {
    #[command(flatten)]
    way: Way,
    /// The name of the Node; without it the name of the host.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The id of the cluster, if it belongs to a supercluster.
    #[arg(long, value_name = "ID")]
    cluster_id: Option<ClusterId>,
    /// The region the cluster declares to others; without it the Node's label.
    #[arg(long)]
    region: Option<String>,
    /// A directory with what `tombolo join` left in the cluster: cluster-id, region. What is given by itself counts instead.
    #[arg(long, value_name = "DIRECTORY")]
    membership: Option<PathBuf>,
}

impl Place {
    fn facts(&self) -> Result<Facts, Failure> {
        Facts::read(self.membership.as_deref())
    }

    /// What is said here of the node and its cluster, and what the directory says.
    fn config(&self, facts: &Facts) -> Result<Config, Failure> {
        let joined = facts.cluster_id.as_deref().map(|id| parse(id, "cluster-id")).transpose()?;
        Ok(Config {
            cluster: self.cluster_id.clone().or(joined),
            region: self.region.clone().or_else(|| facts.region.clone()),
            ..Config::new(node_name(self.node_name.as_deref())?)
        })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which backends each address of a Service has on this node, and why.
    Explain {
        /// The Service.
        #[arg(value_name = "NAMESPACE/NAME")]
        service: String,
        #[command(flatten)]
        place: Place,
    },
}

impl Arguments {
    pub(crate) fn runs_unattended(&self) -> bool {
        self.command.is_none() && !self.cleanup
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(Command::Explain { service, place }) = &arguments.command {
        return tell(service, place).await;
    }
    if arguments.cleanup {
        return clean(&arguments);
    }
    let facts = arguments.place.facts()?;
    let config = config(&arguments, &facts)?;
    announce(&config);
    try_kernel(&config)?;
    let client = arguments.place.way.connect_part("cluster").await?;
    let (mut registry, readiness, metrics) = (Registry::default(), Readiness::default(), Metrics::default());
    metrics.register(&mut registry);
    let proxy = Proxy::new(config.clone(), client).with_metrics(&metrics).with_readiness(&readiness);
    let proxy =
        proxy.bind().await.map_err(|cause| cannot_listen(arguments.healthz_address, "healthz", cause))?;
    let admin = Admin::bind(arguments.admin_address, registry, readiness).await;
    let admin = admin.map_err(|cause| cannot_listen(arguments.admin_address, "admin", cause))?;
    let address = admin.address().map_err(|cause| cannot_listen(arguments.admin_address, "admin", cause))?;
    tracing::info!(%address, "admin endpoint");
    tokio::select! {
        () = proxy.run(std::future::pending()) => return Err(Failure::new("the proxy ended by itself")),
        () = admin.run(std::future::pending()) => {}
        asked = interrupted() => asked?,
        () = facts.outdated() => {}
    }
    tracing::info!("stopping; the rules stay");
    Ok(())
}

fn cannot_listen(address: SocketAddr, which: &str, cause: std::io::Error) -> Failure {
    Failure::new(format!("cannot listen on {address}"))
        .because(cause)
        .hint(format!("choose another --{which}-address; port 0 takes any free one"))
}

fn config(arguments: &Arguments, facts: &Facts) -> Result<Config, Failure> {
    if arguments.gather > LONGEST_GATHER {
        return Err(Failure::new("--gather must not be more than 50ms")
            .hint("changes are written together anyway while the kernel is busy"));
    }
    Ok(Config {
        namespace: arguments.network_namespace.clone(),
        pod_cidrs: arguments.pod_cidrs.clone(),
        node_port_addresses: arguments.node_port_addresses.clone(),
        masquerade_all: arguments.masquerade_all,
        service_cidrs: arguments.service_cidrs.clone(),
        gather: arguments.gather,
        verify: arguments.verify.max(Duration::from_secs(1)),
        health_address: Some(arguments.healthz_address),
        ..arguments.place.config(facts)?
    })
}

/// What was resolved, once, so that nobody has to guess later.
fn announce(config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = config.node,
        cluster = ?config.cluster,
        region = config.region,
        network_namespace = ?config.namespace,
        pod_cidrs = ?config.pod_cidrs,
        node_port_addresses = ?config.node_port_addresses,
        masquerade_all = config.masquerade_all,
        gather = ?config.gather,
        verify = ?config.verify,
        healthz_address = ?config.health_address,
        "proxy"
    );
}

const RIGHTS: &str = "the proxy needs CAP_NET_ADMIN and a kernel with nftables (5.13 or newer); in a container: the \
    host's network and privileges";

/// Whether the kernel lets us look at its tables at all.
fn try_kernel(config: &Config) -> Result<(), Failure> {
    let opened = Kernel::open(config.namespace.as_deref(), &Settings::default());
    let looked = opened.and_then(|mut kernel| kernel.is_undisturbed());
    looked
        .map_err(|cause| Failure::new("the kernel's nftables cannot be used").because(cause).hint(RIGHTS))?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer to a person")]
fn clean(arguments: &Arguments) -> Result<(), Failure> {
    let removed = clean_up(arguments.network_namespace.as_deref());
    let removed =
        removed.map_err(|cause| Failure::new("the rules cannot be removed").because(cause).hint(RIGHTS))?;
    println!(
        "{}",
        if removed { "the proxy's rules are removed" } else { "there were no rules of the proxy" }
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer to a person")]
async fn tell(service: &str, place: &Place) -> Result<(), Failure> {
    let names = service.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let Some((namespace, name)) = names else {
        return Err(Failure::new(format!("{service:?} names no Service")).hint("write NAMESPACE/NAME"));
    };
    let config = place.config(&place.facts()?)?;
    let told = explain(&config, &place.way.connect("cluster").await?, &Key::new(namespace, name)).await;
    let told = told.map_err(|cause| {
        Failure::new(format!("cannot read what Service {service} depends on")).because(cause).hint(
            "see --kubeconfig and --context, and deploy/member/proxy-rbac.yaml for what must be allowed",
        )
    })?;
    let Some(lines) = told else {
        return Err(Failure::new(format!("there is no Service {service}"))
            .hint("an import is explained by its derived Service, named in its annotation"));
    };
    println!("Service {service} on node {}:", config.node);
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}
