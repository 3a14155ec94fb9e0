//! What the hub measures: the durations of Karmada's proposal, and how clusters and Works are.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels<const N: usize> = [(&'static str, String); N];

/// Everything measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) durations: tombolo_works::Metrics,
    reconciles: Family<Labels<1>, Counter>,
    writes: Family<Labels<1>, Counter>,
    ready: Family<Labels<1>, Gauge>,
}

impl Metrics {
    /// Makes them show in `registry`: those of Karmada's proposal under their names, the others under `tombolo_hub_`.
    pub fn register(&self, registry: &mut Registry) {
        self.durations.register(registry);
        let registry = registry.sub_registry_with_prefix("tombolo_hub");
        registry.register(
            "reconciles",
            "Times something was looked at, by controller",
            self.reconciles.clone(),
        );
        registry.register("work_writes", "Works written or deleted, by operation", self.writes.clone());
        registry.register("cluster_ready", "1 if the cluster is ready", self.ready.clone());
    }

    pub(crate) fn count_reconcile(&self, controller: &str) {
        self.reconciles.get_or_create(&[("controller", controller.to_owned())]).inc();
    }

    pub(crate) fn count_write(&self, operation: &str) {
        self.writes.get_or_create(&[("operation", operation.to_owned())]).inc();
    }

    pub(crate) fn note_ready(&self, cluster: &str, ready: bool) {
        self.ready.get_or_create(&[("cluster", cluster.to_owned())]).set(i64::from(ready));
    }

    pub(crate) fn forget_cluster(&self, cluster: &str) {
        self.ready.remove(&[("cluster", cluster.to_owned())]);
    }

    /// How often MultiClusterServices were looked at.
    pub fn service_reconciles(&self) -> u64 {
        self.reconciles.get_or_create(&[("controller", "services".to_owned())]).get()
    }
}
