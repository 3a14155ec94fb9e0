//! What the server counts.
//!
//! Queries are counted by each worker for itself, in atomic words that nobody else writes, and added up when somebody
//! asks. Names and labels are CoreDNS' where the meaning is the same, so that its dashboards work.

mod tally;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use self::tally::Tally;
use crate::answer::{Kind, Settings, Transport};
use crate::zone::{Realm, Zones};

/// Everything measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tallies: Mutex<Vec<Arc<Tally>>>,
    state: Mutex<Option<State>>,
    update: Histogram,
    counters: [AtomicU64; EVENTS.len()],
}

#[derive(Debug)]
struct State {
    zones: Arc<Zones>,
    settings: Arc<Settings>,
    published: Instant,
    unfit: usize,
}

/// Things that happen now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Limited,
    Ignored,
    Refused,
    Forwarded,
    ForwardFailed,
    ForwardFull,
    CacheHit,
    Accepted,
    Evicted,
    Looping,
}

const EVENTS: [(&str, &str); 10] = [
    ("rate_limited", "Queries over the limit of their address"),
    ("ignored", "Datagrams that were no queries"),
    ("tcp_refused", "TCP connections that were closed because of too many from one address"),
    ("forward_requests", "Queries that were passed on to an upstream"),
    ("forward_failures", "Queries that no upstream answered"),
    ("forward_full", "Queries that were not passed on because too many were waiting"),
    ("cache_hits", "Queries for upstreams that were answered from the cache"),
    ("tcp_accepted", "TCP connections"),
    ("tcp_evicted", "Idle TCP connections that made room for others"),
    ("forward_loops", "Queries of ours that came back to us"),
];

impl Default for Inner {
    fn default() -> Self {
        let steps =
            [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
        Self {
            tallies: Mutex::default(),
            state: Mutex::default(),
            update: Histogram::new(steps),
            counters: Default::default(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Makes them show in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("tombolo_dns");
        let help = "From a watch event until queries are answered by it";
        own.register("update_seconds", help, self.0.update.clone());
        own.register_collector(Box::new(Own(self.clone())));
        registry.register_collector(Box::new(self.clone()));
    }

    /// A new place to count in.
    pub(crate) fn tally(&self, transport: Transport, settings: &Settings) -> Arc<Tally> {
        let tally = Arc::new(Tally::new(transport, settings.zones.len()));
        locked(&self.0.tallies).push(tally.clone());
        tally
    }

    pub(crate) fn count(&self, event: Event) {
        self.0.counters[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// From now on there is something to tell.
    pub(crate) fn begin(&self, zones: &Arc<Zones>, settings: &Arc<Settings>) {
        let (zones, settings) = (zones.clone(), settings.clone());
        *locked(&self.0.state) = Some(State { zones, settings, published: Instant::now(), unfit: 0 });
    }

    /// Takes note that what was known so long is answered now.
    pub(crate) fn note_update(&self, lags: impl Iterator<Item = Duration>, unfit: usize) {
        lags.for_each(|lag| self.0.update.observe(lag.as_secs_f64()));
        if let Some(state) = &mut *locked(&self.0.state) {
            (state.published, state.unfit) = (Instant::now(), unfit);
        }
    }
}

/// The name of a zone as a label.
fn zone_label(settings: &Settings, zone: usize) -> String {
    settings.zones.get(zone).map_or_else(|| ".".to_owned(), |apex| apex.name.to_string())
}

/// What CoreDNS has, too.
impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = locked(&self.0.state);
        let Some(state) = state.as_ref() else { return Ok(()) };
        let tallies = locked(&self.0.tallies);
        tally::encode(&tallies, |zone| zone_label(&state.settings, zone), &mut encoder)
    }
}

/// What only we have.
#[derive(Debug)]
struct Own(Metrics);

impl Collector for Own {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let inner = &self.0.0;
        for ((name, help), counter) in EVENTS.iter().zip(&inner.counters) {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(counter.load(Ordering::Relaxed)).encode(metric)?;
        }
        let state = locked(&inner.state);
        let Some(state) = state.as_ref() else { return Ok(()) };
        let mut gauge = |name: &str, help: &str, value: f64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let age = state.published.elapsed().as_secs_f64();
        gauge("snapshot_age_seconds", "Since records last changed", age)?;
        gauge(
            "unfit_endpoints",
            "Endpoints without a name because it would be too long",
            state.unfit as f64,
        )?;
        state.encode_realms(&mut encoder)
    }
}

impl State {
    fn encode_realms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let served =
            |realm: &Realm| self.settings.zones.iter().any(|apex| apex.kind == Kind::Services(*realm));
        type Figure = fn(&Zones, Realm) -> usize;
        let figures: [(&str, &str, Figure); 3] = [
            ("records", "Records in each zone of a realm", Zones::records),
            ("services", "Services in each zone of a realm", Zones::services),
            ("complete", "1 when everything has been listed once", |zones, realm| {
                usize::from(zones.is_complete(realm))
            }),
        ];
        for (name, help, figure) in figures {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for realm in Realm::ALL.into_iter().filter(served) {
                let value = ConstGauge::new(figure(&self.zones, realm) as f64);
                value.encode(metric.encode_family(&[("realm", realm.as_str())])?)?;
            }
        }
        Ok(())
    }
}
