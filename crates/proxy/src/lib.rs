//! The service proxy: one per node. It routes the addresses of Services and imports, and can take kube-proxy's place.
//!
//! What becomes of a connection is decided in `model::routing`. Here decisions become elements of a few maps ([`plan`]),
//! which rules that never change look into (`ruleset`), and the kernel is made to have them ([`kernel`]). [`simulate`] asks
//! a plan what it means for a packet. Nothing here belongs to the process: several proxies may run in one, each for a node
//! that is a network namespace.

mod config;
mod engine;
mod explain;
mod health;
mod http;
pub mod kernel;
mod metrics;
mod optional;
pub mod plan;
mod ruleset;
pub mod simulate;
mod trim;
mod watch;

pub use self::config::Config;
pub use self::explain::explain;
pub use self::metrics::Metrics;
pub use self::ruleset::Settings;

use std::io;
use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tombolo_runtime::{Boxed, Readiness, Waiting};

use self::engine::{Cause, Engine, SharedPlan};
use self::health::Health;
use self::watch::{NodeState, View};

/// A proxy that is ready to run.
pub struct Proxy {
    config: Config,
    client: Client,
    metrics: Metrics,
    ready: Option<Waiting>,
    listener: Option<TcpListener>,
}

impl Proxy {
    /// The proxy of one node of the cluster behind `client`.
    pub fn new(config: Config, client: Client) -> Self {
        Self { config, client, metrics: Metrics::default(), ready: None, listener: None }
    }

    /// Counts in `metrics`.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Keeps `readiness` waiting until the kernel has everything for the first time.
    pub fn with_readiness(self, readiness: &Readiness) -> Self {
        Self { ready: Some(readiness.wait_for("first sync")), ..self }
    }

    /// Listens where `/healthz` shall be answered; without it `run` tries, and only warns if it cannot.
    pub async fn bind(mut self) -> io::Result<Self> {
        if let Some(address) = self.config.health_address {
            self.listener = Some(health::listen(address, self.config.namespace.clone()).await?);
        }
        Ok(self)
    }

    /// Works until `stop` resolves. Returns early only when a part of it breaks. The kernel keeps what it has: nobody's
    /// connections depend on the proxy being there.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.work_until(Box::pin(stop)).await;
    }

    fn work_until(self, stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move {
            let Self { config, client, metrics, ready, listener } = self;
            let mut tasks = JoinSet::new();
            let view = View::new(config.clone(), client);
            let plan = SharedPlan::default();
            let health = Health::new(&config, view.changed().clone(), metrics.clone());
            let written = channel::Sender::new(0);
            metrics.tell(&plan, view.changed());
            view.follow(&mut tasks);
            let checks = health::serve_checks(
                plan.clone(),
                health.clone(),
                config.namespace.clone(),
                written.subscribe(),
            );
            tasks.spawn(checks);
            if let Some(listener) = health_listener(&config, listener).await {
                tasks.spawn(health::serve(health.clone(), listener));
            }
            let engine = Engine {
                config,
                view: Arc::clone(&view),
                plan,
                metrics,
                health,
                written,
                node: NodeState::default(),
                kernel: None,
                resync: Some(Cause::Start),
                verify_at: Instant::now(),
            };
            tasks.spawn(engine.run(ready));
            tokio::select! {
                () = stop => {}
                Some(ended) = tasks.join_next() => tracing::error!(?ended, "a part of the proxy ended by itself"),
            }
            tasks.shutdown().await;
        })
    }
}

async fn health_listener(config: &Config, bound: Option<TcpListener>) -> Option<TcpListener> {
    let Some(address) = config.health_address.filter(|_| bound.is_none()) else { return bound };
    match health::listen(address, config.namespace.clone()).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(%address, %error, "cannot listen for /healthz");
            None
        }
    }
}
