//! A hub and its members: API servers, agents, the links between them, and an observer that no fault reaches.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tombolo_agent::{Agent, Config};
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::{MEMBER_LABEL, Membership, OFFER_LABEL, POD_CIDRS_ANNOTATION, ServiceOffer};
use tombolo_api::{crd, kep, mcs};
use tombolo_apiserver::{Backup, Clock, Cluster, Entropy, Options, User};
use tombolo_model::names;
use tombolo_runtime::{Cache, Key, follow};
use tombolo_testkit::Faults;

use crate::controllers::Controllers;

const EPOCH: &str = "2026-01-01T00:00:00Z";
/// Clocks of different machines differ by up to this many seconds.
const SKEW: i64 = 3600;
/// The families a cluster may have, and where its Services get their addresses. The first is the hub's.
const NETWORKS: [(&[IpFamily], &[&str]); 3] = [
    (&[IpFamily::V4], &["10.96.0.0/16"]),
    (&[IpFamily::V4, IpFamily::V6], &["10.96.0.0/16", "fd00:96::/112"]),
    (&[IpFamily::V6], &["fd00:96::/112"]),
];

/// What a user who sees everything at once sees in a member.
pub(crate) struct Sight {
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) kep_exports: Arc<Cache<kep::ServiceExport>>,
    pub(crate) mcs_exports: Arc<Cache<mcs::ServiceExport>>,
    pub(crate) kep_imports: Arc<Cache<kep::ImportedService>>,
    pub(crate) mcs_imports: Arc<Cache<mcs::ServiceImport>>,
}

/// The same of the hub.
pub(crate) struct HubSight {
    pub(crate) offers: Arc<Cache<ServiceOffer>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    pub(crate) heartbeats: Arc<Cache<Lease>>,
    pub(crate) memberships: Arc<Cache<Membership>>,
}

/// One cluster.
pub(crate) struct Member {
    pub(crate) config: Config,
    /// The clock of its API server; the agent's own is in its configuration.
    pub(crate) server_clock: Clock,
    pub(crate) cluster: Cluster,
    /// Between the agent and the hub.
    pub(crate) hub_link: Faults,
    /// Between the agent and its own API server.
    pub(crate) own_link: Faults,
    agent: Option<JoinHandle<()>>,
    /// A former leader that does not know yet that it is none any more.
    former: Option<JoinHandle<()>>,
    pub(crate) sight: Sight,
    /// It is a member no more, or not yet again.
    pub(crate) has_left: bool,
    /// What its kube-controller-manager knows, while it runs.
    pub(crate) controllers: Controllers,
    /// One of its links is out.
    pub(crate) is_cut: bool,
    /// Requests go wrong on one of its links.
    pub(crate) is_spoiled: bool,
    /// Since when the agent runs and neither of its links is out.
    pub(crate) unobstructed: Option<Instant>,
    /// Since when there is, moreover, no fault at all.
    pub(crate) clean: Option<Instant>,
}

/// The supercluster.
pub(crate) struct World {
    pub(crate) hub: Cluster,
    pub(crate) hub_sight: HubSight,
    pub(crate) members: Vec<Member>,
    hub_observers: JoinSet<()>,
    _observers: JoinSet<()>,
}

fn options(name: &str, network: usize, entropy: Entropy, clock: Clock) -> Options {
    let service_cidrs = NETWORKS[network].1.iter().map(|cidr| cidr.parse().unwrap()).collect();
    Options { clock, entropy, service_cidrs, ..Options::named(name) }
}

fn cluster(name: &str, network: usize, seed: u64, clock: Clock) -> Cluster {
    let cluster = Cluster::new(options(name, network, Entropy::seeded(seed), clock));
    cluster.restore(prepared(network));
    cluster
}

/// A cluster with our definitions and nothing else. Reading them takes longer than many a run, so it is done once.
fn prepared(network: usize) -> &'static Backup {
    static PREPARED: [OnceLock<Backup>; 3] = [const { OnceLock::new() }; 3];
    PREPARED[network].get_or_init(|| std::thread::spawn(move || prepare(network)).join().unwrap())
}

/// In a runtime of its own, so that the first run of a process is like all others.
fn prepare(network: usize) -> Backup {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::starting_at(EPOCH.parse().unwrap());
        let cluster = Cluster::new(options("prepared", network, Entropy::seeded(0), clock));
        for definition in crd::crds() {
            let _ = Api::all(cluster.client())
                .create(&PostParams::default(), &loosened(definition))
                .await
                .unwrap();
        }
        cluster.backup()
    })
}

/// The definition of offers as some other version of it might be: one that lets anything pass.
fn loosened<K: Serialize + DeserializeOwned + ResourceExt>(definition: K) -> K {
    if !definition.name_any().starts_with("serviceoffers") {
        return definition;
    }
    let mut value = json!(definition);
    for version in value["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    serde_json::from_value(value).unwrap()
}

async fn make_namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

/// A member's namespace at the hub, as `tombolo join` makes it.
async fn make_place(hub: &Client, member: &Config) {
    let mut place = Namespace::default();
    place.metadata.name = Some(names::hub_namespace(&member.cluster));
    place.labels_mut().insert(MEMBER_LABEL.to_owned(), member.cluster.to_string());
    place.annotations_mut().insert(POD_CIDRS_ANNOTATION.to_owned(), member.pod_cidrs.join(","));
    Api::all(hub.clone()).create(&PostParams::default(), &place).await.unwrap();
}

fn watch<K>(tasks: &mut JoinSet<()>, client: &Client) -> Arc<Cache<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let cache = Cache::new();
    tasks.spawn(follow(cache.clone(), Api::all(client.clone()), watcher::Config::default()));
    cache
}

impl Sight {
    fn of(tasks: &mut JoinSet<()>, client: &Client) -> Self {
        Self {
            services: watch(tasks, client),
            slices: watch(tasks, client),
            namespaces: watch(tasks, client),
            kep_exports: watch(tasks, client),
            mcs_exports: watch(tasks, client),
            kep_imports: watch(tasks, client),
            mcs_imports: watch(tasks, client),
        }
    }
}

impl HubSight {
    fn new() -> Self {
        Self {
            offers: Cache::new(),
            slices: Cache::new(),
            heartbeats: Cache::new(),
            memberships: Cache::new(),
        }
    }

    fn follow(&self, client: &Client) -> JoinSet<()> {
        let (mut tasks, all) = (JoinSet::new(), watcher::Config::default);
        tasks.spawn(follow(self.offers.clone(), Api::all(client.clone()), all()));
        tasks.spawn(follow(self.slices.clone(), Api::all(client.clone()), all().labels(OFFER_LABEL)));
        let beats = all().fields("metadata.name=heartbeat");
        tasks.spawn(follow(self.heartbeats.clone(), Api::all(client.clone()), beats));
        tasks.spawn(follow(self.memberships.clone(), Api::all(client.clone()), all()));
        tasks
    }
}

impl World {
    /// `size` members `a`, `b`, …, each with the namespace `demo`, no agent running yet.
    pub(crate) async fn new(size: usize, dice: &mut fastrand::Rng) -> Self {
        let mut observers = JoinSet::new();
        let hub = cluster("hub", 0, dice.u64(..), Clock::starting_at(EPOCH.parse().unwrap()));
        let names: Vec<String> =
            (0..size).map(|place| char::from(b'a' + u8::try_from(place).unwrap()).to_string()).collect();
        let hub_sight = HubSight::new();
        let hub_observers = hub_sight.follow(&hub.client());
        let mut members = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let member = Member::new(name, place, dice, &mut observers).await;
            make_place(&hub.client(), &member.config).await;
            members.push(member);
        }
        Self { hub, hub_sight, members, hub_observers, _observers: observers }
    }

    /// Starts the agent of a member, unless it runs.
    pub(crate) fn start(&mut self, place: usize) {
        let member = &mut self.members[place];
        if member.agent.is_some() {
            return;
        }
        let hub = member.hub_link.client(&self.hub, User::admin());
        let own = member.own_link.client(&member.cluster, User::admin());
        let agent = Agent::new(member.config.clone(), own, hub);
        member.agent = Some(tokio::spawn(agent.run(std::future::pending())));
    }

    /// Kills the agents of a member without a word.
    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(agent) = self.members[place].agent.take() {
            agent.abort();
        }
        self.retire(place);
    }

    /// Another process takes over while the former leader still works.
    pub(crate) fn take_over(&mut self, place: usize) {
        self.retire(place);
        self.members[place].former = self.members[place].agent.take();
        self.start(place);
    }

    /// The former leader stops.
    pub(crate) fn retire(&mut self, place: usize) {
        if let Some(agent) = self.members[place].former.take() {
            agent.abort();
        }
    }

    /// Takes everything away that a member said at the hub.
    pub(crate) async fn clear_place(&self, place: usize) {
        let namespace = names::hub_namespace(&self.members[place].config.cluster);
        clear::<Membership>(&self.hub, &namespace).await;
        clear::<ServiceOffer>(&self.hub, &namespace).await;
        clear::<EndpointSlice>(&self.hub, &namespace).await;
        clear::<Lease>(&self.hub, &namespace).await;
    }

    /// The clusters that are members at present.
    pub(crate) fn joined(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.has_left)
    }

    /// The hub goes back to a backup. The observer is told, as an operator would tell everybody.
    pub(crate) fn restore_hub(&mut self, backup: &Backup) {
        self.hub.restore(backup);
        self.hub_observers = self.hub_sight.follow(&self.hub.client());
    }
}

async fn clear<K>(hub: &Cluster, namespace: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(hub.client(), namespace);
    // Some of it cannot be read.
    for object in api.list_metadata(&Default::default()).await.unwrap() {
        let gone = api.delete(&object.name_any(), &DeleteParams::default()).await;
        assert!(gone.is_ok(), "{gone:?}");
    }
}

impl Member {
    async fn new(name: &str, place: usize, dice: &mut fastrand::Rng, observers: &mut JoinSet<()>) -> Self {
        let epoch: Timestamp = EPOCH.parse().unwrap();
        let mut skewed = || {
            let skew = u64::try_from(dice.i64(0..SKEW)).unwrap();
            Clock::starting_at(epoch + Duration::from_secs(skew))
        };
        let (server_clock, clock) = (skewed(), skewed());
        // Most clusters have IPv4 only.
        let network = [0, 0, 1, 2][dice.usize(0..4)];
        let cluster = cluster(name, network, dice.u64(..), server_clock.clone());
        make_namespace(&cluster.client(), "demo").await;
        let families = NETWORKS[network].0;
        let config = Config {
            pod_cidrs: families.iter().map(|family| pod_cidr(place, *family)).collect(),
            ip_families: families.to_vec(),
            clock,
            ..Config::new(name.parse().unwrap(), format!("identity-{name}"))
        };
        let sight = Sight::of(observers, &cluster.client());
        let (hub_link, own_link) = (Faults::seeded(dice.u64(..)), Faults::seeded(dice.u64(..)));
        Self {
            config,
            server_clock,
            cluster,
            hub_link,
            own_link,
            agent: None,
            former: None,
            sight,
            has_left: false,
            controllers: Controllers::default(),
            is_cut: false,
            is_spoiled: false,
            unobstructed: None,
            clean: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.config.cluster.as_str()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.agent.is_some()
    }

    pub(crate) fn has_two_leaders(&self) -> bool {
        self.former.is_some()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), namespace)
    }

    /// Does what a user does with `kubectl apply`.
    pub(crate) async fn apply<K>(&self, key: &Key, value: &Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let params = PatchParams::apply("user").force();
        self.api::<K>(&key.namespace).patch(&key.name, &params, &Patch::Apply(value)).await.unwrap();
    }

    /// Changes an object if it is there.
    pub(crate) async fn edit<K>(&self, key: &Key, patch: &Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>(&key.namespace);
        let edited = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        assert!(edited.is_ok() || edited.as_ref().is_err_and(tombolo_runtime::is_not_found), "{edited:?}");
    }

    /// Deletes an object if it is there.
    pub(crate) async fn delete<K>(&self, key: &Key)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let gone = self.api::<K>(&key.namespace).delete(&key.name, &DeleteParams::default()).await;
        assert!(gone.is_ok() || gone.as_ref().is_err_and(tombolo_runtime::is_not_found), "{gone:?}");
    }

    pub(crate) async fn get<K>(&self, key: &Key) -> Value
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        json!(self.api::<K>(&key.namespace).get_opt(&key.name).await.unwrap())
    }
}

/// Where a member's pods have their addresses.
fn pod_cidr(place: usize, family: IpFamily) -> String {
    match family {
        IpFamily::V4 => format!("10.{}.0.0/16", place + 1),
        IpFamily::V6 => format!("fd00:{}::/32", place + 1),
    }
}

/// Namespaces.
impl Member {
    pub(crate) async fn make_namespace(&self, name: &str) {
        make_namespace(&self.cluster.client(), name).await;
    }

    /// Whether there is a namespace that is not on its way out.
    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        let found = self.sight.namespaces.get(&Key::new("", name));
        found.is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    }

    pub(crate) fn is_namespace_free(&self, name: &str) -> bool {
        self.sight.namespaces.get(&Key::new("", name)).is_none()
    }

    pub(crate) async fn delete_namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.cluster.client());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
