//! What one worker counts, and how all of it is told.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Unit;

use crate::answer::{Facts, Transport};
use crate::message::Rcode;

/// Types that are told apart; the last stands for all others.
const TYPES: [(&str, u16); 14] = [
    ("A", 1),
    ("AAAA", 28),
    ("SRV", 33),
    ("PTR", 12),
    ("CNAME", 5),
    ("TXT", 16),
    ("NS", 2),
    ("SOA", 6),
    ("MX", 15),
    ("HTTPS", 65),
    ("ANY", 255),
    ("AXFR", 252),
    ("IXFR", 251),
    ("other", 0),
];

/// CoreDNS' steps for sizes.
const SIZES: [f64; 14] =
    [0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3, 64e3];
/// CoreDNS' steps for durations, with some below: most answers take less than its first.
const DURATIONS: [f64; 14] =
    [1e-6, 5e-6, 2.5e-5, 0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.128, 1.024, 8.192];

const STEPS: usize = 15;

/// Values in steps, the last without an end.
#[derive(Debug, Default)]
struct Steps {
    counts: [AtomicU64; STEPS],
    sum: AtomicU64,
}

impl Steps {
    fn add(&self, bounds: &[f64; STEPS - 1], value: f64, times: u64, units: u64) {
        let step = bounds.iter().position(|bound| value <= *bound).unwrap_or(STEPS - 1);
        self.counts[step].fetch_add(times, Ordering::Relaxed);
        self.sum.fetch_add(units.saturating_mul(times), Ordering::Relaxed);
    }
}

/// What was counted in one zone.
#[derive(Debug, Default)]
struct Zone {
    requests: [[AtomicU64; TYPES.len()]; 2],
    responses: [AtomicU64; Rcode::ALL.len()],
    request_sizes: Steps,
    response_sizes: Steps,
    /// In nanoseconds.
    durations: Steps,
}

/// What one worker has counted, by zone; the last stands for what is not ours.
#[derive(Debug)]
pub(crate) struct Tally {
    transport: Transport,
    zones: Box<[Zone]>,
}

impl Tally {
    pub(super) fn new(transport: Transport, zones: usize) -> Self {
        Self { transport, zones: (0..=zones).map(|_| Zone::default()).collect() }
    }

    /// Takes note of one query and its reply. Returns the place of its zone.
    pub(crate) fn note(&self, facts: &Facts, v6: bool, asked: usize) -> usize {
        let place = facts.zone.unwrap_or(self.zones.len() - 1).min(self.zones.len() - 1);
        let zone = &self.zones[place];
        let kind = TYPES.iter().position(|(_, kind)| *kind == facts.qtype).unwrap_or(TYPES.len() - 1);
        let rcode = Rcode::ALL.iter().position(|rcode| *rcode == facts.rcode).unwrap_or_default();
        zone.requests[usize::from(v6)][kind].fetch_add(1, Ordering::Relaxed);
        zone.responses[rcode].fetch_add(1, Ordering::Relaxed);
        zone.request_sizes.add(&SIZES, asked as f64, 1, asked as u64);
        zone.response_sizes.add(&SIZES, facts.size as f64, 1, facts.size as u64);
        place
    }

    /// Takes note that `times` queries of a zone took so long each.
    pub(crate) fn took(&self, zone: usize, each: Duration, times: u64) {
        if let Some(zone) = self.zones.get(zone) {
            zone.durations.add(&DURATIONS, each.as_secs_f64(), times, each.as_nanos() as u64);
        }
    }

    pub(crate) fn zones(&self) -> usize {
        self.zones.len()
    }

    fn proto(&self) -> &'static str {
        match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

const SERVER: (&str, &str) = ("server", "dns://");

/// Tells the sum of all tallies.
pub(super) fn encode(
    tallies: &[Arc<Tally>],
    label: impl Fn(usize) -> String,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let zones = tallies.iter().map(|tally| tally.zones.len()).max().unwrap_or_default();
    let all = Sums { tallies, labels: (0..zones).map(label).collect() };
    all.requests(encoder)?;
    all.responses(encoder)?;
    let help = "How long a query took, from its batch being read to its reply being sent";
    all.steps(encoder, "coredns_dns_request_duration", Some(Unit::Seconds), help, &DURATIONS, 1e-9, |z| {
        &z.durations
    })?;
    let help = "Sizes of queries";
    all.steps(encoder, "coredns_dns_request_size", Some(Unit::Bytes), help, &SIZES, 1.0, |z| {
        &z.request_sizes
    })?;
    let help = "Sizes of replies";
    all.steps(encoder, "coredns_dns_response_size", Some(Unit::Bytes), help, &SIZES, 1.0, |z| {
        &z.response_sizes
    })
}

struct Sums<'a> {
    tallies: &'a [Arc<Tally>],
    labels: Vec<String>,
}

impl Sums<'_> {
    /// The sum of a counter of a zone over all workers of one protocol.
    fn sum(&self, proto: Option<&str>, zone: usize, counter: impl Fn(&Zone) -> &AtomicU64) -> u64 {
        let tallies = self.tallies.iter().filter(|tally| proto.is_none_or(|proto| tally.proto() == proto));
        tallies
            .filter_map(|tally| tally.zones.get(zone))
            .map(|zone| counter(zone).load(Ordering::Relaxed))
            .sum()
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "coredns_dns_requests";
        let mut metric = encoder.encode_descriptor(name, "Queries", None, MetricType::Counter)?;
        for (zone, label) in self.labels.iter().enumerate() {
            for proto in ["udp", "tcp"] {
                for (family, version) in ["1", "2"].into_iter().enumerate() {
                    for (place, (kind, _)) in TYPES.iter().enumerate() {
                        let count = self.sum(Some(proto), zone, |zone| &zone.requests[family][place]);
                        let labels =
                            [SERVER, ("zone", label), ("proto", proto), ("family", version), ("type", kind)];
                        if count > 0 {
                            ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn responses(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "coredns_dns_responses";
        let mut metric = encoder.encode_descriptor(name, "Replies", None, MetricType::Counter)?;
        for (zone, label) in self.labels.iter().enumerate() {
            for (place, rcode) in Rcode::ALL.iter().enumerate() {
                let count = self.sum(None, zone, |zone| &zone.responses[place]);
                let labels = [SERVER, ("zone", label.as_str()), ("rcode", rcode.as_str())];
                if count > 0 {
                    ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one line per histogram at the only caller")]
    fn steps(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        unit: Option<Unit>,
        help: &str,
        bounds: &[f64; STEPS - 1],
        scale: f64,
        steps: impl Fn(&Zone) -> &Steps,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
        for (zone, label) in self.labels.iter().enumerate() {
            for proto in ["udp", "tcp"] {
                let counts: Vec<u64> = (0..STEPS)
                    .map(|step| self.sum(Some(proto), zone, |zone| &steps(zone).counts[step]))
                    .collect();
                let count = counts.iter().sum();
                let sum = self.sum(Some(proto), zone, |zone| &steps(zone).sum) as f64 * scale;
                let bounds = bounds.iter().copied().chain([f64::MAX]);
                let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
                let labels = [SERVER, ("zone", label.as_str()), ("proto", proto)];
                if count > 0 {
                    metric
                        .encode_family(&labels)?
                        .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
                }
            }
        }
        Ok(())
    }
}
