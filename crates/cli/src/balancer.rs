//! `tombolo balancer`: load balancers of a cluster, one process per node.
//!
//! Every process answers for the addresses its node is elected for; one of them, the leader, gives Services their
//! addresses. A node that cannot open packet sockets is told at the start.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use prometheus_client::registry::Registry;
use tombolo_api::loadbalancer::Profile;
use tombolo_api::tombolo::AddressPool;
use tombolo_balancer::{Balancer, Config, Metrics, try_sockets};
use tombolo_runtime::Readiness;

use crate::connect::{Way, check_kind};
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::{admin, host, process, span};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    way: Way,
    /// The name of the Node; without it the name of the host.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Serve Services of this class and no others; without it those that have no class.
    #[arg(long, value_name = "CLASS")]
    load_balancer_class: Option<String>,
    /// Behave as a provider that can do only so much would: FULL, V4-ONLY, TCP-ONLY, NODEPORT-ONLY, PROXY, SLOW-HITLESS,
    /// SLOW-CUTOVER or POOL-OF-ONE.
    #[arg(long, value_name = "PROFILE", default_value = "FULL")]
    capabilities: Profile,
    /// The namespace of the leases.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// Answer for addresses on these links only; may be given several times. Without it on all that belong to a network.
    #[arg(long = "interface", value_name = "NAME", value_delimiter = ',')]
    interfaces: Vec<String>,
    /// Let a node that comes back take its addresses from those that stepped in.
    #[arg(long)]
    preemptive: bool,
    /// How often a node says that it is alive.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = span::parse)]
    heartbeat: Duration,
    /// A node that was silent for so long is dead, and others answer for its addresses.
    #[arg(long, value_name = "SPAN", default_value = "2500ms", value_parser = span::parse)]
    dead_after: Duration,
    /// How often addresses are announced without being asked for.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = span::parse)]
    announce_every: Duration,
    /// Where /metrics, /livez and /readyz are answered. Whoever can reach it can read them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9474")]
    admin_address: SocketAddr,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let config = config(&arguments)?;
    announce(&config, arguments.capabilities);
    try_sockets().map_err(|cause| {
        Failure::new("packet sockets cannot be opened")
            .because(cause)
            .hint("the balancer needs CAP_NET_RAW; in a container: the host's network and that capability")
    })?;
    let client = arguments.way.connect_part("cluster").await?;
    let hint = "install deploy/crds and grant deploy/member/balancer-rbac.yaml";
    check_kind::<AddressPool>(&client, "the balancer", hint).await?;
    let (mut registry, readiness, metrics) = (Registry::default(), Readiness::default(), Metrics::default());
    metrics.register(&mut registry);
    let balancer = Balancer::new(config, client).with_metrics(&metrics).with_readiness(&readiness);
    let admin = admin::bind(arguments.admin_address, registry, readiness).await?;
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let running = balancer.run(async move { drop(stopped.wait_for(|stop| *stop).await) });
    tokio::pin!(running);
    tokio::select! {
        () = &mut running => return Err(Failure::new("the balancer ended by itself")),
        () = admin.run(std::future::pending()) => {}
        asked = interrupted() => asked?,
    }
    tracing::info!("stopping; others answer for the addresses of this node");
    stop.send_replace(true);
    running.await;
    Ok(())
}

fn config(arguments: &Arguments) -> Result<Config, Failure> {
    let (beat, dead) = (arguments.heartbeat, arguments.dead_after);
    if beat.is_zero() || arguments.announce_every.is_zero() || dead < beat * 2 {
        return Err(Failure::new("--dead-after must be two heartbeats at least, and no span zero")
            .hint("the defaults are --heartbeat 1s --dead-after 2500ms --announce-every 30s"));
    }
    let config = Config::new(host::node_name(arguments.node_name.as_deref())?);
    Ok(Config {
        instance: process::identity("balancer", &config.clock),
        class: arguments.load_balancer_class.clone().filter(|class| !class.is_empty()),
        capabilities: arguments.capabilities.into(),
        namespace: arguments.namespace.clone(),
        links: arguments.interfaces.clone(),
        preemptive: arguments.preemptive,
        heartbeat: beat,
        dead_after: dead,
        announce_every: arguments.announce_every,
        ..config
    })
}

/// What was resolved, once, so that nobody has to guess later.
fn announce(config: &Config, profile: Profile) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = config.node,
        class = config.class,
        capabilities = %profile,
        namespace = config.namespace,
        interfaces = ?config.links,
        preemptive = config.preemptive,
        heartbeat = ?config.heartbeat,
        dead_after = ?config.dead_after,
        announce_every = ?config.announce_every,
        "balancer"
    );
}
