//! A cluster with a balancer that answers for nothing, and ways to see what it says.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tombolo_api::loadbalancer::{Profile, Service};
use tombolo_api::tombolo::AddressPool;
use tombolo_apiserver::{Options, User};
use tombolo_balancer::{Balancer, Config, Metrics};
use tombolo_testkit::witness::{Rights, Witness, granted};
use tombolo_testkit::{Cluster, Server, patience};

const RULES: &str = include_str!("../../../../deploy/member/balancer-rbac.yaml");

/// Longer than anything here takes; what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    cluster: Cluster,
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) witness: Witness,
}

/// A balancer that runs; dropped, it is cut off.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends it in order.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// Two nodes and a pool `main` with these addresses.
    pub(crate) async fn new(addresses: &[&str]) -> World {
        let cidrs = ["10.96.0.0/16", "fd96::/112"].map(|cidr| cidr.parse().unwrap());
        let options = Options { rbac: true, service_cidrs: cidrs.into(), ..Options::named("lab") };
        let cluster = Cluster::with_definitions(options).await;
        let (client, witness) = (cluster.client(), Witness::default());
        let world = World { client, cluster, metrics: Metrics::default(), witness };
        world.grant().await;
        for name in ["node1", "node2"] {
            create::<Node>(&Api::all(world.client.clone()), json!({"metadata": {"name": name}})).await;
        }
        if !addresses.is_empty() {
            world.pool("main", json!({ "addresses": addresses })).await;
        }
        world
    }

    /// Applies the shipped rules, the only ones the balancer has.
    async fn grant(&self) {
        let (client, system) = (&self.client, "tombolo-system");
        create::<Namespace>(&Api::all(client.clone()), json!({"metadata": {"name": system}})).await;
        for document in RULES.split("\n---\n") {
            let value: Value = serde_saphyr::from_str(document).unwrap();
            match value["kind"].as_str().unwrap() {
                "ServiceAccount" => {
                    create::<ServiceAccount>(&Api::namespaced(client.clone(), system), value).await;
                }
                "ClusterRole" => create::<ClusterRole>(&Api::all(client.clone()), value).await,
                "ClusterRoleBinding" => create::<ClusterRoleBinding>(&Api::all(client.clone()), value).await,
                "Role" => create::<Role>(&Api::namespaced(client.clone(), system), value).await,
                _ => create::<RoleBinding>(&Api::namespaced(client.clone(), system), value).await,
            }
        }
    }

    /// The rights of the shipped rules.
    pub(crate) fn granted(&self) -> Rights {
        let documents: Vec<Value> =
            RULES.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
        granted(&documents)
    }

    pub(crate) fn start(&self, profile: Profile) -> Running {
        self.start_with(Config { capabilities: profile.into(), ..self.config("node1") })
    }

    /// A balancer that leads without being elected, so that nobody waits for the lease of a dead one.
    pub(crate) fn config(&self, node: &str) -> Config {
        let usual = Config::new(node);
        // A machine that runs real servers, too, may keep a living node silent for a while.
        let dead_after =
            if Server::chosen().is_embedded() { usual.dead_after } else { Duration::from_secs(10) };
        Config {
            speak: false,
            elect_leader: false,
            slow_step: Duration::from_millis(1500),
            dead_after,
            ..usual
        }
    }

    pub(crate) fn start_with(&self, config: Config) -> Running {
        let user = User::service_account("tombolo-system", "tombolo-balancer");
        let account = self.witness.client(&self.cluster, user);
        let (stop, mut stopped) = watch::channel(false);
        let balancer = Balancer::new(config, account).with_metrics(&self.metrics);
        let run = balancer.run(async move { drop(stopped.wait_for(|stop| *stop).await) });
        Running { stop, task: tokio::spawn(run) }
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn pools(&self) -> Api<AddressPool> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn pool(&self, name: &str, spec: Value) {
        let pool = json!({
            "apiVersion": "tombolo.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": name}, "spec": spec,
        });
        create::<AddressPool>(&self.pools(), pool).await;
    }

    /// Makes a LoadBalancer Service of which these fields of the spec differ from the usual.
    pub(crate) async fn service(&self, name: &str, spec: Value) {
        self.annotated(name, json!({}), spec).await;
    }

    pub(crate) async fn annotated(&self, name: &str, annotations: Value, spec: Value) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        create::<Service>(&self.services(), object).await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.services().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.services().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn get(&self, name: &str) -> Service {
        self.services().get(name).await.unwrap()
    }

    /// Waits until the conditions of a Service are these.
    pub(crate) async fn until(&self, name: &str, expected: &str) -> Service {
        let mut last = String::new();
        let deadline = Instant::now() + patience(PATIENCE);
        while Instant::now() < deadline {
            if let Some(service) = self.services().get_opt(name).await.unwrap() {
                last = said(&service);
                if last == expected {
                    return service;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name} says {last:?}, not {expected:?}");
    }

    /// The reasons of the events about a Service, in order.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.regarding.as_ref().unwrap().name.as_deref() == Some(name));
        events.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
        events.into_iter().map(|event| event.reason.unwrap()).collect()
    }

    /// Waits until events with these reasons have been told about a Service.
    pub(crate) async fn until_told(&self, name: &str, expected: &[&str]) {
        wait(async || self.events(name).await == expected).await;
    }
}

pub(crate) async fn wait(mut condition: impl AsyncFnMut() -> bool) {
    tokio::time::timeout(patience(PATIENCE), async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("what was waited for should happen");
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

pub(crate) fn condition<'a>(service: &'a Service, kind: &str) -> Option<&'a Condition> {
    service.conditions().iter().find(|condition| condition.type_ == kind)
}

/// The three conditions in short: `P=False/Complete S=True/Serving`, and `D=…` where it is there.
pub(crate) fn said(service: &Service) -> String {
    let kinds =
        [("P", "LoadBalancerProvisioning"), ("S", "LoadBalancerServing"), ("D", "LoadBalancerDegraded")];
    let short = |(letter, kind)| {
        condition(service, kind)
            .map(|condition| format!("{letter}={}/{}", condition.status, condition.reason))
    };
    kinds.into_iter().filter_map(short).collect::<Vec<_>>().join(" ")
}

pub(crate) fn message(service: &Service) -> String {
    condition(service, "LoadBalancerServing").unwrap().message.clone()
}

pub(crate) fn addresses(service: &Service) -> Vec<String> {
    service.ingress().iter().filter_map(|entry| entry.ip.clone()).collect()
}

pub(crate) fn finalizers(service: &Service) -> Vec<String> {
    service.finalizers().to_vec()
}

pub(crate) const NORMAL: &str = "P=False/Complete S=True/Serving";
pub(crate) const REFUSED: &str = "P=False/Complete S=False/Unsupported";
pub(crate) const FAILED: &str = "P=False/Complete S=False/Infrastructure";
pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
