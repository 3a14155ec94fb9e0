//! The agent: one per member, leader-elected.
//!
//! It offers at the hub what its cluster exports (`exports`), brings in what all clusters offer (`imports`), keeps a lease
//! per source cluster and removes what a dead one left (`sources`), and says at the hub that it lives and how far it has
//! come (`membership`). What any of this means is decided in `model`; here it is read, written and repeated until it is
//! true. Every step compares everything there is with everything there should be, so a restart needs no memory.

mod config;
mod edition;
mod exports;
mod imports;
mod membership;
mod progress;
mod shared;
mod sources;
mod write;

pub use self::config::Config;

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use tombolo_runtime::work;

use self::edition::{Kep, Mcs};
use self::shared::{EditionViews, Shared};

/// An agent that is ready to run.
pub struct Agent {
    config: Config,
    member: Client,
    hub: Client,
}

impl Agent {
    /// An agent of the cluster behind `member`, which meets the others at `hub`.
    pub fn new(config: Config, member: Client, hub: Client) -> Self {
        Self { config, member, hub }
    }

    /// Works until `stop` resolves. Returns early only when a part of it breaks.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let shared = Arc::new(Shared::new(self.config, self.member, self.hub));
        let kep = Arc::new(EditionViews::<Kep>::new());
        let mcs = Arc::new(EditionViews::<Mcs>::new());
        let exports = (exports::Exports::new(&shared, &kep), exports::Exports::new(&shared, &mcs));
        let imports = (imports::Imports::new(&shared, &kep), imports::Imports::new(&shared, &mcs));
        let expiry = sources::Expiry::new(&shared);
        shared.follow(&mut tasks);
        kep.follow(&shared, &mut tasks);
        mcs.follow(&shared, &mut tasks);
        tasks.spawn(membership::run(shared.clone()));
        tasks.spawn(sources::run(shared.clone()));
        let begin = async move {
            shared.synced().await;
            kep.synced().await;
            mcs.synced().await;
        };
        tasks.spawn(async move {
            begin.await;
            tokio::join!(work(exports.0), work(exports.1), work(imports.0), work(imports.1), work(expiry));
        });
        tokio::select! {
            () = stop => {}
            Some(ended) = tasks.join_next() => tracing::error!(?ended, "a part of the agent ended by itself"),
        }
        tasks.shutdown().await;
    }
}
