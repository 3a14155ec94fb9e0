//! Small stand-ins for kube-controller-manager, the scheduler and, on phantom nodes, the kubelet.
//!
//! They talk to the API through [`kube::Client`] and know nothing else, so the same code runs against the embedded server
//! and a real one. Each controller has a pure part that decides from a snapshot what is to be done, and a thin loop that
//! does it. All are level-triggered: what they do follows from what is there, not from how it came about, and when nothing
//! is to be done they write nothing.

mod catalogue;
mod deployment;
mod endpoint_slice;
mod fingerprint;
mod garbage;
mod moment;
mod namespace;
mod ownership;
mod phantom;
mod pod_state;
mod replica_set;
mod scheduler;
mod service_account;
mod stateful_set;

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tombolo_runtime::{Cache, Clock, Controller, follow, work};

use self::catalogue::Catalogue;

/// Who the API server sees writing.
const MANAGER: &str = "tombolo-controllers";

/// What the controllers need to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Published as `kube-root-ca.crt` in every namespace.
    pub authority: Option<String>,
    /// How many nodes to pretend. Pods on them get an address and look as if they ran.
    pub phantom_nodes: usize,
    /// Where conditions get their times from; best the clock of the cluster.
    pub clock: Clock,
    /// kube-controller-manager does its own work: only the scheduler and phantom nodes are stood in for.
    pub only_nodes: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { authority: None, phantom_nodes: 0, clock: Clock::wall(), only_nodes: false }
    }
}

impl Settings {
    pub fn with_authority(pem: String) -> Self {
        Self { authority: Some(pem), ..Self::default() }
    }
}

/// What controllers share: one client, and one cache per kind.
struct Shared {
    client: Client,
    clock: Clock,
    catalogue: Arc<Catalogue>,
    accounts: Arc<Cache<ServiceAccount>>,
    config_maps: Arc<Cache<ConfigMap>>,
    deployments: Arc<Cache<Deployment>>,
    namespaces: Arc<Cache<Namespace>>,
    nodes: Arc<Cache<Node>>,
    pods: Arc<Cache<Pod>>,
    replica_sets: Arc<Cache<ReplicaSet>>,
    revisions: Arc<Cache<ControllerRevision>>,
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
    stateful_sets: Arc<Cache<StatefulSet>>,
}

impl Shared {
    fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            catalogue: Arc::new(catalogue::new()),
            accounts: Cache::new(),
            config_maps: Cache::new(),
            deployments: Cache::new(),
            namespaces: Cache::new(),
            nodes: Cache::new(),
            pods: Cache::new(),
            replica_sets: Cache::new(),
            revisions: Cache::new(),
            services: Cache::new(),
            slices: Cache::new(),
            stateful_sets: Cache::new(),
        }
    }

    async fn synced(&self) {
        self.accounts.synced().await;
        self.config_maps.synced().await;
        self.deployments.synced().await;
        self.namespaces.synced().await;
        self.nodes.synced().await;
        self.pods.synced().await;
        self.replica_sets.synced().await;
        self.revisions.synced().await;
        self.services.synced().await;
        self.slices.synced().await;
        self.stateful_sets.synced().await;
    }
}

/// Runs all controllers until `stop` resolves. Returns early only when one of them breaks.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    start(client, &settings, &mut tasks);
    tokio::select! {
        () = stop => {}
        Some(ended) = tasks.join_next() => tracing::error!(?ended, "a controller ended by itself"),
    }
    tasks.shutdown().await;
}

fn start(client: Client, settings: &Settings, tasks: &mut JoinSet<()>) {
    let shared = Arc::new(Shared::new(client, settings.clock.clone()));
    begin(&shared, tasks, scheduler::Scheduler::new(&shared));
    if settings.phantom_nodes > 0 {
        begin(&shared, tasks, phantom::Phantoms::new(&shared, settings.phantom_nodes));
    }
    if !settings.only_nodes {
        manage(&shared, settings, tasks);
    }
    watch_all(&shared, tasks);
}

/// What kube-controller-manager does.
fn manage(shared: &Arc<Shared>, settings: &Settings, tasks: &mut JoinSet<()>) {
    begin(shared, tasks, deployment::Deployments::new(shared));
    begin(shared, tasks, endpoint_slice::EndpointSlices::new(shared));
    begin(shared, tasks, namespace::Namespaces::new(shared));
    begin(shared, tasks, replica_set::ReplicaSets::new(shared));
    begin(shared, tasks, stateful_set::StatefulSets::new(shared));
    begin(shared, tasks, service_account::ServiceAccounts::new(shared, settings.authority.clone()));
    collect_garbage(shared, tasks);
}

fn watch_all(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    // Of accounts and certificates only those with the one name matter that every namespace has.
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    watch(shared, tasks, &shared.accounts, named(service_account::ACCOUNT));
    watch(shared, tasks, &shared.config_maps, named(service_account::AUTHORITY));
    watch(shared, tasks, &shared.deployments, watcher::Config::default());
    watch(shared, tasks, &shared.namespaces, watcher::Config::default());
    watch(shared, tasks, &shared.nodes, watcher::Config::default());
    watch(shared, tasks, &shared.pods, watcher::Config::default());
    watch(shared, tasks, &shared.replica_sets, watcher::Config::default());
    watch(shared, tasks, &shared.revisions, watcher::Config::default());
    watch(shared, tasks, &shared.services, watcher::Config::default());
    watch(shared, tasks, &shared.slices, watcher::Config::default());
    watch(shared, tasks, &shared.stateful_sets, watcher::Config::default());
}

/// Lets a controller work as soon as all caches know what there is.
fn begin<C: Controller>(shared: &Arc<Shared>, tasks: &mut JoinSet<()>, controller: C) {
    let shared = shared.clone();
    tasks.spawn(async move {
        shared.synced().await;
        drop(shared);
        work(controller).await;
    });
}

/// Starts the watch behind a cache, after everybody who listens to it has been made.
fn watch<K>(shared: &Shared, tasks: &mut JoinSet<()>, cache: &Arc<Cache<K>>, config: watcher::Config)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::all(shared.client.clone());
    tasks.spawn(follow(cache.clone(), api, config));
}

fn collect_garbage(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    let collector = garbage::Collector::new(shared);
    tasks.spawn(catalogue::maintain(shared.client.clone(), shared.catalogue.clone()));
    tasks.spawn(collector.observe());
    begin(shared, tasks, collector);
}

fn write_params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}
