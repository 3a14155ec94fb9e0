//! The member's half of Karmada's doors.
//!
//! At the hub a member has an execution namespace. What Tombolo's Works there hold is applied in the member (`execute`), and the slices
//! of Services that the member provides are reported there as Works that are never applied (`collect`). The agent runs this
//! for its own cluster; the hub runs the same for members that have no agent. Every step compares all there is with all
//! there should be, so nothing has to be remembered: what was put into the member carries the name of its Work, and goes
//! when the Work is gone, however long ago that was.
//!
//! The strategy of a MultiClusterService travels in the annotations of its Works; `attach` decides for each slice whether it
//! stands behind its Service now.

mod attach;
mod collect;
mod execute;
mod manifest;
mod mark;
mod member;
mod metrics;
mod service;
mod shared;
mod status;
mod tell;
mod turns;
mod withdraw;

pub use self::member::Member;
pub use self::metrics::{Metrics, Way};
pub use self::withdraw::withdraw;

use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER};
use tombolo_model::address::Declared;
use tombolo_model::{ClusterId, names};
use tombolo_runtime::{Boxed, Clock, LONGEST_ATTEMPT, follow, in_time, work};

use self::collect::Collector;
use self::execute::Executor;
use self::shared::Shared;
use self::tell::{Teller, Tidings};

/// How long to wait before asking again whether the hub has Works for this member.
const KNOCK_EVERY: Duration = Duration::from_secs(5);

/// What is to be known about the member.
#[derive(Clone, Debug)]
pub struct Config {
    pub cluster: ClusterId,
    /// The addresses the member has endpoints at; others are not reported.
    pub declared: Declared,
    /// Make namespaces that Works need; otherwise they wait for them.
    pub create_namespaces: bool,
    pub clock: Clock,
}

/// Ends the listening when it is dropped: listeners hold what holds the cache, so nobody else would free either.
struct Listening(Arc<Shared>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.works.stop_telling();
    }
}

/// The Works of one member, ready to be seen to.
pub struct Works {
    shared: Arc<Shared>,
    executor: Executor,
    collector: Collector,
    teller: Teller,
}

impl Works {
    /// The Works of a member at the hub. None for a cluster whose id cannot be the name of a Karmada cluster. The caches of
    /// the member must not be followed yet.
    pub fn new(config: Config, member: Member, hub: Client, metrics: &Metrics) -> Option<Self> {
        let namespace = names::execution_namespace(&config.cluster)?;
        let shared = Arc::new(Shared::new(config, namespace, member, hub, metrics.clone()));
        let tidings = Arc::new(Tidings::default());
        let (executor, collector) = (Executor::new(&shared, &tidings), Collector::new(&shared));
        let teller = Teller::new(&shared, &tidings);
        Some(Self { shared, executor, collector, teller })
    }

    /// Sees to them, for ever. A hub that has none for this member, or does not let it see them, is asked again.
    pub fn run(self) -> Boxed<'static> {
        Box::pin(self.work())
    }

    async fn work(self) {
        let Self { shared, executor, collector, teller } = self;
        let _listening = Listening(shared.clone());
        let api: Api<Work> = Api::namespaced(shared.hub.clone(), &shared.namespace);
        // Others may have Works for the same cluster, Karmada for one; they are theirs to execute.
        let ours = format!("{MANAGED_BY_LABEL}={MANAGER}");
        let one = ListParams::default().labels(&ours).limit(1);
        while let Err(error) = in_time(LONGEST_ATTEMPT, api.list(&one)).await {
            tracing::debug!(%error, namespace = shared.namespace, "the hub shows no Works");
            tokio::time::sleep(KNOCK_EVERY).await;
        }
        let following = follow(shared.works.clone(), api, watcher::Config::default().labels(&ours));
        let working = async {
            shared.synced().await;
            tokio::join!(work(executor), work(collector), work(teller))
        };
        tokio::join!(following, working);
    }
}
