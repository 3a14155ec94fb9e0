//! How long things take on their way, as Karmada's proposal defines it, and what is left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tombolo_model::address::{DropCount, Dropped};
use tombolo_runtime::Key;

type Labels = [(&'static str, &'static str); 1];
type Durations = Family<Labels, Histogram, fn() -> Histogram>;

/// The two durations of Karmada's proposal, and the endpoints that are not reported. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    services: Durations,
    slices: Durations,
    left_out: Family<[(&'static str, String); 3], Gauge>,
    /// What that shows.
    known: Arc<Mutex<BTreeMap<Key, DropCount>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            services: Family::new_with_constructor(histogram),
            slices: Family::new_with_constructor(histogram),
            left_out: Family::default(),
            known: Arc::default(),
        }
    }
}

/// From a millisecond to half a minute.
fn histogram() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

/// On which of the ways a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the member to its own namespace at the hub.
    Collected,
    /// From there to a consumer's.
    Dispatched,
}

impl Metrics {
    /// Makes them show in `registry`, under the names of Karmada's proposal.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mcs_sync_svc_duration_seconds",
            "From writing the Work of a Service until the member has applied it",
            self.services.clone(),
        );
        registry.register(
            "mcs_sync_eps_duration_seconds",
            "From detecting a change of an EndpointSlice until the Work for it is written, by way: collected in the \
             provision cluster's namespace, dispatched to a consumption cluster's",
            self.slices.clone(),
        );
        registry.register(
            "mcs_endpoints_left_out",
            "Addresses of endpoints of a provided Service that are not reported, by reason",
            self.left_out.clone(),
        );
    }

    /// Takes note of what is left out of the endpoints of a Service now.
    pub(crate) fn note_left_out(&self, service: &Key, left_out: DropCount) {
        let labels = |reason: &Dropped| {
            let (namespace, name) = (service.namespace.clone(), service.name.clone());
            [("namespace", namespace), ("service", name), ("reason", reason.as_str().to_owned())]
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for reason in known.remove(service).iter().flat_map(BTreeMap::keys) {
            self.left_out.remove(&labels(reason));
        }
        for (reason, count) in &left_out {
            self.left_out.get_or_create(&labels(reason)).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        if !left_out.is_empty() {
            known.insert(service.clone(), left_out);
        }
    }

    /// Takes note that a member has applied a Service.
    pub fn note_service(&self, took: Duration) {
        self.services.get_or_create(&[("result", "success")]).observe(took.as_secs_f64());
    }

    /// Takes note that the Work of a slice was written.
    pub fn note_slice(&self, way: Way, took: Duration) {
        let way = match way {
            Way::Collected => "collected",
            Way::Dispatched => "dispatched",
        };
        self.slices.get_or_create(&[("way", way)]).observe(took.as_secs_f64());
    }
}
