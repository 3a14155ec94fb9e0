//! The hub's own part, leader-elected: clusters and MultiClusterServices.
//!
//! Members are Cluster objects with an execution namespace each (`clusters`), ready while their heartbeat advances
//! (`keeper`). What a MultiClusterService asks for is decided in `model` and written as Works (`services`); members apply
//! and confirm them. For members without an agent the hub does that itself (`push`). Nothing here is needed for exports and
//! imports: those work with the hub's API server alone.

mod clusters;
mod config;
mod ear;
mod keeper;
mod mark;
mod metrics;
mod presence;
mod push;
mod services;
mod settled;
mod shared;
mod unseen;

pub use self::config::{Config, PushMember};
pub use self::metrics::Metrics;

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use tombolo_runtime::{Boxed, Readiness, Waiting, work};

use self::shared::Shared;

/// A hub that is ready to run.
pub struct Hub {
    config: Config,
    client: Client,
    metrics: Metrics,
    caches: Option<Waiting>,
}

impl Hub {
    /// A hub at the API server behind `client`.
    pub fn new(config: Config, client: Client) -> Self {
        Self { config, client, metrics: Metrics::default(), caches: None }
    }

    /// Counts in `metrics`.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Keeps `readiness` waiting until all has been listed.
    pub fn with_readiness(self, readiness: &Readiness) -> Self {
        Self { caches: Some(readiness.wait_for("hub caches")), ..self }
    }

    /// Works until `stop` resolves. Returns early only when a part of it breaks. When the API server turns out to be older
    /// than it was, everything begins anew.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.work_until(Box::pin(stop)).await;
    }

    fn work_until(mut self, mut stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move {
            while self.work(stop.as_mut()).await {
                tracing::warn!("the API server is older than it was; beginning anew");
            }
        })
    }

    /// Works until `stop` resolves, or a part of it breaks, or everything has to begin anew: then it returns true.
    async fn work(&mut self, stop: impl Future<Output = ()>) -> bool {
        let mut tasks = JoinSet::new();
        let shared = Arc::new(Shared::new(self.config.clone(), self.client.clone(), self.metrics.clone()));
        mark::listen(&shared);
        let gone_back = mark::gone_back(shared.clone());
        let clusters = clusters::Clusters::new(&shared);
        let services = services::Services::new(&shared);
        shared.follow(&mut tasks);
        push::start(&shared, &clusters, &mut tasks);
        let caches = self.caches.take();
        tasks.spawn(async move {
            shared.synced().await;
            drop(caches);
            let (keeping, sweeping) = (keeper::run(shared.clone()), services.sweep());
            tokio::join!(keeping, sweeping, work(clusters), work(services));
        });
        let again = tokio::select! {
            () = stop => false,
            () = gone_back => true,
            Some(ended) = tasks.join_next() => {
                tracing::error!(?ended, "a part of the hub ended by itself");
                false
            }
        };
        tasks.shutdown().await;
        again
    }
}
