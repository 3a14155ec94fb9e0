//! What has to happen before an agent calls itself ready.

use std::sync::Arc;

use tombolo_runtime::{Readiness, Waiting};

use crate::edition::{Kep, Mcs};
use crate::shared::{EditionViews, Shared};

/// Three things to wait for, each by its name.
pub(crate) struct Gates {
    member: Waiting,
    hub: Waiting,
    heartbeat: Waiting,
}

impl Gates {
    pub(crate) fn new(readiness: &Readiness) -> Self {
        Self {
            member: readiness.wait_for("member caches"),
            hub: readiness.wait_for("hub caches"),
            heartbeat: readiness.wait_for("first heartbeat"),
        }
    }

    /// Opens each gate when its time has come; then there is nothing left to do, for ever.
    pub(crate) async fn open(
        self,
        shared: Arc<Shared>,
        kep: Arc<EditionViews<Kep>>,
        mcs: Arc<EditionViews<Mcs>>,
    ) {
        let Self { member, hub, heartbeat } = self;
        let member = async {
            shared.member_synced().await;
            kep.synced().await;
            mcs.synced().await;
            drop(member);
        };
        let hub = async {
            shared.hub_synced().await;
            drop(hub);
        };
        let heartbeat = async {
            shared.heard().await;
            drop(heartbeat);
        };
        tokio::join!(member, hub, heartbeat);
        std::future::pending().await
    }
}
