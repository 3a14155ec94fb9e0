//! What a balancer measures.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tombolo_model::balancer::Phase;

type Labels = [(&'static str, String); 1];

/// Everything measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    phases: Family<Labels, Gauge>,
    degraded: Gauge,
    assigned: Family<Labels, Gauge>,
    writes: Counter,
    announced: Gauge,
    answers: Family<Labels, Counter>,
    announcements: Family<Labels, Counter>,
    rivals: Counter,
    links: Gauge,
}

impl Metrics {
    /// Makes them show in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("tombolo_balancer");
        registry.register(
            "services",
            "LoadBalancer Services by phase, at the provider that leads",
            self.phases.clone(),
        );
        registry.register(
            "degraded_services",
            "Services served with less than they ask for",
            self.degraded.clone(),
        );
        registry.register("assigned_addresses", "Addresses in use, by pool", self.assigned.clone());
        registry.register("status_writes", "Statuses of Services written", self.writes.clone());
        registry.register("announced_addresses", "Addresses this node answers for", self.announced.clone());
        registry.register(
            "links",
            "Links this node answers on; with none it leaves all addresses to others",
            self.links.clone(),
        );
        registry.register("answers", "Questions for link addresses answered, by link", self.answers.clone());
        registry.register(
            "announcements",
            "Addresses announced unasked, by link",
            self.announcements.clone(),
        );
        registry.register(
            "rivals",
            "Times somebody else announced an address of this node",
            self.rivals.clone(),
        );
    }

    pub(crate) fn note_phases<'a>(&self, phases: impl Iterator<Item = (&'a Phase, bool)>) {
        let (mut counts, mut degraded) = ([0; 6], 0);
        for (phase, less) in phases {
            counts[place(phase)] += 1;
            degraded += i64::from(less);
        }
        for (word, count) in WORDS.iter().zip(counts) {
            self.phases.get_or_create(&[("phase", (*word).to_owned())]).set(count);
        }
        self.degraded.set(degraded);
    }

    pub(crate) fn note_assigned(&self, pool: &str, count: usize) {
        self.assigned.get_or_create(&[("pool", pool.to_owned())]).set(count as i64);
    }

    pub(crate) fn forget_pool(&self, pool: &str) {
        self.assigned.remove(&[("pool", pool.to_owned())]);
    }

    pub(crate) fn count_write(&self) {
        self.writes.inc();
    }

    pub(crate) fn note_announced(&self, count: usize) {
        self.announced.set(count as i64);
    }

    pub(crate) fn count_answer(&self, link: &str) {
        self.answers.get_or_create(&[("link", link.to_owned())]).inc();
    }

    pub(crate) fn count_announcement(&self, link: &str) {
        self.announcements.get_or_create(&[("link", link.to_owned())]).inc();
    }

    pub(crate) fn note_links(&self, count: usize) {
        self.links.set(count as i64);
    }

    pub(crate) fn count_rival(&self) {
        self.rivals.inc();
    }

    /// How often a status was written.
    pub fn writes(&self) -> u64 {
        self.writes.get()
    }
}

const WORDS: [&str; 6] = ["serving", "building", "rebuilding", "stuck", "refused", "failed"];

fn place(phase: &Phase) -> usize {
    match phase {
        Phase::Serving => 0,
        Phase::Building => 1,
        Phase::Rebuilding => 2,
        Phase::Stuck(_) => 3,
        Phase::Refused(_) => 4,
        Phase::Failed(_) => 5,
    }
}
