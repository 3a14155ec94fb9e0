//! What can be read from the caches when somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube::ResourceExt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use tombolo_api::condition::Stored;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER, ServiceRef};
use tombolo_model::liveness::Liveness;
use tombolo_model::{ClusterId, names, origin};
use tombolo_runtime::Key;

use super::{Metrics, locked};
use crate::edition::{Edition, Kep, Mcs};
use crate::shared::{EditionViews, Shared};

/// The caches of an agent that runs.
pub(super) struct State {
    shared: Arc<Shared>,
    kep: Arc<EditionViews<Kep>>,
    mcs: Arc<EditionViews<Mcs>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("cluster", &self.shared.config.cluster).finish_non_exhaustive()
    }
}

/// Ends the telling when it is dropped.
pub(crate) struct Telling(Metrics);

impl Drop for Telling {
    fn drop(&mut self) {
        *locked(&self.0.0.state) = None;
        locked(&self.0.0.sources).clear();
        locked(&self.0.0.drops).clear();
    }
}

impl Metrics {
    /// Tells the state of an agent until the guard is dropped.
    pub(crate) fn tell(
        &self,
        shared: &Arc<Shared>,
        kep: &Arc<EditionViews<Kep>>,
        mcs: &Arc<EditionViews<Mcs>>,
    ) -> Telling {
        let state = State { shared: shared.clone(), kep: kep.clone(), mcs: mcs.clone() };
        *locked(&self.0.state) = Some(state);
        Telling(self.clone())
    }
}

/// The values of one metric, by the values of its labels.
type Table = BTreeMap<Vec<String>, f64>;

/// A metric that is read when it is asked for.
struct Gauge {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    values: Table,
}

impl Gauge {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (values, value) in &self.values {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            let gauge = prometheus_client::metrics::gauge::ConstGauge::new(*value);
            gauge.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = locked(&self.0.state);
        let Some(state) = state.as_ref() else { return Ok(()) };
        let mut gauges = state.gauges();
        gauges.extend([self.source_states(), self.dropped()]);
        gauges.iter().try_for_each(|gauge| gauge.encode(&mut encoder))
    }
}

impl Metrics {
    fn source_states(&self) -> Gauge {
        let mut values = Table::new();
        for (cluster, now) in &*locked(&self.0.sources) {
            for state in [Liveness::Alive, Liveness::Held, Liveness::Expired] {
                let is = if *now == state { 1.0 } else { 0.0 };
                values.insert(vec![cluster.to_string(), word(state).to_owned()], is);
            }
        }
        Gauge {
            name: "source_state",
            help: "1 for the state a source cluster is in: alive, held (the hub is out of reach) or expired",
            labels: &["source", "state"],
            values,
        }
    }

    fn dropped(&self) -> Gauge {
        let mut values = Table::new();
        for ((direction, _, _, source), dropped) in &*locked(&self.0.drops) {
            for (reason, count) in dropped {
                let labels =
                    vec![direction.as_str().to_owned(), source.to_string(), reason.as_str().to_owned()];
                *values.entry(labels).or_default() += *count as f64;
            }
        }
        Gauge {
            name: "dropped_endpoints",
            help: "Endpoints that are left out at present, by the way they would go, source and reason",
            labels: &["direction", "source", "reason"],
            values,
        }
    }
}

const fn word(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "alive",
        Liveness::Held => "held",
        Liveness::Expired => "expired",
    }
}

impl State {
    fn gauges(&self) -> Vec<Gauge> {
        vec![
            self.offers(),
            by_dialect(
                "imports",
                "Imports in this cluster that the agent keeps",
                ours(&self.kep),
                ours(&self.mcs),
            ),
            by_dialect(
                "conflicts",
                "Exports of this cluster whose condition Conflict is true",
                conflicts(&self.kep),
                conflicts(&self.mcs),
            ),
            by_dialect(
                "imports_without_namespace",
                "Services that are offered and wait for their namespace in this cluster",
                self.waiting(Dialect::Kep),
                self.waiting(Dialect::Mcs),
            ),
            self.lease_ages(),
            self.lag(),
            self.refused(),
        ]
    }

    fn offers(&self) -> Gauge {
        let mut values = Table::new();
        for cluster in self.shared.members().keys() {
            for offer in self.shared.offers.within(&names::hub_namespace(cluster)) {
                if self.shared.roster.check_offer(&offer) {
                    let labels = vec![cluster.to_string(), dialect(offer.spec.dialect).to_owned()];
                    *values.entry(labels).or_default() += 1.0;
                }
            }
        }
        let help = "Offers at the hub that are believed, by source and edition of the API";
        Gauge { name: "offers", help, labels: &["source", "dialect"], values }
    }

    fn waiting(&self, dialect: Dialect) -> usize {
        let offers = self.shared.offers.all();
        let ours = offers.iter().filter(|offer| offer.spec.dialect == dialect);
        let believed = ours.filter(|offer| self.shared.roster.check_offer(offer));
        let is_missing = |service: &&ServiceRef| {
            self.shared.namespaces.get(&Key::new("", service.namespace.clone())).is_none()
        };
        let services: BTreeSet<&ServiceRef> = believed.map(|offer| &offer.spec.service).collect();
        services.into_iter().filter(is_missing).count()
    }

    fn lease_ages(&self) -> Gauge {
        let now = self.shared.config.clock.now();
        let age = |cluster: &ClusterId| {
            let lease = self.shared.source_lease(cluster)?;
            let renewed = lease.spec.as_ref()?.renew_time.as_ref()?.0;
            Some((vec![cluster.to_string()], now.duration_since(renewed).as_secs_f64()))
        };
        Gauge {
            name: "source_lease_age_seconds",
            help: "Time since the lease of a source in this cluster was renewed",
            labels: &["source"],
            values: self.shared.members().keys().filter_map(age).collect(),
        }
    }

    fn lag(&self) -> Gauge {
        let (offers, slices) = self.shared.progress.lag();
        let row = |watch: &str, lag: u64| (vec![watch.to_owned()], lag as f64);
        Gauge {
            name: "watermark_lag",
            help: "Newest resource version seen at the hub minus the watermark; 0 when all that was seen is applied",
            labels: &["watch"],
            values: [row("offers", offers), row("slices", slices)].into(),
        }
    }

    /// Objects at the hub that are not believed, by why.
    fn refused(&self) -> Gauge {
        let mut values = Table::new();
        let mut count = |kind: &str, reason: &str, number: usize| {
            *values.entry(vec![kind.to_owned(), reason.to_owned()]).or_default() += number as f64;
        };
        for membership in self.shared.memberships.all() {
            if let Err(refused) = origin::check_membership(&membership) {
                count("Membership", refused.reason.as_str(), 1);
            }
        }
        for cluster in self.shared.members().keys() {
            let namespace = names::hub_namespace(cluster);
            if let Some((excess, refused)) = self.shared.roster.excess(cluster) {
                count("ServiceOffer", refused.reason.as_str(), excess);
            }
            let offers = self.shared.offers.within(&namespace);
            let mut good = Vec::new();
            for offer in &offers {
                match origin::check_offer(cluster, offer) {
                    Ok(()) => good.push(offer.name_any()),
                    Err(refused) => count("ServiceOffer", refused.reason.as_str(), 1),
                }
            }
            good.sort();
            for slice in self.shared.hub_slices.within(&namespace) {
                let has_offer = |name: &str| good.binary_search_by(|offer| offer.as_str().cmp(name)).is_ok();
                if let Err(refused) = origin::check_slice(cluster, &slice, has_offer) {
                    count("EndpointSlice", refused.reason.as_str(), 1);
                }
            }
        }
        Gauge {
            name: "refused_objects",
            help: "Objects of members at the hub that are ignored at present, by kind and reason",
            labels: &["kind", "reason"],
            values,
        }
    }
}

fn by_dialect(name: &'static str, help: &'static str, kep: usize, mcs: usize) -> Gauge {
    let row = |edition, count: usize| (vec![dialect(edition).to_owned()], count as f64);
    Gauge {
        name,
        help,
        labels: &["dialect"],
        values: [row(Dialect::Kep, kep), row(Dialect::Mcs, mcs)].into(),
    }
}

const fn dialect(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Kep => "kep",
        Dialect::Mcs => "mcs",
    }
}

fn ours<E: Edition>(views: &EditionViews<E>) -> usize {
    let is_ours =
        |import: &E::Import| import.labels().get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER);
    views.imports.all().iter().filter(|import| is_ours(import)).count()
}

fn conflicts<E: Edition>(views: &EditionViews<E>) -> usize {
    let has_conflict = |export: &E::Export| E::conditions(export).iter().any(is_true_conflict);
    views.exports.all().iter().filter(|export| has_conflict(export)).count()
}

fn is_true_conflict(condition: &impl Stored) -> bool {
    condition.type_() == "Conflict" && condition.status() == "True"
}
