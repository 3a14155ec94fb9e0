//! A hub and some members, each with an agent that can be cut off or stopped.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tombolo_agent::{Agent, Config};
use tombolo_api::crd;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::work::Work;
use tombolo_apiserver::controllers::Settings;
use tombolo_apiserver::{Backup, Clock, Entropy, Options, User};
use tombolo_hub::{Hub, Metrics};
use tombolo_testkit::{Cluster, Faults, until};

pub(crate) const EPOCH: &str = "2026-01-01T00:00:00Z";
/// Where the services are.
pub(crate) const NAMESPACE: &str = "default";

pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    /// Between this member's agent and the hub.
    pub(crate) link: Faults,
    /// Between the agent and its own API server.
    pub(crate) own_link: Faults,
    agent: Option<JoinHandle<()>>,
    config: Config,
}

pub(crate) struct Fleet {
    pub(crate) hub: Cluster,
    pub(crate) members: Vec<Member>,
    /// Between the hub's part and its API server.
    pub(crate) link: Faults,
    pub(crate) metrics: Metrics,
    pub(crate) push: Vec<tombolo_hub::PushMember>,
    /// A cluster that is silent for so long is not ready.
    pub(crate) dead_after: Duration,
    /// While the hub does not hear its API server, nobody is declared dead for so long.
    pub(crate) hold: Duration,
    part: Option<JoinHandle<()>>,
    /// The stand-ins for the hub's kube-controller-manager.
    controllers: Option<JoinHandle<()>>,
}

/// Real clusters are lent to the next, who must not meet this one's agents.
impl Drop for Member {
    fn drop(&mut self) {
        self.agent.iter().for_each(JoinHandle::abort);
    }
}

/// Nor its hub.
impl Drop for Fleet {
    fn drop(&mut self) {
        self.part.iter().chain(&self.controllers).for_each(JoinHandle::abort);
    }
}

/// A cluster with our definitions, which a real one has anyway, and nothing else.
pub(crate) fn cluster(name: &str, seed: u64) -> Cluster {
    let cluster = empty_cluster(name, seed);
    if let Some(embedded) = cluster.embedded() {
        embedded.restore(prepared());
    }
    cluster
}

/// A cluster with nothing but what every cluster has.
pub(crate) fn empty_cluster(name: &str, seed: u64) -> Cluster {
    Cluster::new(options(name, seed))
}

fn options(name: &str, seed: u64) -> Options {
    Options {
        clock: Clock::starting_at(EPOCH.parse().unwrap()),
        entropy: Entropy::seeded(seed),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap(), "fd00:96::/112".parse().unwrap()],
        ..Options::named(name)
    }
}

fn member_name(place: usize) -> String {
    format!("member{}", place + 1)
}

fn member_cluster(place: usize) -> Cluster {
    cluster(&member_name(place), 100 + place as u64)
}

/// Reading the definitions takes longer than many a test, so it is done once; in a runtime of its own, so that the first
/// test of a process is like all others.
fn prepared() -> &'static Backup {
    static PREPARED: OnceLock<Backup> = OnceLock::new();
    let prepare = || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let cluster = tombolo_apiserver::Cluster::new(options("prepared", 0));
            Cluster::from(&cluster).define(&crd::crds()).await;
            cluster.backup()
        })
    };
    PREPARED.get_or_init(|| std::thread::spawn(prepare).join().unwrap())
}

pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

pub(crate) async fn apply<K>(client: &Client, namespace: &str, value: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let name = value["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(value)).await.unwrap();
}

impl Fleet {
    /// A hub and the members `member1`, …, all agents and the hub's own part running.
    pub(crate) async fn of(size: usize) -> Self {
        let hub = cluster("hub", 1);
        // All of them before anything runs: whoever waits for a real one keeps all tasks of the test waiting.
        let clusters: Vec<Cluster> = (0..size).map(member_cluster).collect();
        make_namespace(&hub.client(), "tombolo-system").await;
        let mut fleet = Self::with(hub, Vec::new());
        fleet.start_controllers();
        fleet.start_hub();
        for cluster in clusters {
            fleet.admit(cluster).await;
        }
        fleet
    }

    /// One whose parts run already.
    pub(crate) fn with(hub: Cluster, members: Vec<Member>) -> Self {
        Self {
            hub,
            members,
            link: Faults::seeded(9),
            metrics: Metrics::default(),
            push: Vec::new(),
            dead_after: Duration::from_secs(30),
            hold: Duration::from_secs(15 * 60),
            part: None,
            controllers: None,
        }
    }

    /// One more member.
    pub(crate) async fn join(&mut self) -> usize {
        let cluster = member_cluster(self.members.len());
        self.admit(cluster).await
    }

    async fn admit(&mut self, member: Cluster) -> usize {
        let identity = format!("identity-{}", member_name(self.members.len()));
        self.admit_as(member, identity).await
    }

    /// One more member, which is a certain cluster.
    pub(crate) async fn admit_as(&mut self, member: Cluster, identity: String) -> usize {
        let place = self.members.len();
        let name = member_name(place);
        let client = self.hub.client();
        if Api::<Namespace>::all(client.clone()).get_opt(&format!("tombolo-{name}")).await.unwrap().is_none()
        {
            make_namespace(&client, &format!("tombolo-{name}")).await;
        }
        let config = Config {
            pod_cidrs: vec![format!("10.{}.0.0/16", place + 1)],
            clock: member.clock(EPOCH),
            ..Config::new(name.parse().unwrap(), identity)
        };
        let (link, own_link) = (Faults::seeded(place as u64), Faults::seeded(50 + place as u64));
        self.members.push(Member { cluster: member, link, own_link, agent: None, config });
        self.start(place);
        place
    }

    pub(crate) fn start(&mut self, place: usize) {
        let member = &mut self.members[place];
        let hub = member.link.client(&self.hub, User::admin());
        let own = member.own_link.client(&member.cluster, User::admin());
        let agent = Agent::new(member.config.clone(), own, hub);
        member.agent = Some(tokio::spawn(agent.run(std::future::pending())));
    }

    /// Kills the agent of a member without a word.
    pub(crate) fn kill(&mut self, place: usize) {
        self.members[place].agent.take().unwrap().abort();
    }

    /// Starts the agent of a member again, with other settings.
    pub(crate) fn restart(&mut self, place: usize, change: impl FnOnce(&mut Config)) {
        if let Some(agent) = self.members[place].agent.take() {
            agent.abort();
        }
        change(&mut self.members[place].config);
        self.start(place);
    }

    pub(crate) fn start_hub(&mut self) {
        let config = tombolo_hub::Config {
            clock: self.hub.clock(EPOCH),
            push: self.push.clone(),
            dead_after: self.dead_after,
            hold: self.hold,
            ..tombolo_hub::Config::new("test")
        };
        let client = self.link.client(&self.hub, User::admin());
        let hub = Hub::new(config, client).with_metrics(&self.metrics);
        self.part = Some(tokio::spawn(hub.run(std::future::pending())));
    }

    pub(crate) fn kill_hub(&mut self) {
        self.part.take().unwrap().abort();
    }

    fn start_controllers(&mut self) {
        let run = self.hub.start_controllers(Settings::default());
        if let Some(former) = self.controllers.replace(run) {
            former.abort();
        }
    }

    /// What the hub's API server holds now, for those that have backups.
    pub(crate) fn backup(&self) -> Backup {
        self.hub.embedded().unwrap().backup()
    }

    /// The hub's API server goes back to a backup. Whoever runs it starts its controllers again.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.hub.embedded().unwrap().restore(backup);
        self.start_controllers();
    }

    pub(crate) fn has_hub(&self) -> bool {
        self.part.is_some()
    }

    /// The Service `foo` and a MultiClusterService for it, at the hub.
    pub(crate) async fn share(&self, spec: Value) {
        apply::<Service>(&self.hub.client(), NAMESPACE, &template()).await;
        self.apply_object(spec).await;
    }

    pub(crate) async fn apply_object(&self, spec: Value) {
        self.apply_annotated(json!({}), spec).await;
    }

    pub(crate) async fn apply_annotated(&self, annotations: Value, spec: Value) {
        let mut full = json!({"types": ["CrossCluster"]});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "foo", "annotations": annotations}, "spec": full,
        });
        apply::<MultiClusterService>(&self.hub.client(), NAMESPACE, &object).await;
    }

    pub(crate) async fn object(&self) -> Option<MultiClusterService> {
        Api::namespaced(self.hub.client(), NAMESPACE).get_opt("foo").await.unwrap()
    }

    pub(crate) async fn delete_object(&self) {
        let api: Api<MultiClusterService> = Api::namespaced(self.hub.client(), NAMESPACE);
        api.delete("foo", &DeleteParams::default()).await.unwrap();
    }

    /// Status, reason and message of a condition.
    pub(crate) async fn condition(&self, type_: &str) -> (String, String, String) {
        let conditions = self.object().await.and_then(|object| object.status).unwrap_or_default().conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == type_);
        found.map(|one| (one.status, one.reason, one.message)).unwrap_or_default()
    }

    pub(crate) async fn all_true(&self) -> bool {
        let mut all = true;
        for type_ in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
            all &= self.condition(type_).await.0 == "True";
        }
        all
    }

    /// Waits until the hub has had nothing to look at for ten seconds.
    pub(crate) async fn rest(&self) {
        let mut before = None;
        until("the hub rests", || {
            let looks = Some(self.metrics.service_reconciles());
            let rests = std::mem::replace(&mut before, looks) == looks;
            async move {
                if !rests {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                }
                rests
            }
        })
        .await;
    }

    pub(crate) async fn works(&self) -> Vec<Work> {
        Api::<Work>::all(self.hub.client()).list(&ListParams::default()).await.unwrap().items
    }
}

/// Whether a slice was brought from another cluster.
pub(crate) fn is_imported(slice: &EndpointSlice) -> bool {
    let writer = slice.labels().get("endpointslice.kubernetes.io/managed-by");
    writer.is_some_and(|writer| writer == "endpointslice-dispatch-controller.karmada.io")
}

/// Whether there is an endpoint in a slice.
pub(crate) fn is_filled(slice: &EndpointSlice) -> bool {
    slice.endpoints.as_ref().is_some_and(|endpoints| !endpoints.is_empty())
}

/// The Service of the example in Karmada's proposal.
pub(crate) fn template() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo"},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}], "selector": {"app": "foo"}},
    })
}

impl Member {
    pub(crate) fn is_running(&self) -> bool {
        self.agent.is_some()
    }

    /// Whether its agent has stopped by itself.
    pub(crate) fn has_stopped(&self) -> bool {
        self.agent.as_ref().is_some_and(JoinHandle::is_finished)
    }

    pub(crate) fn name(&self) -> &str {
        self.config.cluster.as_str()
    }

    /// One whose agent runs already.
    pub(crate) fn of(cluster: Cluster, config: Config) -> Self {
        Self { cluster, link: Faults::seeded(0), own_link: Faults::seeded(0), agent: None, config }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    /// Endpoints of `foo` in this member, as its own controller would write them.
    pub(crate) async fn endpoints(&self, addresses: &[&str]) {
        self.named_endpoints("foo-abc", addresses).await;
    }

    pub(crate) async fn named_endpoints(&self, name: &str, addresses: &[&str]) {
        let ready: Vec<(&str, bool)> = addresses.iter().map(|address| (*address, true)).collect();
        self.some_endpoints(name, &ready).await;
    }

    /// Endpoints of which some are ready.
    pub(crate) async fn some_endpoints(&self, name: &str, addresses: &[(&str, bool)]) {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|(ip, ready)| json!({"addresses": [ip], "conditions": {"ready": ready}, "nodeName": "n"}))
            .collect();
        let family = if addresses.iter().any(|(ip, _)| ip.contains(':')) { "IPv6" } else { "IPv4" };
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/service-name": "foo", "karmada.io/managed": "true",
            }},
            "addressType": family, "endpoints": endpoints, "ports": [{"port": 8080, "protocol": "TCP"}],
        });
        apply::<EndpointSlice>(&self.cluster.client(), NAMESPACE, &slice).await;
    }

    pub(crate) async fn service(&self) -> Option<Service> {
        self.api().get_opt("foo").await.unwrap()
    }

    pub(crate) async fn slices(&self) -> Vec<EndpointSlice> {
        let ours = ListParams::default().labels("kubernetes.io/service-name=foo");
        self.api::<EndpointSlice>().list(&ours).await.unwrap().items
    }

    /// The slices that came from elsewhere.
    pub(crate) async fn imported(&self) -> Vec<EndpointSlice> {
        let mut slices = self.slices().await;
        slices.retain(is_imported);
        slices
    }

    /// Those of them that have endpoints: the stock controller makes an empty one of a Service without pods.
    pub(crate) async fn filled(&self) -> Vec<EndpointSlice> {
        let mut slices = self.imported().await;
        slices.retain(is_filled);
        slices
    }

    /// All addresses behind the name `foo`, sorted.
    pub(crate) async fn reached(&self) -> Vec<String> {
        let endpoints = self.slices().await.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
        let mut addresses: Vec<String> = endpoints.flat_map(|endpoint| endpoint.addresses).collect();
        addresses.sort();
        addresses
    }
}
