//! One cluster that runs: control plane, agent, and what the playground tells about it.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tombolo_agent::{Agent, Metrics};
use tombolo_api::service::IpFamily;
use tombolo_apiserver::Context;
use tombolo_dns::Dns;
use tombolo_model::ClusterId;
use tombolo_runtime::Readiness;

use crate::control_plane::{ControlPlane, connect_part};
use crate::error::{Doing as _, Error};
use crate::joining;
use crate::kubelet::Hosts;
use crate::pace::Pace;
use crate::part::Part;
use crate::plan::MemberPlan;

/// A member of the supercluster.
pub(crate) struct Member {
    pub(crate) plan: MemberPlan,
    pub(crate) plane: ControlPlane,
    pub(crate) parts: Vec<Part>,
    /// Its nodes, as the API server finds them.
    pub(crate) hosts: Arc<Hosts>,
}

impl Member {
    /// Prepares an API server to be a member's, and starts the member's parts.
    pub(crate) async fn start(
        plane: ControlPlane,
        plan: &MemberPlan,
        hub: &Context,
        networked: bool,
        pace: &Pace,
    ) -> Result<Self, Error> {
        let name = plan.name();
        let id: ClusterId = name.parse().doing(format!("{name} is no id"))?;
        let client = plane.client();
        let cannot = format!("{name} cannot be prepared");
        joining::define_kinds(&client).await.doing(&cannot)?;
        joining::prepare_member(&client, &id).await.doing(&cannot)?;
        joining::await_account(&client).await.doing(&cannot)?;
        if networked {
            joining::fill_pool(&client, plan.load_balancers()).await.doing(&cannot)?;
        }
        let mut config = tombolo_agent::Config::new(id, joining::identity(&client).await.doing(&cannot)?);
        config.ip_families = vec![IpFamily::V4];
        config.namespace = joining::SYSTEM.to_owned();
        config.create_namespaces = true;
        (config.heartbeat, config.dead_after) = (pace.heartbeat, pace.dead_after);
        config.region = Some(format!("region{}", plan.number));
        if networked {
            config.pod_cidrs = vec![plan.pods().to_string()];
        }
        let mut parts = vec![start_agent(&plane, hub, config).await?];
        if networked {
            parts.push(start_dns(&plane, plan).await?);
        }
        let hosts = Arc::new(Hosts::default());
        if networked {
            plane.attach(hosts.clone());
        }
        Ok(Self { plan: plan.clone(), plane, parts, hosts })
    }
}

/// The agent speaks to both API servers over the network, so a cut link cuts it, too.
async fn start_agent(
    plane: &ControlPlane,
    hub: &Context,
    config: tombolo_agent::Config,
) -> Result<Part, Error> {
    let (station, inner, hub) = (plane.station.clone(), plane.inner.clone(), hub.clone());
    let (readiness, metrics) = (Readiness::default(), Metrics::default());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let gate = readiness.clone();
    let prepare = async move {
        let (member, hub) = (connect_part(&inner).await?, connect_part(&hub).await?);
        Ok::<_, Error>(Agent::new(config, member, hub).with_metrics(&metrics).with_readiness(&gate))
    };
    let agent = station.run(prepare).await.doing("an agent cannot be started")??;
    let work = station.spawn(agent.run(std::future::pending()));
    Part::start(format!("{} agent", plane.name), registry, readiness, work).await
}

/// DNS at the router's address, for the cluster's own names, too.
async fn start_dns(plane: &ControlPlane, plan: &MemberPlan) -> Result<Part, Error> {
    let (readiness, metrics) = (Readiness::default(), tombolo_dns::Metrics::default());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let config = tombolo_dns::Config {
        listen: vec![plan.dns()],
        workers: 1,
        cluster_zones: vec!["cluster.local".to_owned()],
        ..tombolo_dns::Config::default()
    };
    let (inner, gate) = (plane.inner.clone(), readiness.clone());
    let cannot = format!("{}: DNS cannot be started", plan.name());
    let bind = async move {
        let client = connect_part(&inner).await?;
        let dns = Dns::bind(config, client).doing("no sockets for DNS")?;
        Ok::<_, Error>(dns.with_metrics(&metrics).with_readiness(&gate))
    };
    let dns = plane.station.run(bind).await.doing(&cannot)??;
    let work = plane.station.spawn(async move {
        if let Err(error) = dns.run(std::future::pending()).await {
            tracing::error!(%error, "DNS ended");
        }
    });
    Part::start(format!("{} dns", plan.name()), registry, readiness, work).await
}
