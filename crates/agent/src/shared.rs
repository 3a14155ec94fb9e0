//! What all parts of the agent look at: one cache per kind and side, and which sources are alive.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{
    Dialect, HEARTBEAT, MEMBER_LABEL, Membership, OFFER_LABEL, ServiceOffer, ServiceRef,
};
use tombolo_model::hearing::Hearing;
use tombolo_model::liveness::{self, Contact, Patience};
use tombolo_model::{ClusterId, Policy, names};
use tombolo_runtime::{Cache, Key, Ledger, Queue, Signal, follow, follow_completely};

use crate::config::Config;
use crate::edition::Edition;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::reach::Reach;
use crate::roster::{Members, Roster};

/// The objects of the member and of the hub, as far as they are known.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) member: Client,
    pub(crate) hub: Client,
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) offers: Arc<Cache<ServiceOffer>>,
    pub(crate) hub_slices: Arc<Cache<EndpointSlice>>,
    /// The members' namespaces at the hub.
    places: Arc<Cache<Namespace>>,
    pub(crate) memberships: Arc<Cache<Membership>>,
    pub(crate) heartbeats: Arc<Cache<Lease>>,
    pub(crate) ledgers: Ledgers,
    pub(crate) roster: Arc<Roster>,
    /// One lease per source, in the member.
    pub(crate) source_leases: Arc<Cache<Lease>>,
    pub(crate) progress: Progress,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    heard: Signal<bool>,
    /// Whether the hub takes this cluster's heartbeats.
    pub(crate) reach: Reach,
    /// Whether this cluster's own heartbeat comes back from the hub.
    pub(crate) hub_ear: Ear,
    /// Whether the member's API server takes the leases of sources.
    pub(crate) own_ear: Ear,
    /// Who wants to know when the hub or the member's API server is back.
    returns: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    /// Told when the hub is found to be older than it was: nothing that was seen of it can be relied on.
    pub(crate) turned_back: Notify,
}

/// What this agent wrote: derived Services and imported slices in the member, offers and their slices at the hub.
pub(crate) struct Ledgers {
    pub(crate) services: Arc<Ledger>,
    pub(crate) slices: Arc<Ledger>,
    pub(crate) offers: Arc<Ledger>,
    pub(crate) hub_slices: Arc<Ledger>,
}

impl Shared {
    pub(crate) fn new(config: Config, member: Client, hub: Client, metrics: Metrics) -> Self {
        let (places, memberships) = (Cache::new(), Cache::new());
        let reach = Reach::new(config.dead_after, config.heartbeat + RECOVERY);
        let offers = Cache::grouped(|offer: &ServiceOffer| vec![by_name(&offer.name_any())]);
        let hub_slices = Cache::grouped(|slice| by_own_label(slice, OFFER_LABEL).into_iter().collect());
        let services = Cache::new();
        let slices = Cache::grouped(|slice| {
            let labels = [SERVICE_NAME_LABEL, Policy::KEP.import_label, Policy::MCS.import_label].into_iter();
            labels.filter_map(|label| by_own_label(slice, label)).collect()
        });
        let ledgers = Ledgers {
            services: Ledger::of(&services),
            slices: Ledger::of(&slices),
            offers: Ledger::of(&offers),
            hub_slices: Ledger::of(&hub_slices),
        };
        Self {
            ledgers,
            events: Events::new(member.clone(), config.clock.clone(), &config.identity),
            roster: Roster::new(&places, &memberships, &offers, config.limits.offers),
            hub_ear: Ear::new(config.heartbeat, config.dead_after),
            own_ear: Ear::new(renew_every(&config), config.dead_after),
            config,
            member,
            hub,
            services,
            slices,
            namespaces: Cache::new(),
            offers,
            hub_slices,
            places,
            memberships,
            heartbeats: Cache::new(),
            source_leases: Cache::new(),
            progress: Progress::default(),
            metrics,
            heard: Signal::new(false),
            reach,
            returns: Mutex::default(),
            turned_back: Notify::new(),
        }
    }

    /// Starts the watches, after everybody who listens has been made.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        tasks.spawn(follow(self.services.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow(self.slices.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow(self.namespaces.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow_completely(self.offers.clone(), Api::all(self.hub.clone()), all()));
        tasks.spawn(follow(self.hub_slices.clone(), Api::all(self.hub.clone()), all().labels(OFFER_LABEL)));
        tasks.spawn(follow(self.places.clone(), Api::all(self.hub.clone()), all().labels(MEMBER_LABEL)));
        tasks.spawn(follow(self.memberships.clone(), Api::all(self.hub.clone()), all()));
        let beats = all().fields(&format!("metadata.name={HEARTBEAT}"));
        tasks.spawn(follow(self.heartbeats.clone(), Api::all(self.hub.clone()), beats));
        let leases = Api::namespaced(self.member.clone(), &self.config.namespace);
        tasks.spawn(follow(self.source_leases.clone(), leases, all().labels(SOURCE_CLUSTER_LABEL)));
    }

    /// Calls `listener` whenever a server that did not answer does again.
    pub(crate) fn on_return(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Takes note of whether a server answered, given whether it did before.
    pub(crate) fn note_answer(&self, answers: &mut bool, now: bool) {
        if now && !*answers {
            self.returns.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|tell| tell());
        }
        *answers = now;
    }

    /// Lets go of everybody who listens.
    pub(crate) fn stop_telling(&self) {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.reach.stop_telling();
        self.services.stop_telling();
        self.slices.stop_telling();
        self.namespaces.stop_telling();
        self.offers.stop_telling();
        self.hub_slices.stop_telling();
        self.places.stop_telling();
        self.memberships.stop_telling();
        self.heartbeats.stop_telling();
        self.source_leases.stop_telling();
    }

    /// Waits until the member has been listed once: nothing is done on half a picture.
    pub(crate) async fn member_synced(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        self.namespaces.synced().await;
        self.source_leases.synced().await;
    }

    /// Whether the hub has been listed once.
    pub(crate) fn is_hub_synced(&self) -> bool {
        self.offers.is_synced()
            && self.hub_slices.is_synced()
            && self.places.is_synced()
            && self.memberships.is_synced()
            && self.heartbeats.is_synced()
    }

    pub(crate) async fn hub_synced(&self) {
        self.offers.synced().await;
        self.hub_slices.synced().await;
        self.places.synced().await;
        self.memberships.synced().await;
        self.heartbeats.synced().await;
    }

    /// Takes note that a heartbeat, sent at this time, has reached the hub.
    pub(crate) fn note_heartbeat(&self, sent: Instant) {
        self.heard.set(true);
        self.reach.note(sent);
    }

    /// Waits until a heartbeat has reached the hub.
    pub(crate) async fn heard(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        self.heard.wait_for(|heard| heard).await;
    }

    pub(crate) fn members(&self) -> Arc<Members> {
        self.roster.members()
    }

    /// The offers of one service that are what they claim to be, and count.
    pub(crate) fn offers_of(&self, dialect: Dialect, service: &ServiceRef) -> Vec<Arc<ServiceOffer>> {
        let mut offers = self.offers.group(&by_name(&names::offer(dialect, service)));
        offers.retain(|offer| self.roster.check_offer(offer));
        offers
    }

    /// The slices of one offer at the hub.
    pub(crate) fn offered_slices(&self, cluster: &ClusterId, offer: &str) -> Vec<Arc<EndpointSlice>> {
        self.hub_slices.group(&by_label(&names::hub_namespace(cluster), OFFER_LABEL, offer))
    }

    /// The member's slices with a label.
    pub(crate) fn labelled_slices(
        &self,
        namespace: &str,
        label: &str,
        value: &str,
    ) -> Vec<Arc<EndpointSlice>> {
        self.slices.group(&by_label(namespace, label, value))
    }
}

/// Makes a controller try at once again what failed, when a server is back.
pub(crate) fn hurry_on_return<T: Ord + Clone + Send + 'static>(shared: &Shared, queue: &Arc<Queue<T>>) {
    let queue = queue.clone();
    shared.on_return(move || queue.hurry());
}

/// How long clusters take, once they hear one another's heartbeats again, to renew leases and write slices.
const RECOVERY: Duration = Duration::from_secs(4);

/// How often the lease of a source that lives is renewed: not with every heartbeat, since in a large supercluster those
/// would be most of what is written, but often enough for one to fail.
fn renew_every(config: &Config) -> Duration {
    config.dead_after / 2
}

/// The group of everything with a name, in all namespaces.
fn by_name(name: &str) -> Key {
    Key::new("", name)
}

/// The group of everything with a label in a namespace.
fn by_label(namespace: &str, label: &str, value: &str) -> Key {
    Key::of_label(namespace, label, value)
}

fn by_own_label(slice: &EndpointSlice, label: &str) -> Option<Key> {
    let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
    slice.labels().get(label).map(|value| by_label(namespace, label, value))
}

/// For how long a server could be heard.
#[derive(Debug)]
pub(crate) struct Ear {
    start: Instant,
    period: Duration,
    long: Duration,
    hearing: Mutex<Hearing>,
}

impl Ear {
    /// One that expects a sign every `period`.
    fn new(period: Duration, long: Duration) -> Self {
        Self { start: Instant::now(), period, long, hearing: Mutex::default() }
    }

    /// The server gave a sign.
    pub(crate) fn hear(&self) {
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.hear(self.start.elapsed(), self.period, self.long);
    }

    pub(crate) fn contact(&self) -> Contact {
        let hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.contact(self.start.elapsed(), self.period)
    }
}

impl Shared {
    pub(crate) fn patience(&self) -> Patience {
        Patience { duration: self.config.dead_after, hold: self.config.hold }
    }

    pub(crate) fn renew_every(&self) -> Duration {
        renew_every(&self.config)
    }

    pub(crate) fn source_lease(&self, cluster: &ClusterId) -> Option<Arc<Lease>> {
        self.source_leases.get(&Key::new(self.config.namespace.clone(), names::source_lease(cluster)))
    }

    /// Calls `listener` whenever a source dies or comes back, but not for every renewal of its lease.
    pub(crate) fn on_death_or_return(&self, listener: impl Fn(&ClusterId) + Send + Sync + 'static) {
        let known_dead: Mutex<BTreeSet<ClusterId>> = Mutex::default();
        self.source_leases.listen(move |lease| {
            let Some(cluster) = source_of(lease) else { return };
            let dead = lease.spec.as_ref().is_some_and(liveness::is_released);
            let mut known = known_dead.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = if dead { known.insert(cluster.clone()) } else { known.remove(&cluster) };
            drop(known);
            if changed {
                listener(&cluster);
            }
        });
    }

    /// Whether the lease of a source says that it is dead.
    pub(crate) fn is_dead(&self, cluster: &ClusterId) -> bool {
        let lease = self.source_lease(cluster);
        lease.as_ref().and_then(|lease| lease.spec.as_ref()).is_some_and(liveness::is_released)
    }
}

/// The cluster that an object says it is from.
pub(crate) fn source_of<K: ResourceExt>(object: &K) -> Option<ClusterId> {
    object.labels().get(SOURCE_CLUSTER_LABEL)?.parse().ok()
}

/// The objects of one edition in the member.
pub(crate) struct EditionViews<E: Edition> {
    pub(crate) exports: Arc<Cache<E::Export>>,
    pub(crate) imports: Arc<Cache<E::Import>>,
    /// The imports that this agent wrote.
    pub(crate) ledger: Arc<Ledger>,
}

impl<E: Edition> EditionViews<E> {
    pub(crate) fn new() -> Self {
        let imports = Cache::new();
        Self { exports: Cache::new(), ledger: Ledger::of(&imports), imports }
    }

    pub(crate) fn follow(&self, shared: &Shared, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        tasks.spawn(follow(self.exports.clone(), Api::all(shared.member.clone()), all()));
        tasks.spawn(follow(self.imports.clone(), Api::all(shared.member.clone()), all()));
    }

    pub(crate) fn stop_telling(&self) {
        self.exports.stop_telling();
        self.imports.stop_telling();
    }

    pub(crate) async fn synced(&self) {
        self.exports.synced().await;
        self.imports.synced().await;
    }
}
