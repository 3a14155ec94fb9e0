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
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tombolo_agent::{Agent, Config};
use tombolo_api::tombolo::{OFFER_LABEL, ServiceOffer};
use tombolo_api::{crd, kep, mcs};
use tombolo_apiserver::{Backup, Clock, Cluster, Entropy, Options, User};
use tombolo_runtime::{Cache, Key, follow};
use tombolo_testkit::Faults;

const EPOCH: &str = "2026-01-01T00:00:00Z";
/// Clocks of different machines differ by up to this many seconds.
const SKEW: i64 = 3600;

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
}

/// One cluster.
pub(crate) struct Member {
    pub(crate) config: Config,
    cluster: Cluster,
    /// Between the agent and the hub.
    pub(crate) hub_link: Faults,
    /// Between the agent and its own API server.
    pub(crate) own_link: Faults,
    agent: Option<JoinHandle<()>>,
    pub(crate) sight: Sight,
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
    hub: Cluster,
    pub(crate) hub_sight: HubSight,
    pub(crate) members: Vec<Member>,
    _observers: JoinSet<()>,
}

fn cluster(name: &str, seed: u64, epoch: Timestamp) -> Cluster {
    let clock = Clock::starting_at(epoch);
    let cluster = Cluster::new(Options { clock, entropy: Entropy::seeded(seed), ..Options::named(name) });
    cluster.restore(prepared());
    cluster
}

/// A cluster with our definitions and nothing else. Reading them takes longer than many a run, so it is done once.
fn prepared() -> &'static Backup {
    static PREPARED: OnceLock<Backup> = OnceLock::new();
    PREPARED.get_or_init(|| std::thread::spawn(prepare).join().unwrap())
}

/// In a runtime of its own, so that the first run of a process is like all others.
fn prepare() -> Backup {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::starting_at(EPOCH.parse().unwrap());
        let entropy = Entropy::seeded(0);
        let cluster = Cluster::new(Options { clock, entropy, ..Options::named("prepared") });
        for definition in crd::crds() {
            let _ = Api::all(cluster.client()).create(&PostParams::default(), &definition).await.unwrap();
        }
        cluster.backup()
    })
}

async fn make_namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

fn watch<K>(tasks: &mut JoinSet<()>, client: &Client, config: watcher::Config) -> Arc<Cache<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let cache = Cache::new();
    tasks.spawn(follow(cache.clone(), Api::all(client.clone()), config));
    cache
}

impl Sight {
    fn of(tasks: &mut JoinSet<()>, client: &Client) -> Self {
        let all = watcher::Config::default;
        Self {
            services: watch(tasks, client, all()),
            slices: watch(tasks, client, all()),
            namespaces: watch(tasks, client, all()),
            kep_exports: watch(tasks, client, all()),
            mcs_exports: watch(tasks, client, all()),
            kep_imports: watch(tasks, client, all()),
            mcs_imports: watch(tasks, client, all()),
        }
    }
}

impl World {
    /// `size` members `a`, `b`, …, each with the namespace `demo`, no agent running yet.
    pub(crate) async fn new(size: usize, dice: &mut fastrand::Rng) -> Self {
        let mut observers = JoinSet::new();
        let hub = cluster("hub", dice.u64(..), EPOCH.parse().unwrap());
        let names: Vec<String> =
            (0..size).map(|place| char::from(b'a' + u8::try_from(place).unwrap()).to_string()).collect();
        let client = hub.client();
        for name in &names {
            make_namespace(&client, &format!("tombolo-{name}")).await;
        }
        let hub_sight = HubSight {
            offers: watch(&mut observers, &client, watcher::Config::default()),
            slices: watch(&mut observers, &client, watcher::Config::default().labels(OFFER_LABEL)),
            heartbeats: watch(
                &mut observers,
                &client,
                watcher::Config::default().fields("metadata.name=heartbeat"),
            ),
        };
        let mut members = Vec::new();
        for (place, name) in names.iter().enumerate() {
            members.push(Member::new(name, place, dice, &mut observers).await);
        }
        Self { hub, hub_sight, members, _observers: observers }
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

    /// Kills the agent of a member without a word.
    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(agent) = self.members[place].agent.take() {
            agent.abort();
        }
    }
}

impl Member {
    async fn new(name: &str, place: usize, dice: &mut fastrand::Rng, observers: &mut JoinSet<()>) -> Self {
        let epoch: Timestamp = EPOCH.parse().unwrap();
        let mut skewed = || epoch + Duration::from_secs(u64::try_from(dice.i64(0..SKEW)).unwrap());
        let (there, here) = (skewed(), skewed());
        let cluster = cluster(name, dice.u64(..), there);
        make_namespace(&cluster.client(), "demo").await;
        let config = Config {
            pod_cidrs: vec![format!("10.{}.0.0/16", place + 1)],
            clock: Clock::starting_at(here),
            ..Config::new(name.parse().unwrap(), format!("identity-{name}"))
        };
        let sight = Sight::of(observers, &cluster.client());
        let (hub_link, own_link) = (Faults::seeded(dice.u64(..)), Faults::seeded(dice.u64(..)));
        Self {
            config,
            cluster,
            hub_link,
            own_link,
            agent: None,
            sight,
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

    fn api<K>(&self, namespace: &str) -> Api<K>
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

    pub(crate) async fn make_namespace(&self, name: &str) {
        make_namespace(&self.cluster.client(), name).await;
    }

    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.sight.namespaces.get(&Key::new("", name)).is_some()
    }
}
