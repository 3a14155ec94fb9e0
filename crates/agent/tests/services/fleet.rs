//! A hub and some members, each with an agent that can be cut off or stopped.

use std::fmt::Debug;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tombolo_agent::{Agent, Config, Metrics};
use tombolo_api::service::IpFamily;
use tombolo_api::tombolo::{Dialect, ServiceOffer, ServiceOfferSpec, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_apiserver::{Clock, Entropy, Options, User};
use tombolo_model::names;
use tombolo_testkit::{Cluster, Faults, until};

const EPOCH: &str = "2026-01-01T00:00:00Z";

/// One cluster of the fleet.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) cluster: Cluster,
    /// Between this member's agent and the hub.
    pub(crate) hub_link: Faults,
    /// Between the agent and its own API server.
    pub(crate) own_link: Faults,
    pub(crate) metrics: Metrics,
    /// Where its users work.
    pub(crate) namespace: &'static str,
    agent: Option<JoinHandle<()>>,
    config: Config,
}

/// A supercluster.
pub(crate) struct Fleet {
    pub(crate) hub: Cluster,
    pub(crate) members: Vec<Member>,
}

async fn cluster(name: &str, seed: u64, families: &[IpFamily]) -> Cluster {
    let range = |family: &IpFamily| match family {
        IpFamily::V4 => "10.96.0.0/16".parse().unwrap(),
        IpFamily::V6 => "fd00:96::/112".parse().unwrap(),
    };
    Cluster::with_definitions(Options {
        service_cidrs: families.iter().map(range).collect(),
        clock: Clock::starting_at(EPOCH.parse().unwrap()),
        entropy: Entropy::seeded(seed),
        ..Options::named(name)
    })
    .await
}

pub(crate) async fn make_namespace(client: &Client, name: &str) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

/// Real clusters are lent to the next, who must not meet this one's agents.
impl Drop for Member {
    fn drop(&mut self) {
        self.agent.iter().for_each(JoinHandle::abort);
    }
}

impl Fleet {
    /// A hub and the members `a`, `b`, …, each with the namespace `demo`, all agents running.
    pub(crate) async fn of(size: usize) -> Self {
        Self::of_families(&vec![&[IpFamily::V4][..]; size]).await
    }

    /// The same, with the families of each member's network, the usual one first.
    pub(crate) async fn of_families(families: &[&[IpFamily]]) -> Self {
        let hub = cluster("hub", 1, &[IpFamily::V4]).await;
        let mut members = Vec::new();
        for (place, families) in families.iter().enumerate() {
            let name = char::from(b'a' + u8::try_from(place).unwrap()).to_string();
            make_namespace(&hub.client(), &format!("tombolo-{name}")).await;
            let member = cluster(&name, 100 + place as u64, families).await;
            make_namespace(&member.client(), "demo").await;
            let config = Config {
                pod_cidrs: vec![format!("10.{}.0.0/16", place + 1), format!("fd00:{}::/64", place + 1)],
                ip_families: families.to_vec(),
                clock: member.clock(EPOCH),
                ..Config::new(name.parse().unwrap(), format!("identity-{name}"))
            };
            let (hub_link, own_link) = (Faults::seeded(place as u64), Faults::seeded(50 + place as u64));
            let metrics = Metrics::default();
            let namespace = "demo";
            let (cluster, agent) = (member, None);
            members.push(Member { name, cluster, hub_link, own_link, metrics, namespace, agent, config });
        }
        let mut fleet = Self { hub, members };
        for place in 0..families.len() {
            fleet.start(place);
        }
        fleet
    }

    /// Starts the agent of a member, for the first time or again.
    pub(crate) fn start(&mut self, place: usize) {
        let member = &mut self.members[place];
        let hub = member.hub_link.client(&self.hub, User::admin());
        let own = member.own_link.client(&member.cluster, User::admin());
        let agent = Agent::new(member.config.clone(), own, hub).with_metrics(&member.metrics);
        member.agent = Some(tokio::spawn(agent.run(std::future::pending())));
    }

    /// Starts the agent of a member again, with other settings.
    pub(crate) fn restart(&mut self, place: usize, change: impl FnOnce(&mut Config)) {
        self.kill(place);
        change(&mut self.members[place].config);
        self.start(place);
    }

    /// Kills the agent of a member without a word.
    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(agent) = self.members[place].agent.take() {
            agent.abort();
        }
    }
}

impl Member {
    /// Where its agent has the time from.
    pub(crate) fn clock(&self) -> &Clock {
        &self.config.clock
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), self.namespace)
    }

    pub(crate) async fn apply<K>(&self, name: &str, value: &Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        self.api::<K>().patch(name, &PatchParams::apply("test").force(), &Patch::Apply(value)).await.unwrap();
    }

    /// A Service `echo` on the port, with one slice of these endpoints.
    pub(crate) async fn serve(&self, port: u16, addresses: &[&str]) {
        self.service(&json!({"ports": [{"name": "http", "port": port, "targetPort": 8080}]})).await;
        self.endpoints(addresses).await;
    }

    /// A Service `echo` of this spec, with the slices it has.
    pub(crate) async fn service(&self, spec: &Value) {
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"}, "spec": spec});
        self.apply::<Service>("echo", &service).await;
    }

    pub(crate) async fn remove_service(&self) {
        self.api::<Service>().delete("echo", &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn endpoints(&self, addresses: &[&str]) {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}, "nodeName": "n"}))
            .collect();
        self.slice("echo-1", "http", &endpoints.into()).await;
    }

    /// A slice of `echo` with these endpoints, all of one family, on one port.
    pub(crate) async fn slice(&self, name: &str, port: &str, endpoints: &Value) {
        let first = endpoints[0]["addresses"][0].as_str().unwrap_or_default();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "echo"}},
            "addressType": if first.contains(':') { "IPv6" } else { "IPv4" },
            "endpoints": endpoints,
            "ports": [{"name": port, "port": 8080, "protocol": "TCP"}],
        });
        self.apply::<EndpointSlice>(name, &slice).await;
    }

    pub(crate) async fn label_service(&self, label: &str, value: Option<&str>) {
        self.patch_service(&json!({"metadata": {"labels": {label: value}}})).await;
    }

    pub(crate) async fn annotate_service(&self, annotation: &str, value: &str) {
        self.patch_service(&json!({"metadata": {"annotations": {annotation: value}}})).await;
    }

    async fn patch_service(&self, patch: &Value) {
        let params = PatchParams::default();
        self.api::<Service>().patch("echo", &params, &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn export_kep(&self) {
        let export = json!({"apiVersion": "multicluster.k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {"name": "echo"}});
        self.apply::<kep::ServiceExport>("echo", &export).await;
    }

    pub(crate) async fn export_mcs(&self) {
        self.export_mcs_with(&json!({})).await;
    }

    /// Exports `echo` with this spec, such as labels.
    pub(crate) async fn export_mcs_with(&self, spec: &Value) {
        let export = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"name": "echo"},
            "spec": spec,
        });
        self.apply::<mcs::ServiceExport>("echo", &export).await;
    }

    pub(crate) async fn unexport_mcs(&self) {
        self.api::<mcs::ServiceExport>().delete("echo", &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn unexport_kep(&self) {
        self.api::<kep::ServiceExport>().delete("echo", &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn kep_export(&self) -> kep::ServiceExport {
        self.api().get("echo").await.unwrap()
    }

    pub(crate) async fn kep_import(&self) -> Option<kep::ImportedService> {
        self.api().get_opt("echo").await.unwrap()
    }

    pub(crate) async fn mcs_import(&self) -> Option<mcs::ServiceImport> {
        self.api().get_opt("echo").await.unwrap()
    }

    /// Waits for the imports of both editions, which come after their slices.
    pub(crate) async fn imports(&self) -> (mcs::ServiceImport, kep::ImportedService) {
        let mut found = (None, None);
        until("both imports", async || {
            found = (self.mcs_import().await, self.kep_import().await);
            found.0.is_some() && found.1.is_some()
        })
        .await;
        (found.0.unwrap(), found.1.unwrap())
    }

    /// The status of a condition of the export, such as "True".
    pub(crate) async fn kep_condition(&self, type_: &str) -> Option<(String, String)> {
        let export: Option<kep::ServiceExport> = self.api().get_opt("echo").await.unwrap();
        let conditions = export?.status?.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == type_)?;
        Some((found.status.to_string(), found.message.unwrap_or_default()))
    }

    pub(crate) async fn mcs_condition(&self, type_: &str) -> Option<(String, String, String)> {
        let export: Option<mcs::ServiceExport> = self.api().get_opt("echo").await.unwrap();
        let conditions = export?.status?.conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == type_)?;
        Some((found.status, found.reason, found.message))
    }

    /// Whether the export in today's edition is everywhere, as it says itself.
    pub(crate) async fn is_ready(&self) -> bool {
        self.mcs_condition("Ready").await.is_some_and(|(status, ..)| status == "True")
    }

    /// Whether there is a lease of a source.
    pub(crate) async fn has_lease_of(&self, source: &str) -> bool {
        let api: Api<Lease> = Api::all(self.cluster.client());
        let selector = format!("{}={source}", tombolo_api::mcs::SOURCE_CLUSTER_LABEL);
        !api.list(&ListParams::default().labels(&selector)).await.unwrap().items.is_empty()
    }

    /// The addresses in imported slices, sorted; of one source, or of all.
    pub(crate) async fn imported(&self, source: Option<&str>) -> Vec<String> {
        let label = tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
        let selector = source.map_or_else(|| label.to_owned(), |source| format!("{label}={source}"));
        let slices =
            self.api::<EndpointSlice>().list(&ListParams::default().labels(&selector)).await.unwrap();
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
        let mut addresses: Vec<String> = endpoints.flat_map(|endpoint| endpoint.addresses).collect();
        addresses.sort();
        addresses
    }

    pub(crate) async fn slices(&self) -> Vec<EndpointSlice> {
        let selector = tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
        self.api::<EndpointSlice>().list(&ListParams::default().labels(selector)).await.unwrap().items
    }

    /// The Services that hold addresses of imports.
    pub(crate) async fn derived(&self) -> Vec<Service> {
        let all = self.api::<Service>().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|service| service.name_any().starts_with("derived-")).collect()
    }
}

/// The readiness of a member's import: status and reason.
pub(crate) fn readiness(import: &mcs::ServiceImport) -> Option<(&str, &str)> {
    let conditions = &import.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((&ready.status, &ready.reason))
}

/// Makes an offer in the namespace of `a` that speaks for a cluster.
pub(crate) async fn offer(fleet: &Fleet, cluster: &str, name: &str) {
    let service = ServiceRef { namespace: "demo".to_owned(), name: name.to_owned() };
    make_offer(fleet, name, cluster, &service, 80).await;
}

/// The same under the name that the offer of that cluster has, older than any, with this port.
pub(crate) async fn forge(fleet: &Fleet, cluster: &str, service: &ServiceRef, port: u16) {
    make_offer(fleet, &names::offer(Dialect::Mcs, service), cluster, service, port).await;
}

async fn make_offer(fleet: &Fleet, name: &str, cluster: &str, service: &ServiceRef, port: u16) {
    let spec: ServiceOfferSpec = serde_json::from_value(json!({
        "cluster": cluster, "dialect": "mcs", "service": service,
        "exportedAt": "2026-01-01T00:00:00Z", "type": "ClusterIP", "ipFamilies": ["IPv4"], "ports": [{"port": port}],
    }))
    .unwrap();
    let api: Api<ServiceOffer> = Api::namespaced(fleet.hub.client(), "tombolo-a");
    api.create(&PostParams::default(), &ServiceOffer::new(name, spec)).await.unwrap();
}
