//! The agent: one per member, leader-elected.
//!
//! It offers at the hub what its cluster exports (`exports`), brings in what all clusters offer (`imports`), keeps a lease
//! per source cluster and removes what a dead one left (`sources`), and says at the hub that it lives and how far it has
//! come (`membership`). Exports that a label asks for it makes itself (`auto_export`). Under a Service's own name it brings
//! in what a ServiceImport with a strategy asks for (`native`). Works that the hub has for its cluster it applies, and
//! reports slices for them (the crate `works`). What any of this means is decided in `model`; here it is read, written and repeated until it is
//! true. Every step compares everything there is with everything there should be, so a restart needs no memory.

mod auto_export;
mod config;
mod credential;
mod edition;
mod events;
mod exports;
mod imports;
mod membership;
mod metrics;
mod native;
mod progress;
mod reach;
mod ready;
mod refusals;
mod retire;
mod roster;
mod shared;
mod slices;
mod sources;
mod strays;
mod version;
mod write;

pub use self::config::Config;
pub use self::metrics::Metrics;
pub use self::retire::{Retired, retire};

use std::sync::Arc;

use kube::{Client, Error};
use tokio::task::JoinSet;
use tombolo_model::address::Declared;
use tombolo_runtime::{Boxed, Readiness, work};
use tombolo_works::Works;

use self::edition::{Kep, Mcs};
use self::metrics::Side;
use self::ready::Gates;
use self::shared::{EditionViews, Shared};

/// An agent that is ready to run.
pub struct Agent {
    config: Config,
    member: Client,
    hub: Client,
    metrics: Metrics,
    gates: Option<Gates>,
}

impl Agent {
    /// An agent of the cluster behind `member`, which meets the others at `hub`.
    pub fn new(config: Config, member: Client, hub: Client) -> Self {
        Self { config, member, hub, metrics: Metrics::default(), gates: None }
    }

    /// Counts in `metrics`.
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Keeps `readiness` waiting until all has been listed on both sides and the hub has heard of this agent.
    pub fn with_readiness(self, readiness: &Readiness) -> Self {
        Self { gates: Some(Gates::new(readiness)), ..self }
    }

    /// Asks the hub whether it would take this cluster; nothing changes there. It refuses an id that another cluster
    /// uses.
    pub async fn rehearse(&self) -> Result<(), Error> {
        membership::rehearse(&self.config, &self.hub).await
    }

    /// Works until `stop` resolves. Returns early only when a part of it breaks. When the hub turns out to be older than it
    /// was, everything begins anew.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.work_until(Box::pin(stop)).await;
    }

    fn work_until(mut self, mut stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move { while self.work(stop.as_mut()).await {} })
    }

    /// Works until `stop` resolves, or a part of it breaks, or everything has to begin anew: then it returns true.
    async fn work(&mut self, stop: impl Future<Output = ()>) -> bool {
        let mut tasks = JoinSet::new();
        let metrics = self.metrics.clone();
        let member = metrics.count_writes(self.member.clone(), Side::Member);
        let hub = metrics.count_writes(self.hub.clone(), Side::Hub);
        let shared = Arc::new(Shared::new(self.config.clone(), member, hub, metrics.clone()));
        let kep = Arc::new(EditionViews::<Kep>::new());
        let mcs = Arc::new(EditionViews::<Mcs>::new());
        let _telling = metrics.tell(&shared, &kep, &mcs);
        let _listening = Listening { shared: shared.clone(), kep: kep.clone(), mcs: mcs.clone() };
        let exports = (
            metrics.count_errors(exports::Exports::new(&shared, &kep)),
            metrics.count_errors(exports::Exports::new(&shared, &mcs)),
        );
        let cut_off = (
            metrics.count_errors(exports::CutOff::new(&shared, &kep)),
            metrics.count_errors(exports::CutOff::new(&shared, &mcs)),
        );
        let imports = (
            metrics.count_errors(imports::Imports::new(&shared, &kep)),
            metrics.count_errors(imports::Imports::new(&shared, &mcs)),
        );
        let native = metrics.count_errors(native::NativeNames::new(&shared, &mcs.imports));
        let refusals = metrics.count_errors(refusals::Refusals::new(&shared));
        let strays = metrics.count_errors(strays::Strays::new(&shared));
        let expiry = metrics.count_errors(sources::Expiry::new(&shared));
        let auto = metrics.count_errors(auto_export::AutoExports::new(&shared, &kep, &mcs));
        let works = works(&shared);
        shared.follow(&mut tasks);
        kep.follow(&shared, &mut tasks);
        mcs.follow(&shared, &mut tasks);
        tasks.spawn(membership::run(shared.clone()));
        tasks.spawn(sources::run(shared.clone()));
        let counting = shared.clone();
        tasks.spawn(async move { counting.reach.watch().await });
        let renewing = shared.clone();
        tasks.spawn(async move { credential::run(&renewing).await });
        tasks.spawn(async move {
            match works {
                Some(works) => works.run().await,
                None => std::future::pending().await,
            }
        });
        if let Some(gates) = self.gates.take() {
            tasks.spawn(gates.open(shared.clone(), kep.clone(), mcs.clone()));
        }
        let here = (shared.clone(), kep.clone(), mcs.clone());
        let begin = async move {
            let (shared, kep, mcs) = here;
            shared.member_synced().await;
            kep.synced().await;
            mcs.synced().await;
            shared
        };
        tasks.spawn(async move {
            let shared = begin.await;
            let alone = async { tokio::join!(work(auto), work(expiry), work(cut_off.0), work(cut_off.1)) };
            let together = async {
                shared.hub_synced().await;
                shared.progress.listed();
                let exports = async { tokio::join!(work(exports.0), work(exports.1), work(strays)) };
                let imports = async { tokio::join!(work(imports.0), work(imports.1), work(refusals)) };
                tokio::join!(exports, imports, work(native));
            };
            tokio::join!(alone, together);
        });
        let again = tokio::select! {
            () = stop => false,
            () = shared.turned_back.notified() => true,
            Some(ended) = tasks.join_next() => {
                tracing::error!(?ended, "a part of the agent ended by itself");
                false
            }
        };
        tasks.shutdown().await;
        again
    }
}

/// Ends the listening when it is dropped: listeners hold what holds the caches, so nobody else would free any of them.
struct Listening {
    shared: Arc<Shared>,
    kep: Arc<EditionViews<Kep>>,
    mcs: Arc<EditionViews<Mcs>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.stop_telling();
        self.kep.stop_telling();
        self.mcs.stop_telling();
    }
}

/// The Works of this cluster at the hub. An id that is no name of a Karmada cluster has none.
fn works(shared: &Shared) -> Option<Works> {
    let config = tombolo_works::Config {
        cluster: shared.config.cluster.clone(),
        declared: Declared::read(&shared.config.pod_cidrs).0,
        create_namespaces: shared.config.create_namespaces,
        clock: shared.config.clock.clone(),
    };
    let member = tombolo_works::Member {
        client: shared.member.clone(),
        services: shared.services.clone(),
        slices: shared.slices.clone(),
        namespaces: shared.namespaces.clone(),
    };
    Works::new(config, member, shared.hub.clone(), shared.metrics.durations())
}
