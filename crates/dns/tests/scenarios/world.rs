//! A cluster with the objects of the scenarios, and a server that answers for it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;
use tombolo_api::{kep, mcs};
use tombolo_apiserver::Options;
use tombolo_dns::{Answerer, Config, Dns, Error, Metrics};
use tombolo_runtime::Readiness;
use tombolo_testkit::Cluster;

use crate::script::folder;

/// Much longer than anything here takes; what reaches it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) address: SocketAddr,
    pub(crate) answerer: Answerer,
    pub(crate) metrics: Metrics,
    running: JoinHandle<Result<(), Error>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// As the scenarios want it: all zones, on a free port.
pub(crate) fn config() -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        workers: 2,
        cluster_zones: vec!["cluster.local".to_owned()],
        reverse_zones: vec!["in-addr.arpa".to_owned(), "ip6.arpa".to_owned()],
        rate_limit: 0,
        ..Config::default()
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let cluster = Cluster::with_definitions(Options::named("east")).await;
        let client = cluster.client();
        let text = fs::read_to_string(folder().join("objects.yaml")).unwrap();
        for document in text.split("\n---\n") {
            create(&client, serde_saphyr::from_str(document).unwrap()).await;
        }
        let (readiness, metrics) = (Readiness::default(), Metrics::default());
        let dns = Dns::bind(config, client).unwrap().with_metrics(&metrics).with_readiness(&readiness);
        let (address, answerer) = (dns.addresses()[0], dns.answerer());
        let running = tokio::spawn(dns.run(std::future::pending()));
        let ready = async {
            while !readiness.pending().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("ready");
        Self { cluster, address, answerer, metrics, running }
    }
}

pub(crate) async fn create(client: &Client, object: Value) {
    let kind = object["kind"].as_str().unwrap().to_owned();
    match kind.as_str() {
        "Namespace" => post::<Namespace>(Api::all(client.clone()), object).await,
        "Service" => post::<Service>(place(client, &object), object).await,
        "EndpointSlice" => post::<EndpointSlice>(place(client, &object), object).await,
        "ServiceImport" => post::<mcs::ServiceImport>(place(client, &object), object).await,
        "ImportedService" => post::<kep::ImportedService>(place(client, &object), object).await,
        other => panic!("{other}"),
    }
}

fn place<K>(client: &Client, object: &Value) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), object["metadata"]["namespace"].as_str().unwrap())
}

async fn post<K>(api: Api<K>, object: Value)
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}
