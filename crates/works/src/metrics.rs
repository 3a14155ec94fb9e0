//! How long things take on their way, as specs/003 defines it.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

type Labels = [(&'static str, &'static str); 1];
type Durations = Family<Labels, Histogram, fn() -> Histogram>;

/// The two durations of specs/003. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    services: Durations,
    slices: Durations,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            services: Family::new_with_constructor(histogram),
            slices: Family::new_with_constructor(histogram),
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
    /// Makes them show in `registry`, under the names of specs/003.
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
