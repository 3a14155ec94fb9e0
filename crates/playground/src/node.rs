//! A node that runs: a kubelet, a proxy and a balancer in its own network namespace.

use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tombolo_apiserver::Context;
use tombolo_balancer::Balancer;
use tombolo_model::balancer::Capabilities;
use tombolo_proxy::Proxy;
use tombolo_runtime::Readiness;

use crate::control_plane::{connect, connect_part};
use crate::error::{Doing as _, Error};
use crate::kubelet;
use crate::part::Part;
use crate::plan::NodePlan;
use crate::station::{Station, Task};
use crate::wiring::Wiring;

/// A node, up or down.
pub(crate) struct Node {
    pub(crate) plan: NodePlan,
    station: Station,
    context: Context,
    kubelet: kubelet::Config,
    /// What its balancer claims to be able to do.
    capabilities: Capabilities,
    /// The service proxy and the balancer, while the node is up.
    pub(crate) parts: Vec<Part>,
    running: Vec<Task>,
}

impl Node {
    /// Starts it and waits until its cluster knows it.
    pub(crate) async fn start(
        context: Context,
        kubelet: kubelet::Config,
        capabilities: Capabilities,
    ) -> Result<Self, Error> {
        let name = format!("{}/{}", kubelet.cluster, kubelet.plan.name());
        let station = Station::start(&name, Some(kubelet.wiring.namespace())).await;
        let station = station.doing(format!("{name} cannot be started"))?;
        let (parts, running) = (Vec::new(), Vec::new());
        let mut node = Self { plan: kubelet.plan, station, context, kubelet, capabilities, parts, running };
        node.revive().await?;
        Ok(node)
    }

    pub(crate) async fn revive(&mut self) -> Result<(), Error> {
        if !self.running.is_empty() {
            return Ok(());
        }
        let cannot = format!("{} cannot be started", self.plan.name());
        let context = self.context.clone();
        let ways = async move { Ok::<_, Error>((connect_part(&context).await?, connect(&context).await?)) };
        let (of_parts, client) = self.station.run(ways).await.doing(&cannot)??;
        self.parts = vec![self.start_proxy(of_parts.clone()).await?, self.start_balancer(of_parts).await?];
        let (registered, known) = oneshot::channel();
        let tell = move || {
            let _ = registered.send(());
        };
        self.running.push(self.station.spawn(kubelet::run(client, self.kubelet.clone(), tell)));
        known.await.doing(&cannot)
    }

    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.kubelet.cluster, self.plan.name())
    }

    /// The cluster it belongs to.
    pub(crate) fn member(&self) -> &str {
        &self.kubelet.cluster
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.running.is_empty()
    }

    pub(crate) fn wiring(&self) -> &Wiring {
        &self.kubelet.wiring
    }

    /// Does something in the node's network.
    pub(crate) async fn within<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        self.station.run(future).await.map_err(|error| error.to_string())?
    }

    /// The proxy runs in the node's namespace already, and has its rules there.
    async fn start_proxy(&self, client: kube::Client) -> Result<Part, Error> {
        let (metrics, readiness) = (tombolo_proxy::Metrics::default(), Readiness::default());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut config = tombolo_proxy::Config::new(self.plan.name());
        config.cluster = self.kubelet.cluster.parse().ok();
        config.region = Some(self.plan.region());
        config.pod_cidrs = vec![self.plan.pods().into()];
        let proxy = Proxy::new(config, client).with_metrics(&metrics).with_readiness(&readiness);
        let work = self.station.spawn(proxy.run(std::future::pending()));
        Part::start(format!("{} proxy", self.name()), registry, readiness, work).await
    }

    /// The node answers for the addresses of load balancers it is elected for.
    async fn start_balancer(&self, client: kube::Client) -> Result<Part, Error> {
        let (metrics, readiness) = (tombolo_balancer::Metrics::default(), Readiness::default());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut config = tombolo_balancer::Config::new(self.plan.name());
        config.capabilities = self.capabilities.clone();
        let balancer = Balancer::new(config, client).with_metrics(&metrics).with_readiness(&readiness);
        let work = self.station.spawn(balancer.run(std::future::pending()));
        Part::start(format!("{} balancer", self.name()), registry, readiness, work).await
    }

    /// Ends everything on it at once, processes of pods included.
    pub(crate) async fn kill(&mut self) {
        self.parts.clear();
        for task in self.running.drain(..) {
            task.kill().await;
        }
    }
}
