//! `tombolo agent`: the agent of one member, as a process.
//!
//! Flags are resolved into a configuration that is logged once; whatever cannot work (no id, an id that another cluster
//! uses, no place at the hub) is said at the start, with what to do about it. A hub that is merely out of reach is no
//! reason not to start: what was imported before stays.

mod resolve;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, Error};
use prometheus_client::registry::Registry;
use tombolo_agent::{Agent, Config, Metrics};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::IpFamily;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Candidate, LONGEST_ATTEMPT, Readiness, in_time, with_causes};

use crate::connect::Way;
use crate::failure::Failure;
use crate::interrupt::interrupted;
use crate::membership::Facts;
use crate::process::{self, Leading, Process};
use crate::{admin, span};

/// The Lease in the member that the agents of a cluster compete for.
const LEADER_LEASE: &str = "tombolo-agent";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    way: Way,
    /// The kubeconfig of the hub; without it that of the member, with --hub-context.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["hub_context", "membership"])]
    hub_kubeconfig: Option<PathBuf>,
    /// The context of the hub in its kubeconfig.
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,
    /// A directory with what `tombolo join` left in the cluster: cluster-id, pod-cidrs, region, ip-families, kubeconfig.
    /// What is given by itself counts instead.
    #[arg(long, value_name = "DIRECTORY")]
    membership: Option<PathBuf>,
    /// The Secret in --namespace that holds the token for the hub: renew it there before it runs out.
    #[arg(long, value_name = "SECRET")]
    renew_token_in: Option<String>,
    /// The id of the cluster; without it the value of ClusterProperty cluster.clusterset.k8s.io.
    #[arg(long, value_name = "ID")]
    cluster_id: Option<ClusterId>,
    /// Where the cluster's pods have their addresses; may be given several times. Endpoints outside are not offered.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_delimiter = ',')]
    pod_cidrs: Vec<String>,
    /// The region the cluster is in.
    #[arg(long)]
    region: Option<String>,
    /// The IP families of the cluster's Services; without it those of Service default/kubernetes, which a dual-stack
    /// cluster has in one family only.
    #[arg(long = "ip-family", value_name = "FAMILY", value_delimiter = ',')]
    ip_families: Vec<IpFamily>,
    /// The namespace of the agent's own objects in the member.
    #[arg(long, default_value = "tombolo-system")]
    namespace: String,
    /// How often the agent says at the hub that it lives.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span::parse)]
    heartbeat: Duration,
    /// A source whose heartbeat stands still for so long is dead.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = span::parse)]
    dead_after: Duration,
    /// While the hub is out of reach nobody is declared dead for so long; 0: at once.
    #[arg(long, value_name = "SPAN", default_value = "15m", value_parser = span::parse)]
    hold: Duration,
    /// Make namespaces that a service is imported into; otherwise it waits for them.
    #[arg(long)]
    create_namespaces: bool,
    /// Where /metrics, /livez and /readyz are answered. Whoever can reach it can read them.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9470")]
    admin_address: SocketAddr,
    /// Let one agent of several work, and another take over (the default).
    #[arg(long, overrides_with = "no_leader_elect")]
    leader_elect: bool,
    /// Work at once. Two agents of one cluster that do so get in each other's way.
    #[arg(long, overrides_with = "leader_elect")]
    no_leader_elect: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let facts = Facts::read(arguments.membership.as_deref())?;
    let (member, hub) = resolve::clients(&arguments, &facts).await?;
    let config = resolve::config(&arguments, &facts).await?;
    announce(&arguments, &config);
    let metrics = Metrics::default();
    let agent = Agent::new(config.clone(), member.clone(), hub).with_metrics(&metrics);
    ask_hub(&agent, &config, &member).await?;
    let (mut registry, readiness) = (Registry::default(), Readiness::default());
    metrics.register(&mut registry);
    let leading = Leading::wait_in(&readiness);
    let admin = admin::bind(arguments.admin_address, registry, readiness.clone()).await?;
    let candidate = (!arguments.no_leader_elect).then(|| candidate(&config));
    let process = Process { name: "agent", admin, leading, candidate, client: member };
    let ended = async {
        tokio::select! {
            asked = interrupted() => asked,
            () = facts.outdated() => Ok(()),
        }
    };
    process.run_until(ended, |stopping| agent.with_readiness(&readiness).run(stopping)).await
}

/// What was resolved, once, so that nobody has to guess later.
fn announce(arguments: &Arguments, config: &Config) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = %config.cluster,
        identity = config.identity,
        pod_cidrs = ?config.pod_cidrs,
        region = config.region,
        ip_families = ?config.ip_families,
        namespace = config.namespace,
        heartbeat = ?config.heartbeat,
        dead_after = ?config.dead_after,
        hold = ?config.hold,
        create_namespaces = config.create_namespaces,
        token_secret = config.token_secret,
        leader_elect = !arguments.no_leader_elect,
        "agent"
    );
}

/// Asks the hub whether it takes this cluster. Only an answer counts: a hub out of reach, or one that says nothing, may come back.
/// And whoever has brought in something keeps it for as long as it may be kept, and lets go of it then, unless it has no right to its
/// name: two must not speak under one.
async fn ask_hub(agent: &Agent, config: &Config, member: &Client) -> Result<(), Failure> {
    let namespace = names::hub_namespace(&config.cluster);
    let refused = |cause: Error| {
        Failure::new(format!("the hub does not take cluster {} in namespace {namespace}", config.cluster))
            .because(cause)
    };
    match in_time(LONGEST_ATTEMPT, agent.rehearse()).await {
        Ok(()) => Ok(()),
        Err(Error::Api(status)) if status.code == 422 => {
            let hint = format!(
                "choose another --cluster-id, or, if the cluster that had this id is gone for good, delete the \
                 Membership in namespace {namespace} at the hub"
            );
            Err(refused(Error::Api(status)).hint(hint))
        }
        Err(Error::Api(status)) if matches!(status.code, 401 | 403 | 404) => {
            let hint = format!(
                "an administrator of the hub installs deploy/crds, creates namespace {namespace} and grants the agent \
                 access to it (deploy/hub/member-roles.yaml and member-rbac.yaml)"
            );
            let error = Error::Api(status);
            if has_sources(config, member).await {
                tracing::error!(
                    error = %with_causes(&error), hint,
                    "the hub does not take this cluster any more; keeping what was imported for now, and trying again"
                );
                return Ok(());
            }
            Err(refused(error).hint(hint))
        }
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "the hub is out of reach; trying again");
            Ok(())
        }
    }
}

/// Whether other clusters have leases here, and so something that somebody has to let go of when they die.
async fn has_sources(config: &Config, member: &Client) -> bool {
    let others = format!("{SOURCE_CLUSTER_LABEL},{SOURCE_CLUSTER_LABEL}!={}", config.cluster);
    let leases: Api<Lease> = Api::namespaced(member.clone(), &config.namespace);
    let found = in_time(LONGEST_ATTEMPT, leases.list(&ListParams::default().labels(&others).limit(1))).await;
    found.is_ok_and(|found| !found.items.is_empty())
}

fn candidate(config: &Config) -> Candidate {
    Candidate::new(config.namespace.clone(), LEADER_LEASE, process::identity("agent", &config.clock))
}
