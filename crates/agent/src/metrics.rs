//! What the agent counts, and what it can tell about its state when asked.
//!
//! Counters and the histogram are moved where things happen. Everything that is a state (offers, imports, conflicts,
//! leases, lag, what is left out) is read from the caches at the moment of the scrape, so it cannot drift from them. While
//! the process does not lead there is no state to tell, and none is told.

mod state;
mod writes;

pub(crate) use self::writes::Side;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Client, Error, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::LAST_CHANGE_TRIGGER_TIME_ANNOTATION;
use tombolo_api::tombolo::Dialect;
use tombolo_model::ClusterId;
use tombolo_model::address::DropCount;
use tombolo_model::liveness::Liveness;
use tombolo_runtime::{Controller, Key, LONGEST_ATTEMPT, Next, Queue, in_time};

use self::state::State;

/// The labels of a metric with `N` of them.
type Labels<const N: usize> = [(&'static str, String); N];

/// A service on its way out of the cluster or into it, and the cluster its endpoints are in.
type Passage = (Direction, Dialect, Key, ClusterId);

/// Which way endpoints go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// From the cluster to the hub.
    Published,
    /// From the hub into the cluster.
    Imported,
}

impl Direction {
    const fn as_str(self) -> &'static str {
        match self {
            Direction::Published => "published",
            Direction::Imported => "imported",
        }
    }
}

/// Everything measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    propagation: Family<Labels<1>, Histogram, fn() -> Histogram>,
    durations: tombolo_works::Metrics,
    writes: Family<Labels<3>, Counter>,
    errors: Family<Labels<1>, Counter>,
    drops: Mutex<BTreeMap<Passage, DropCount>>,
    sources: Mutex<BTreeMap<ClusterId, Liveness>>,
    state: Mutex<Option<State>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            propagation: Family::new_with_constructor(histogram),
            durations: tombolo_works::Metrics::default(),
            writes: Family::default(),
            errors: Family::default(),
            drops: Mutex::default(),
            sources: Mutex::default(),
            state: Mutex::default(),
        }
    }
}

/// From a millisecond to the time after which a source would be dead anyway.
fn histogram() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Makes them show in `registry`: those of Karmada's proposal under their names, all others under `tombolo_agent_`.
    pub fn register(&self, registry: &mut Registry) {
        self.0.durations.register(registry);
        let registry = registry.sub_registry_with_prefix("tombolo_agent");
        registry.register(
            "propagation_seconds",
            "From a change of endpoints (last-change-trigger-time, by the source cluster's clock) until the imported slice \
             was written here (by this cluster's clock); only changes of slices that were already imported",
            self.0.propagation.clone(),
        );
        registry.register(
            "writes",
            "Requests that change something, by side, resource and result",
            self.0.writes.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Attempts that failed and are repeated, by controller",
            self.0.errors.clone(),
        );
        registry.register_collector(Box::new(self.clone()));
    }

    /// The durations of Karmada's proposal.
    pub(crate) fn durations(&self) -> &tombolo_works::Metrics {
        &self.0.durations
    }

    /// The same client, with its writes counted.
    pub(crate) fn count_writes(&self, client: Client, side: Side) -> Client {
        writes::count(client, side, self.0.writes.clone())
    }

    /// The same controller, with its errors counted.
    pub(crate) fn count_errors<C: Controller>(&self, controller: C) -> Counted<C> {
        Counted { controller, errors: self.0.errors.clone() }
    }

    /// Takes note of what is left out of a service's endpoints now. Returns whether that is news.
    pub(crate) fn note_drops(&self, passage: Passage, dropped: DropCount) -> bool {
        let mut drops = locked(&self.0.drops);
        if dropped.is_empty() {
            return drops.remove(&passage).is_some();
        }
        drops.insert(passage, dropped.clone()) != Some(dropped)
    }

    /// The service does not go this way any more; `keep` says from where it still does.
    pub(crate) fn forget_drops(
        &self,
        direction: Direction,
        dialect: Dialect,
        key: &Key,
        keep: impl Fn(&ClusterId) -> bool,
    ) {
        let is_it = |(other, edition, service, _): &Passage| {
            *other == direction && *edition == dialect && service == key
        };
        locked(&self.0.drops).retain(|passage, _| !is_it(passage) || keep(&passage.3));
    }

    /// Takes note of how all sources are now.
    pub(crate) fn note_sources(&self, sources: BTreeMap<ClusterId, Liveness>) {
        *locked(&self.0.sources) = sources;
    }

    /// Takes note that a slice was written. Its time counts only if a change of endpoints made it be written, not a
    /// first import or a change of the service.
    pub(crate) fn note_slice(&self, held: Option<&EndpointSlice>, written: &EndpointSlice, now: Timestamp) {
        let (Some(before), Some(triggered)) = (held.and_then(trigger), trigger(written)) else { return };
        let Some(source) = written.labels().get(SOURCE_CLUSTER_LABEL) else { return };
        // A time in the future is that of a clock that is ahead: nothing can be said then.
        if before != triggered && triggered <= now {
            let labels = [("source", source.clone())];
            self.0.propagation.get_or_create(&labels).observe(now.duration_since(triggered).as_secs_f64());
        }
    }
}

fn trigger(slice: &EndpointSlice) -> Option<Timestamp> {
    slice.annotations().get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION)?.parse().ok()
}

/// Adds what was left out of one slice to what was left out of the others.
pub(crate) fn add_drops(sum: &mut DropCount, dropped: DropCount) {
    dropped.into_iter().for_each(|(reason, count)| *sum.entry(reason).or_default() += count);
}

/// A controller whose errors are counted.
pub(crate) struct Counted<C> {
    controller: C,
    errors: Family<Labels<1>, Counter>,
}

impl<C: Controller> Controller for Counted<C> {
    type Item = C::Item;

    const NAME: &'static str = C::NAME;
    const ABREAST: usize = C::ABREAST;

    fn queue(&self) -> &Queue<Self::Item> {
        self.controller.queue()
    }

    async fn reconcile(&self, item: &Self::Item) -> Result<Next, Error> {
        // One that is given up from outside would not be counted.
        let outcome = in_time(LONGEST_ATTEMPT, self.controller.reconcile(item)).await;
        if outcome.is_err() {
            self.errors.get_or_create(&[("controller", C::NAME.to_owned())]).inc();
        }
        outcome
    }
}
