//! Load balancers: one process per node, of which one is the provider.
//!
//! The provider (`provider`, leader-elected) gives LoadBalancer Services of its class addresses from AddressPools and says
//! in their status what it did, in the words of KEP-4631; all it decides is decided in `model::balancer`. The others stand by
//! (`standby`), and say so where it does not answer. Every node is an announcer: it says that it is alive (`roster`), finds out which addresses it answers for (`announcer`), and answers
//! for them by ARP and neighbour discovery (`speaker`). What arrives there is forwarded by the node's service proxy.

mod announcer;
mod config;
mod metrics;
mod pools;
mod provider;
mod retire;
mod roster;
mod shared;
mod speaker;
mod standby;

pub use self::config::Config;
pub use self::metrics::Metrics;
pub use self::retire::retire;
pub use self::speaker::try_sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tombolo_runtime::{Boxed, Candidate, Readiness, Waiting, work};

use self::announcer::Announcer;
use self::pools::PoolStatus;
use self::provider::Provider;
use self::roster::Roster;
use self::shared::Shared;
use self::speaker::Speaker;
use self::standby::Standby;

/// The Lease that providers of one class compete for.
const LEADER_LEASE: &str = "tombolo-balancer";
/// A provider that was killed is followed by another after three to four seconds, since all that is pending waits for it. One that cannot renew for two seconds stops: giving up too early costs nothing, all it knows is in the Services.
const TERM: Term = Term {
    lasts: Duration::from_secs(3),
    renewed_within: Duration::from_secs(2),
    every: Duration::from_secs(1),
};
/// How long saying good-bye may take.
const FAREWELL: Duration = Duration::from_secs(3);
/// More rivals than this at a time are not told one by one.
const MOST_RIVALS: usize = 64;

/// How leadership is kept.
struct Term {
    lasts: Duration,
    renewed_within: Duration,
    every: Duration,
}

/// The balancer of a node, ready to run.
pub struct Balancer {
    config: Config,
    client: Client,
    metrics: Metrics,
    ready: Option<Waiting>,
}

impl Balancer {
    /// The balancer of one node of the cluster behind `client`.
    pub fn new(config: Config, client: Client) -> Self {
        Self { config, client, metrics: Metrics::default(), ready: None }
    }

    /// Counts in `metrics`.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Keeps `readiness` waiting until everything has been listed and this node is known to be alive.
    pub fn with_readiness(self, readiness: &Readiness) -> Self {
        Self { ready: Some(readiness.wait_for("caches and heartbeat")), ..self }
    }

    /// Works until `stop` resolves, then tells the others that this node is gone. Returns early only when a part of it
    /// breaks. Sockets are those of the calling thread's network namespace.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.work_until(Box::pin(stop)).await;
    }

    fn work_until(self, stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move {
            let shared = Arc::new(Shared::new(self.config, self.client, self.metrics));
            let mut tasks = JoinSet::new();
            let (stopping, stopped) = watch::channel(false);
            let (roster, roster_seen) = watch::channel(Roster::default());
            let (mine, mine_seen) = watch::channel(BTreeSet::new());
            let (mute, mute_seen) = watch::channel(false);
            let (rivals, rivals_heard) = mpsc::channel(MOST_RIVALS);
            let announcer = Announcer::new(&shared, roster_seen.clone(), mine, rivals_heard);
            let (services, pools) = (provider::listen(&shared), pools::listen(&shared));
            let standby = Standby::new(&shared, roster_seen.clone());
            shared.follow(&mut tasks);
            if shared.config.speak {
                let speaker = Speaker {
                    links: shared.config.links.clone(),
                    announce_every: shared.config.announce_every,
                    mine: mine_seen.clone(),
                    rivals,
                    mute,
                    metrics: shared.metrics.clone(),
                };
                tasks.spawn(speaker.run());
            }
            let mut closing = JoinSet::new();
            closing.spawn(roster::beat(shared.clone(), mine_seen, mute_seen, stopped.clone()));
            let all = shared.clone();
            tasks.spawn(async move {
                all.synced().await;
                roster::keep(all, roster).await;
            });
            let (node, seen, ready) = (shared.config.node.clone(), roster_seen.clone(), self.ready);
            tasks.spawn(async move {
                known_alive(&node, seen).await;
                drop(ready);
                announcer.run().await;
            });
            closing.spawn(async move {
                known_alive(&shared.config.node, roster_seen.clone()).await;
                provide(&shared, standby, services, pools, roster_seen, stopped).await;
            });
            tokio::select! {
                () = stop => {}
                Some(ended) = tasks.join_next() => tracing::error!(?ended, "a part of the balancer ended by itself"),
                Some(ended) = closing.join_next() => tracing::error!(?ended, "a part of the balancer ended by itself"),
            }
            stopping.send_replace(true);
            let farewell = async { while closing.join_next().await.is_some() {} };
            if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
                tracing::warn!("the others could not be told that this node is gone");
            }
            tasks.shutdown().await;
        })
    }
}

/// Waits until this node is on the roster: from then on it can be elected.
async fn known_alive(node: &str, mut roster: watch::Receiver<Roster>) {
    // The sender lives as long as the task that waits.
    let _ = roster.wait_for(|roster| roster.live.contains_key(node)).await;
}

/// Provides while this process leads, again and again.
async fn provide(
    shared: &Arc<Shared>,
    standby: Standby,
    services: provider::Work,
    pools: Arc<tombolo_runtime::Queue<()>>,
    roster: watch::Receiver<Roster>,
    mut stopped: watch::Receiver<bool>,
) {
    let config = &shared.config;
    let term = || async {
        let used = watch::Sender::new(BTreeMap::new());
        let provider = Provider::new(shared, services.clone(), roster.clone(), used.clone());
        let status = PoolStatus::new(shared, pools.clone(), used);
        let (nodes, counting, using) = (provider.watch_nodes(), provider.count(), status.watch_use());
        tokio::join!(nodes, counting, using, work(provider), work(status));
    };
    loop {
        let mut end = stopped.clone();
        let leads = AtomicBool::new(false);
        let working = async {
            leads.store(true, Ordering::Relaxed);
            tokio::select! {
                () = term() => {}
                _ = end.wait_for(|stop| *stop) => {}
            }
        };
        if config.elect_leader {
            let mut candidate = Candidate::new(&config.namespace, lease(config), &config.instance);
            candidate.clock = config.clock.clone();
            (candidate.duration, candidate.deadline, candidate.period) =
                (TERM.lasts, TERM.renewed_within, TERM.every);
            tokio::select! {
                () = candidate.lead(shared.client.clone(), working) => {}
                () = standby.speak(&candidate.lease, &leads) => {}
            }
        } else {
            working.await;
        }
        if *stopped.borrow_and_update() {
            return;
        }
    }
}

/// Providers of different classes do not compete.
fn lease(config: &Config) -> String {
    match &config.class {
        None => LEADER_LEASE.to_owned(),
        Some(class) => format!(
            "{LEADER_LEASE}-{}",
            class.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        ),
    }
}
