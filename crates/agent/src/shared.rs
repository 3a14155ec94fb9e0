//! What all parts of the agent look at: one cache per kind and side, and which sources are alive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{Dialect, Membership, OFFER_LABEL, ServiceOffer, ServiceRef};
use tombolo_model::address::Declared;
use tombolo_model::liveness::{self, Contact, Patience};
use tombolo_model::{ClusterId, names, origin};
use tombolo_runtime::{Cache, Key, follow};

use crate::config::Config;
use crate::edition::Edition;
use crate::membership::HEARTBEAT;
use crate::metrics::Metrics;
use crate::progress::Progress;

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
    pub(crate) memberships: Arc<Cache<Membership>>,
    pub(crate) heartbeats: Arc<Cache<Lease>>,
    /// One lease per source, in the member.
    pub(crate) source_leases: Arc<Cache<Lease>>,
    pub(crate) progress: Progress,
    pub(crate) metrics: Metrics,
    heard: watch::Sender<bool>,
    /// Whether the hub answers.
    pub(crate) hub_contact: LastHeard,
    /// Whether the member's API server takes the leases of sources.
    pub(crate) own_contact: LastHeard,
}

impl Shared {
    pub(crate) fn new(config: Config, member: Client, hub: Client, metrics: Metrics) -> Self {
        Self {
            config,
            member,
            hub,
            services: Cache::new(),
            slices: Cache::new(),
            namespaces: Cache::new(),
            offers: Cache::new(),
            hub_slices: Cache::new(),
            memberships: Cache::new(),
            heartbeats: Cache::new(),
            source_leases: Cache::new(),
            progress: Progress::default(),
            metrics,
            heard: watch::Sender::new(false),
            hub_contact: LastHeard::default(),
            own_contact: LastHeard::default(),
        }
    }

    /// Starts the watches, after everybody who listens has been made.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        tasks.spawn(follow(self.services.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow(self.slices.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow(self.namespaces.clone(), Api::all(self.member.clone()), all()));
        tasks.spawn(follow(self.offers.clone(), Api::all(self.hub.clone()), all()));
        tasks.spawn(follow(self.hub_slices.clone(), Api::all(self.hub.clone()), all().labels(OFFER_LABEL)));
        tasks.spawn(follow(self.memberships.clone(), Api::all(self.hub.clone()), all()));
        let beats = all().fields(&format!("metadata.name={HEARTBEAT}"));
        tasks.spawn(follow(self.heartbeats.clone(), Api::all(self.hub.clone()), beats));
        let leases = Api::namespaced(self.member.clone(), &self.config.namespace);
        tasks.spawn(follow(self.source_leases.clone(), leases, all().labels(SOURCE_CLUSTER_LABEL)));
    }

    /// Waits until everything has been listed once on both sides: nothing is done on half a picture.
    pub(crate) async fn synced(&self) {
        self.member_synced().await;
        self.hub_synced().await;
    }

    pub(crate) async fn member_synced(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        self.namespaces.synced().await;
        self.source_leases.synced().await;
    }

    pub(crate) async fn hub_synced(&self) {
        self.offers.synced().await;
        self.hub_slices.synced().await;
        self.memberships.synced().await;
        self.heartbeats.synced().await;
    }

    /// Takes note that a heartbeat has reached the hub.
    pub(crate) fn note_heartbeat(&self) {
        self.heard.send_replace(true);
    }

    /// Waits until a heartbeat has reached the hub.
    pub(crate) async fn heard(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.heard.subscribe().wait_for(|heard| *heard).await;
    }

    /// The members at the hub, each in its own namespace, with what they declare.
    pub(crate) fn members(&self) -> BTreeMap<ClusterId, Arc<Membership>> {
        let all = self.memberships.all().into_iter();
        all.filter_map(|membership| Some((origin::check_membership(&membership).ok()?, membership))).collect()
    }

    /// The offers of one service that are what they claim to be.
    pub(crate) fn offers_of(&self, dialect: Dialect, service: &ServiceRef) -> Vec<Arc<ServiceOffer>> {
        let members = self.members();
        let name = names::offer(dialect, service);
        let place = |cluster: &ClusterId| Key::new(names::hub_namespace(cluster), name.clone());
        let found = members.keys().filter_map(|cluster| {
            let offer = self.offers.get(&place(cluster))?;
            origin::check_offer(cluster, &offer).ok()?;
            Some(offer)
        });
        found.collect()
    }

    /// The slices of one offer at the hub.
    pub(crate) fn slices_of(&self, cluster: &ClusterId, offer: &str) -> Vec<Arc<EndpointSlice>> {
        let namespace = names::hub_namespace(cluster);
        let all = self.hub_slices.within(&namespace).into_iter();
        all.filter(|slice| origin::check_slice(cluster, slice, |name| name == offer).is_ok()).collect()
    }

    /// The region a member declares to be in.
    pub(crate) fn region(&self, cluster: &ClusterId) -> Option<String> {
        self.members().get(cluster)?.spec.region.clone()
    }

    /// The addresses a member may have endpoints at.
    pub(crate) fn declared(&self, cluster: &ClusterId) -> Declared {
        let members = self.members();
        let cidrs =
            members.get(cluster).map(|membership| membership.spec.pod_cidrs.clone()).unwrap_or_default();
        Declared::read(&cidrs).0
    }
}

/// When a server was last heard.
#[derive(Debug, Default)]
pub(crate) struct LastHeard(Mutex<Heard>);

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    since: Option<Instant>,
    last: Option<Instant>,
    lost: bool,
}

impl LastHeard {
    /// Takes note of whether the server answered.
    pub(crate) fn note(&self, heard: bool, now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard {
            if state.lost || state.since.is_none() {
                state.since = Some(now);
            }
            state.last = Some(now);
        }
        state.lost = !heard;
    }

    /// The contact with the server, as time since `start`.
    pub(crate) fn contact(&self, start: Instant) -> Contact {
        let state = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |moment: Option<Instant>| {
            moment.map_or(Duration::ZERO, |moment| moment.saturating_duration_since(start))
        };
        Contact { since: at(state.since), lost: state.lost.then(|| at(state.last)) }
    }
}

impl Shared {
    pub(crate) fn patience(&self) -> Patience {
        Patience { duration: self.config.dead_after, hold: self.config.hold }
    }

    pub(crate) fn source_lease(&self, cluster: &ClusterId) -> Option<Arc<Lease>> {
        self.source_leases.get(&Key::new(self.config.namespace.clone(), names::source_lease(cluster)))
    }

    /// Calls `listener` whenever a source dies or comes back, but not for every renewal of its lease.
    pub(crate) fn on_death_or_return(&self, listener: impl Fn(&ClusterId) + Send + Sync + 'static) {
        let known_dead: Mutex<BTreeSet<ClusterId>> = Mutex::default();
        self.source_leases.listen(move |lease| {
            let label = lease.labels().get(SOURCE_CLUSTER_LABEL);
            let Some(cluster): Option<ClusterId> = label.and_then(|label| label.parse().ok()) else { return };
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

/// The objects of one edition in the member.
pub(crate) struct EditionViews<E: Edition> {
    pub(crate) exports: Arc<Cache<E::Export>>,
    pub(crate) imports: Arc<Cache<E::Import>>,
}

impl<E: Edition> EditionViews<E> {
    pub(crate) fn new() -> Self {
        Self { exports: Cache::new(), imports: Cache::new() }
    }

    pub(crate) fn follow(&self, shared: &Shared, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        tasks.spawn(follow(self.exports.clone(), Api::all(shared.member.clone()), all()));
        tasks.spawn(follow(self.imports.clone(), Api::all(shared.member.clone()), all()));
    }

    pub(crate) async fn synced(&self) {
        self.exports.synced().await;
        self.imports.synced().await;
    }
}
