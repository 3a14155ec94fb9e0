//! What AddressPools say about themselves: whether they are accepted, and how many addresses are in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Error, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tombolo_api::condition;
use tombolo_api::tombolo::AddressPool;
use tombolo_model::balancer::{PoolVerdict, Pools};
use tombolo_runtime::{Controller, Key, Next, Queue, unless_gone};

use crate::shared::{Shared, WRITER};

/// How many addresses of each pool are in use.
pub(crate) type Used = watch::Sender<BTreeMap<String, usize>>;

/// The controller of AddressPools. All are looked at together: whether one is accepted depends on the others.
pub(crate) struct PoolStatus {
    shared: Arc<Shared>,
    work: Arc<Queue<()>>,
    used: Used,
}

/// What there is to look at, from now on.
pub(crate) fn listen(shared: &Arc<Shared>) -> Arc<Queue<()>> {
    let work = Arc::new(Queue::new());
    let (add, metrics) = (work.clone(), shared.metrics.clone());
    shared.pools.listen_to_changes(move |change| {
        if let tombolo_runtime::Change::Gone(pool) = change {
            metrics.forget_pool(&pool.name_any());
        }
        add.add(());
    });
    work
}

impl PoolStatus {
    pub(crate) fn new(shared: &Arc<Shared>, work: Arc<Queue<()>>, used: Used) -> Self {
        work.add(());
        Self { shared: shared.clone(), work, used }
    }

    /// Looks again whenever an address is given or taken.
    pub(crate) fn watch_use(&self) -> impl Future<Output = ()> + Send + 'static {
        let (mut used, work) = (self.used.subscribe(), self.work.clone());
        async move {
            while used.changed().await.is_ok() {
                work.add(());
            }
        }
    }

    async fn write(&self, pool: &AddressPool, verdict: &PoolVerdict) -> Result<(), Error> {
        let used = self.used.borrow().get(&pool.name_any()).copied().unwrap_or(0);
        self.shared.metrics.note_assigned(&pool.name_any(), used);
        let mut status = pool.status.clone().unwrap_or_default();
        status.assigned = i64::try_from(used).unwrap_or(i64::MAX);
        let now = Time(self.shared.config.clock.now());
        condition::set(&mut status.conditions, verdict.condition(pool.metadata.generation), now);
        if pool.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let api: Api<AddressPool> = Api::all(self.shared.client.clone());
        let params = PatchParams { field_manager: Some(WRITER.to_owned()), ..PatchParams::default() };
        let patch = json!({"metadata": {"resourceVersion": pool.resource_version()}, "status": status});
        unless_gone(api.patch_status(&pool.name_any(), &params, &Patch::Merge(patch)).await)
    }
}

impl Controller for PoolStatus {
    type Item = ();

    const NAME: &'static str = "address pools";

    fn queue(&self) -> &Queue<()> {
        &self.work
    }

    async fn reconcile(&self, (): &()) -> Result<Next, Error> {
        let pools = self.shared.pools.all();
        let (_, verdicts) = Pools::read(pools.iter().map(|pool| &**pool));
        let mut outcome = Ok(());
        for (name, verdict) in verdicts {
            if let Some(pool) = self.shared.pools.get(&Key::new("", name)) {
                outcome = outcome.and(self.write(&pool, &verdict).await);
            }
        }
        outcome.map(|()| Next::Rest)
    }
}
