//! What all parts of the hub look at: one cache per kind, and who is a member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;
use tombolo_api::condition;
use tombolo_api::karmada::SYSTEM_LABEL;
use tombolo_api::karmada::cluster::{Cluster, ClusterCondition};
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{HEARTBEAT, MANAGED_BY_LABEL, MANAGER, MEMBER_LABEL, Membership, STATEMENT};
use tombolo_model::multi_cluster_service::{Member, service_of};
use tombolo_model::{ClusterId, names, origin};
use tombolo_runtime::{Cache, Events, Key, follow};

use crate::config::Config;
use crate::ear::Ear;
use crate::mark;
use crate::metrics::Metrics;
use crate::settled::Settled;

/// Who the API server sees writing.
pub(crate) const WRITER: &str = "tombolo-hub";

/// The objects of the hub, as far as they are known.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) clusters: Arc<Cache<Cluster>>,
    pub(crate) memberships: Arc<Cache<Membership>>,
    /// Those of clusters, and the hub's own.
    pub(crate) heartbeats: Arc<Cache<Lease>>,
    pub(crate) ear: Arc<Ear>,
    pub(crate) settled: Arc<Settled>,
    /// The members' own namespaces.
    pub(crate) places: Arc<Cache<Namespace>>,
    /// Execution namespaces.
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) objects: Arc<Cache<MultiClusterService>>,
    pub(crate) services: Arc<Cache<Service>>,
    /// Grouped by the MultiClusterService they are for.
    pub(crate) works: Arc<Cache<Work>>,
    /// The identities of the members that are reached into, as soon as they have said them.
    pushed: Mutex<BTreeMap<String, String>>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(config: Config, client: Client, metrics: Metrics) -> Self {
        let works = Cache::grouped(|work: &Work| service_key(work).into_iter().collect());
        let (clusters, heartbeats) = (Cache::new(), Cache::new());
        Self {
            settled: Settled::new(config.dead_after, &heartbeats, &clusters),
            ear: Arc::new(Ear::new(mark::RENEW_EVERY, config.dead_after)),
            events: Events::new(client.clone(), config.clock.clone(), WRITER, &config.instance),
            config,
            client,
            clusters,
            memberships: Cache::new(),
            heartbeats,
            places: Cache::new(),
            namespaces: Cache::new(),
            objects: Cache::new(),
            services: Cache::new(),
            works,
            pushed: Mutex::default(),
            metrics,
        }
    }

    /// Starts the watches, after everybody who listens has been made.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        let client = || self.client.clone();
        tasks.spawn(follow(self.clusters.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.memberships.clone(), Api::all(client()), all()));
        let beats = all().fields(&format!("metadata.name={HEARTBEAT}"));
        tasks.spawn(follow(self.heartbeats.clone(), Api::all(client()), beats));
        tasks.spawn(follow(self.places.clone(), Api::all(client()), all().labels(MEMBER_LABEL)));
        tasks.spawn(follow(self.namespaces.clone(), Api::all(client()), all().labels(SYSTEM_LABEL)));
        tasks.spawn(follow(self.objects.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.services.clone(), Api::all(client()), all()));
        let ours = all().labels(&format!("{MANAGED_BY_LABEL}={MANAGER}"));
        tasks.spawn(follow(self.works.clone(), Api::all(client()), ours));
    }

    /// Waits until everything has been listed once: nothing is done on half a picture.
    pub(crate) async fn synced(&self) {
        self.clusters.synced().await;
        self.memberships.synced().await;
        self.heartbeats.synced().await;
        self.places.synced().await;
        self.namespaces.synced().await;
        self.objects.synced().await;
        self.services.synced().await;
        self.works.synced().await;
    }

    pub(crate) fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.get(&Key::new("", name))
    }

    /// What a cluster states about itself, if it is what it claims to be.
    pub(crate) fn membership(&self, cluster: &ClusterId) -> Option<Arc<Membership>> {
        let found = self.memberships.get(&Key::new(names::hub_namespace(cluster), STATEMENT))?;
        (origin::check_membership(&found).as_ref() == Ok(cluster)).then_some(found)
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.get(&Key::new("", name))
    }

    /// The members: clusters of ours that are not leaving and have a place for their Works.
    pub(crate) fn members(&self) -> BTreeMap<ClusterId, Member> {
        let clusters = self.clusters.all();
        let ours = clusters.iter().filter(|cluster| self.is_ours(cluster));
        ours.filter_map(|cluster| self.member(cluster)).collect()
    }

    fn member(&self, cluster: &Cluster) -> Option<(ClusterId, Member)> {
        let id: ClusterId = cluster.name_any().parse().ok()?;
        let namespace = self.namespace(&names::execution_namespace(&id)?)?;
        let leaving =
            cluster.metadata.deletion_timestamp.is_some() || namespace.metadata.deletion_timestamp.is_some();
        let place = self.places.get(&Key::new("", names::hub_namespace(&id)));
        let declared = origin::declared(place.as_deref(), self.membership(&id).as_deref());
        let ready = is_ready(cluster);
        let settled = ready && self.settled.is(&id);
        (!leaving).then_some((id, Member { ready, settled, declared }))
    }

    pub(crate) fn is_pushed(&self, cluster: &ClusterId) -> bool {
        self.config.push.iter().any(|member| member.cluster == *cluster)
    }

    pub(crate) fn pushed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        locked(&self.pushed)
    }
}

/// The MultiClusterService that a Work is for.
pub(crate) fn service_key(work: &Work) -> Option<Key> {
    service_of(work).map(|service| Key::new(service.namespace, service.name))
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a Cluster says that it is ready.
pub(crate) fn is_ready(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    condition::is_true(conditions.unwrap_or_default(), ClusterCondition::Ready)
}
