//! What the proxy counts, and what it can tell about its plan when asked.
//!
//! Names that begin with `kubeproxy_` are kube-proxy's, with the same meaning, so that its dashboards work. What is a state
//! (black holes, endpoints, clashes) is read from the plan at the moment of the scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tombolo_api::service::IpFamily;
use tombolo_model::routing::{Action, Nearness, Reason, Route, Routes, Tier};
use tombolo_nft::Forgotten;

use crate::engine::{Cause, SharedPlan, locked};
use crate::kernel::{Refused, Written, counter_place};
use crate::watch::{Changed, Pending};

type Labels<const N: usize> = [(&'static str, String); N];
/// As kube-proxy has them: by `ip_family`.
type ByFamily<M> = Family<Labels<1>, M, fn() -> M>;

/// Everything measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sync: ByFamily<Histogram>,
    full: ByFamily<Histogram>,
    partial: ByFamily<Histogram>,
    programming: ByFamily<Histogram>,
    event: Histogram,
    last: ByFamily<Gauge>,
    queued: ByFamily<Gauge>,
    service_changes: Counter,
    endpoint_changes: Counter,
    failures: ByFamily<Counter>,
    cleanup_failures: ByFamily<Counter>,
    forgetting: ByFamily<Histogram>,
    forgotten: ByFamily<Counter>,
    healthz: Family<Labels<1>, Counter>,
    livez: Family<Labels<1>, Counter>,
    resyncs: Family<Labels<1>, Counter>,
    elements: Counter,
    bytes: Counter,
    refused: Mutex<Refused>,
    state: Mutex<Option<(SharedPlan, Arc<Changed>)>>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            sync: ByFamily::new_with_constructor(usual),
            full: ByFamily::new_with_constructor(usual),
            partial: ByFamily::new_with_constructor(usual),
            programming: ByFamily::new_with_constructor(long),
            event: usual(),
            last: ByFamily::default(),
            queued: ByFamily::default(),
            service_changes: Counter::default(),
            endpoint_changes: Counter::default(),
            failures: ByFamily::default(),
            cleanup_failures: ByFamily::default(),
            forgetting: ByFamily::new_with_constructor(usual),
            forgotten: ByFamily::default(),
            healthz: Family::default(),
            livez: Family::default(),
            resyncs: Family::default(),
            elements: Counter::default(),
            bytes: Counter::default(),
            refused: Mutex::default(),
            state: Mutex::default(),
        }
    }
}

fn usual() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

/// From a quarter of a second to five minutes, as kube-proxy has them.
fn long() -> Histogram {
    Histogram::new([
        0.25, 0.5, 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 15., 20., 25., 30., 40., 50., 60., 120., 300.,
    ])
}

fn labels(family: IpFamily) -> Labels<1> {
    [("ip_family", family.to_string())]
}

/// Both families are written in one transaction, so what is true of it is true of both.
fn both() -> [Labels<1>; 2] {
    [IpFamily::V4, IpFamily::V6].map(labels)
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Makes them show in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        let like = registry.sub_registry_with_prefix("kubeproxy");
        like.register(
            "sync_proxy_rules_duration_seconds",
            "From deciding to the kernel's yes",
            inner.sync.clone(),
        );
        like.register(
            "sync_full_proxy_rules_duration_seconds",
            "The same, where all was compared",
            inner.full.clone(),
        );
        like.register(
            "sync_partial_proxy_rules_duration_seconds",
            "The same, where only changes were written",
            inner.partial.clone(),
        );
        like.register(
            "network_programming_duration_seconds",
            "From the change of endpoints (last-change-trigger-time) to the kernel's yes",
            inner.programming.clone(),
        );
        like.register("sync_proxy_rules_last_timestamp_seconds", "When last written", inner.last.clone());
        like.register(
            "sync_proxy_rules_last_queued_timestamp_seconds",
            "When last begun",
            inner.queued.clone(),
        );
        like.register(
            "sync_proxy_rules_service_changes",
            "Changes of Services",
            inner.service_changes.clone(),
        );
        like.register(
            "sync_proxy_rules_endpoint_changes",
            "Changes of slices",
            inner.endpoint_changes.clone(),
        );
        like.register(
            "sync_proxy_rules_nftables_sync_failures",
            "Writes that failed",
            inner.failures.clone(),
        );
        like.register(
            "sync_proxy_rules_nftables_cleanup_failures",
            "Times that chains which nobody needs could not be removed",
            inner.cleanup_failures.clone(),
        );
        like.register(
            "conntrack_reconciler_sync_duration_seconds",
            "How long it took to forget flows whose server is gone",
            inner.forgetting.clone(),
        );
        like.register(
            "conntrack_reconciler_deleted_entries",
            "Flows forgotten because their server is gone",
            inner.forgotten.clone(),
        );
        like.register("proxy_healthz", "Answers of /healthz by code", inner.healthz.clone());
        like.register("proxy_livez", "Answers of /livez by code", inner.livez.clone());
        let own = registry.sub_registry_with_prefix("tombolo_proxy");
        own.register(
            "event_to_commit_seconds",
            "From a watch event to the kernel's yes",
            inner.event.clone(),
        );
        own.register("resyncs", "Comparisons of all that is loaded, by cause", inner.resyncs.clone());
        own.register("elements_written", "Elements that came, went or changed", inner.elements.clone());
        own.register("bytes_written", "Bytes of transactions", inner.bytes.clone());
        registry.register_collector(Box::new(self.clone()));
    }

    /// Tells about a plan from now on.
    pub(crate) fn tell(&self, plan: &SharedPlan, changed: &Arc<Changed>) {
        *guard(&self.0.state) = Some((plan.clone(), changed.clone()));
    }

    pub(crate) fn note_sync(
        &self,
        pending: &Pending,
        written: &Written,
        resync: Option<Cause>,
        begin: Instant,
        now: Timestamp,
    ) {
        let (inner, took) = (&self.0, begin.elapsed());
        let kind = if resync.is_some() { &inner.full } else { &inner.partial };
        for labels in both() {
            inner.sync.get_or_create(&labels).observe(took.as_secs_f64());
            kind.get_or_create(&labels).observe(took.as_secs_f64());
            inner.last.get_or_create(&labels).set(now.as_second());
            let begun = now.as_second() - i64::try_from(took.as_secs()).unwrap_or_default();
            inner.queued.get_or_create(&labels).set(begun);
            inner.cleanup_failures.get_or_create(&labels).inc_by(u64::from(written.untidy));
        }
        if let Some(cause) = resync {
            inner.resyncs.get_or_create(&[("cause", cause.as_str().to_owned())]).inc();
        }
        // What was there before the proxy started says nothing about the proxy.
        if resync != Some(Cause::Start) {
            pending.since.iter().for_each(|since| inner.event.observe(since.elapsed().as_secs_f64()));
            for (family, trigger) in pending.triggers.iter().filter(|(_, trigger)| *trigger <= now) {
                let waited = now.duration_since(*trigger).as_secs_f64();
                inner.programming.get_or_create(&labels(*family)).observe(waited);
            }
        }
        inner.service_changes.inc_by(pending.service_changes);
        inner.endpoint_changes.inc_by(pending.endpoint_changes);
        inner.elements.inc_by(written.elements as u64);
        inner.bytes.inc_by(written.bytes as u64);
    }

    pub(crate) fn note_failure(&self) {
        for labels in both() {
            self.0.failures.get_or_create(&labels).inc();
        }
    }

    /// Flows were forgotten, in so much time.
    pub(crate) fn note_forgotten(&self, forgotten: Forgotten, took: Duration) {
        for (family, count) in [(IpFamily::V4, forgotten.v4), (IpFamily::V6, forgotten.v6)] {
            self.0.forgetting.get_or_create(&labels(family)).observe(took.as_secs_f64());
            self.0.forgotten.get_or_create(&labels(family)).inc_by(count as u64);
        }
    }

    pub(crate) fn note_probe(&self, live: bool, code: u16) {
        let family = if live { &self.0.livez } else { &self.0.healthz };
        family.get_or_create(&[("code", code.to_string())]).inc();
    }

    pub(crate) fn note_refused(&self, refused: Refused) {
        *guard(&self.0.refused) = refused;
    }
}

/// The values of one metric, by the values of its labels.
type Table = BTreeMap<Vec<String>, u64>;

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some((plan, changed)) = guard(&self.0.state).clone() else { return Ok(()) };
        let tables = Tables::read(&plan, &guard(&self.0.refused));
        let (_, services, endpoints) = changed.waiting();
        let single = |count: u64| Table::from([(Vec::new(), count)]);
        for (name, help, labels, table) in [
            (
                "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                "Service ports that drop traffic because this node has no endpoints",
                &["traffic_policy", "ip_family"][..],
                tables.no_local,
            ),
            ("kubeproxy_sync_proxy_rules_service_changes_pending", "Not written yet", &[], single(services)),
            (
                "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
                "Not written yet",
                &[],
                single(endpoints),
            ),
            (
                "tombolo_proxy_black_hole",
                "Frontends of a Service that refuse all traffic, and why",
                &["namespace", "service", "reason", "ip_family"],
                tables.black_holes,
            ),
            (
                "tombolo_proxy_endpoints",
                "Endpoints in use, by source cluster and what made them be chosen",
                &["source", "tier"],
                tables.endpoints,
            ),
            ("tombolo_proxy_clashes", "Frontends that several Services claim", &[], single(tables.clashes)),
        ] {
            encode(&mut encoder, name, help, labels, &table, MetricType::Gauge)?;
        }
        let labels = &["namespace", "service", "frontend", "why"];
        let help = "Packets of connections that were refused";
        encode(
            &mut encoder,
            "tombolo_proxy_refused_packets",
            help,
            labels,
            &tables.refused,
            MetricType::Counter,
        )
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    labels: &[&'static str],
    table: &Table,
    kind: MetricType,
) -> Result<(), fmt::Error> {
    let mut descriptor = encoder.encode_descriptor(name, help, None, kind)?;
    for (values, value) in table {
        let pairs: Vec<(&str, &str)> =
            labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
        let one = descriptor.encode_family(&pairs)?;
        match kind {
            MetricType::Counter => ConstCounter::new(*value).encode(one)?,
            _ => ConstGauge::new(*value as i64).encode(one)?,
        }
    }
    Ok(())
}

/// What can be read from the plan.
#[derive(Default)]
struct Tables {
    no_local: Table,
    black_holes: Table,
    endpoints: Table,
    refused: Table,
    clashes: u64,
}

impl Tables {
    fn read(plan: &SharedPlan, refused: &Refused) -> Self {
        let plan = locked(plan);
        let mut tables = Self { clashes: plan.clashes().count() as u64, ..Self::default() };
        for policy in ["internal", "external"] {
            for family in ["IPv4", "IPv6"] {
                tables.no_local.insert(vec![policy.to_owned(), family.to_owned()], 0);
            }
        }
        for (service, routes) in plan.services() {
            let name = [service.namespace.clone(), service.name.clone()];
            tables.no_local(routes);
            routes.routes.iter().for_each(|route| tables.route(&name, route, refused));
        }
        tables
    }

    /// Ports of Services, as kube-proxy counts them, however many addresses they have.
    fn no_local(&mut self, routes: &Routes) {
        let dropping = routes.routes.iter().filter_map(|route| match &route.action {
            Action::Drop(why) | Action::Reject(why) => Some((policy(*why)?, route)),
            Action::Balance(_) => None,
        });
        let ports: BTreeSet<_> = dropping
            .map(|(policy, Route { frontend, port_name, .. })| {
                (policy, frontend.family, port_name, frontend.protocol)
            })
            .collect();
        for (policy, family, ..) in ports {
            *self.no_local.entry(vec![policy.to_owned(), family.to_string()]).or_default() += 1;
        }
    }

    fn route(&mut self, name: &[String; 2], route: &Route, refused: &Refused) {
        let family = route.frontend.family.to_string();
        match &route.action {
            Action::Balance(balance) => {
                for backend in &balance.backends {
                    let source = backend.source.as_ref().map(ToString::to_string).unwrap_or_default();
                    *self.endpoints.entry(vec![source, tier(&balance.tier)]).or_default() += 1;
                }
            }
            Action::Reject(why) | Action::Drop(why) => {
                let labels = [&name[..], &[reason(*why).to_owned(), family]].concat();
                *self.black_holes.entry(labels).or_default() += 1;
                self.count(name, route, false, reason(*why), refused);
            }
        }
        if route.allowed_sources.is_some() {
            self.count(name, route, true, "source_ranges", refused);
        }
    }

    fn count(&mut self, name: &[String; 2], route: &Route, guarded: bool, why: &str, refused: &Refused) {
        let Some(packets) = refused.get(&counter_place(&route.frontend.claim(), guarded)) else { return };
        let address = route.frontend.address.map_or("node".to_owned(), |address| address.to_string());
        let frontend = format!("{} {address} {}", route.frontend.protocol, route.frontend.port);
        self.refused.insert([&name[..], &[frontend, why.to_owned()]].concat(), *packets);
    }
}

/// The traffic policy that leaves a frontend without endpoints.
const fn policy(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::NoLocalInternal => Some("internal"),
        Reason::NoLocalExternal => Some("external"),
        Reason::NoEndpoints | Reason::Topology => None,
    }
}

const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoEndpoints => "no_endpoints",
        Reason::NoLocalInternal => "no_local_internal",
        Reason::NoLocalExternal => "no_local_external",
        Reason::Topology => "topology",
    }
}

fn tier(tier: &Tier) -> String {
    match tier {
        Tier::All => "all",
        Tier::Local => "local",
        Tier::Near(Nearness::Node) => "node",
        Tier::Near(Nearness::Zone) => "zone",
        Tier::Near(Nearness::Region) => "region",
        Tier::Near(Nearness::Cluster) => "cluster",
        Tier::Topology(_) => "topology",
        Tier::Terminating => "terminating",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tombolo_model::routing::{Frontend, FrontendKind, Protocol};
    use tombolo_runtime::Key;

    use super::*;
    use crate::plan::Update;

    fn dropping(kind: FrontendKind, last: u8, port: u16, why: Reason) -> Route {
        let address = (kind != FrontendKind::NodePort).then(|| IpAddr::from([10, 96, 0, last]));
        Route {
            frontend: Frontend { kind, family: IpFamily::V4, address, protocol: Protocol::Tcp, port },
            port_name: port.to_string(),
            action: Action::Drop(why),
            from_this_node: None,
            masquerade: false,
            allowed_sources: None,
        }
    }

    #[test]
    fn a_port_of_a_service_that_has_no_local_endpoint_is_one_black_hole_whatever_addresses_it_has() {
        let (internal, external) = (Reason::NoLocalInternal, Reason::NoLocalExternal);
        let routes = vec![
            dropping(FrontendKind::ClusterIp, 1, 80, internal),
            dropping(FrontendKind::ClusterIp, 1, 443, internal),
            dropping(FrontendKind::ExternalIp, 2, 80, external),
            dropping(FrontendKind::LoadBalancer, 3, 80, external),
            Route { port_name: "80".to_owned(), ..dropping(FrontendKind::NodePort, 0, 30080, external) },
        ];
        let (plan, service) = (SharedPlan::default(), Key::new("default", "web"));
        let routes = Routes { routes, health_check: None };
        locked(&plan).load([Update { service, routes, serving: BTreeSet::new() }]);
        let tables = Tables::read(&plan, &Refused::new());
        let count = |policy: &str, family: &str| tables.no_local[&vec![policy.to_owned(), family.to_owned()]];
        assert_eq!((count("internal", "IPv4"), count("external", "IPv4")), (2, 1));
        assert_eq!((count("internal", "IPv6"), count("external", "IPv6")), (0, 0));
        let frontends: u64 = tables.black_holes.values().sum();
        assert_eq!(frontends, 5, "our own metric counts frontends");
    }
}
