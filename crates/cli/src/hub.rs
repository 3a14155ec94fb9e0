//! `tombolo hub`: the hub's own part, as a process.
//!
//! It looks after clusters and MultiClusterServices at the API server where members meet. Exports and imports need none of
//! it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kube::config::Kubeconfig;
use prometheus_client::registry::Registry;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_hub::{Config, Hub, Metrics, PushMember};
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Candidate, Readiness};

use crate::connect::{Way, check_kind, connect_part, make_namespace};
use crate::failure::Failure;
use crate::process::{self, Leading, Process};
use crate::{admin, span};

/// The Lease at the hub that hubs compete for.
const LEADER_LEASE: &str = "tombolo-hub";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    way: Way,
    /// The kubeconfig of a member that has no agent; may be given several times. The member is called like the file's
    /// current context, or as is said before it.
    #[arg(long, value_name = "[NAME=]KUBECONFIG")]
    push: Vec<Pushed>,
    /// Make namespaces that a service needs in such members; otherwise it waits for them.
    #[arg(long)]
    create_namespaces: bool,
    /// The namespace of the hub's own lease.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// A cluster whose heartbeat stands still for so long is not ready, and its endpoints are withdrawn.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = span::parse)]
    dead_after: Duration,
    /// While the hub reaches its API server and does not hear it, no cluster is declared dead for so long; 0: at once. While
    /// it does not reach it, nobody is.
    #[arg(long, value_name = "SPAN", default_value = "15m", value_parser = span::parse)]
    hold: Duration,
    /// Where /metrics, /livez and /readyz are answered. Whoever can reach it can read them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9472")]
    admin_address: SocketAddr,
    /// Let one hub of several work, and another take over (the default).
    #[arg(long, overrides_with = "no_leader_elect")]
    leader_elect: bool,
    /// Work at once. Two hubs that do so get in each other's way.
    #[arg(long, overrides_with = "leader_elect")]
    no_leader_elect: bool,
}

/// A member without an agent, as it was typed.
#[derive(Clone, Debug)]
struct Pushed {
    name: Option<String>,
    file: PathBuf,
}

impl FromStr for Pushed {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('=') {
            Some((name, file)) => Self { name: Some(name.to_owned()), file: file.into() },
            None => Self { name: None, file: text.into() },
        })
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let whose = "API server of the hub";
    let (asking, client) = (arguments.way.connect(whose).await?, arguments.way.connect_part(whose).await?);
    let hint = "install deploy/crds and grant deploy/hub/hub-rbac.yaml at the hub's API server";
    check_kind::<MultiClusterService>(&client, "the hub", hint).await?;
    let config = config(&arguments).await?;
    announce(&arguments, &config);
    make_namespace(&asking, "at the hub", &arguments.namespace).await?;
    let metrics = Metrics::default();
    let (mut registry, readiness) = (Registry::default(), Readiness::default());
    metrics.register(&mut registry);
    let leading = Leading::wait_in(&readiness);
    let admin = admin::bind(arguments.admin_address, registry, readiness.clone()).await?;
    let identity = config.instance.clone();
    let candidate = (!arguments.no_leader_elect)
        .then(|| Candidate::new(arguments.namespace.clone(), LEADER_LEASE, identity));
    let hub = Hub::new(config, client.clone()).with_metrics(&metrics);
    let process = Process { name: "hub", admin, leading, candidate, client };
    process.run(|stopping| hub.with_readiness(&readiness).run(stopping)).await
}

async fn config(arguments: &Arguments) -> Result<Config, Failure> {
    let mut config = Config::new("");
    config.instance = process::identity("hub", &config.clock);
    config.namespace = arguments.namespace.clone();
    config.dead_after = arguments.dead_after;
    config.hold = arguments.hold;
    for pushed in &arguments.push {
        config.push.push(reach(pushed, arguments.create_namespaces).await?);
    }
    Ok(config)
}

async fn reach(pushed: &Pushed, create_namespaces: bool) -> Result<PushMember, Failure> {
    let file = pushed.file.display();
    let hint = "write --push NAME=KUBECONFIG; a name is a DNS label of at most 48 characters";
    let name = match &pushed.name {
        Some(name) => name.clone(),
        None => {
            let read = Kubeconfig::read_from(&pushed.file);
            let read = read.map_err(|cause| Failure::new(format!("cannot read {file}")).because(cause))?;
            read.current_context.unwrap_or_default()
        }
    };
    let id: Option<ClusterId> = name.parse().ok();
    let Some(cluster) = id.filter(|id| names::execution_namespace(id).is_some()) else {
        return Err(Failure::new(format!("{name:?} is no name of a cluster ({file})")).hint(hint));
    };
    let client = connect_part("member", "--push", Some(&pushed.file), None).await?;
    Ok(PushMember { cluster, client, create_namespaces })
}

/// What was resolved, once, so that nobody has to guess later.
fn announce(arguments: &Arguments, config: &Config) {
    let push: Vec<&str> = config.push.iter().map(|member| member.cluster.as_str()).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        ?push,
        dead_after = ?config.dead_after,
        hold = ?config.hold,
        namespace = arguments.namespace,
        leader_elect = !arguments.no_leader_elect,
        "hub"
    );
}
