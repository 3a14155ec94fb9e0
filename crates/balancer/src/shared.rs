//! What all parts of a balancer look at: one cache per kind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;
use tombolo_api::loadbalancer::Service;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{ANNOUNCER_LABEL, AddressPool};
use tombolo_runtime::{Cache, Key, follow};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::roster::Naming;

/// Who the API server sees writing.
pub(crate) const WRITER: &str = "tombolo-balancer";

/// The objects of the cluster, as far as they are known.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) pools: Arc<Cache<AddressPool>>,
    pub(crate) namespaces: Arc<Cache<Namespace>>,
    pub(crate) nodes: Arc<Cache<Node>>,
    /// Grouped by their Service.
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    /// The heartbeats of all nodes that announce.
    pub(crate) leases: Arc<Cache<Lease>>,
    pub(crate) naming: Naming,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(config: Config, client: Client, metrics: Metrics) -> Self {
        Self {
            naming: Naming::of(config.class.as_deref()),
            config,
            client,
            services: Cache::new(),
            pools: Cache::new(),
            namespaces: Cache::new(),
            nodes: Cache::new(),
            slices: Cache::grouped(|slice: &EndpointSlice| service_of(slice).into_iter().collect()),
            leases: Cache::new(),
            metrics,
        }
    }

    /// Starts the watches, after everybody who listens has been made.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        let client = || self.client.clone();
        tasks.spawn(follow(self.services.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.pools.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.namespaces.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.nodes.clone(), Api::all(client()), all()));
        tasks.spawn(follow(self.slices.clone(), Api::all(client()), all()));
        let leases = Api::namespaced(client(), &self.config.namespace);
        let ours = format!("{ANNOUNCER_LABEL}={}", self.naming.mark);
        tasks.spawn(follow(self.leases.clone(), leases, all().labels(&ours)));
    }

    /// Waits until everything has been listed once: nothing is done on half a picture.
    pub(crate) async fn synced(&self) {
        self.services.synced().await;
        self.pools.synced().await;
        self.namespaces.synced().await;
        self.nodes.synced().await;
        self.slices.synced().await;
        self.leases.synced().await;
    }

    pub(crate) fn class(&self) -> Option<&str> {
        self.config.class.as_deref()
    }

    /// The labels of a namespace, if it has been seen.
    pub(crate) fn labels_of(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let found = self.namespaces.get(&Key::new("", namespace));
        found.map(|namespace| namespace.labels().clone())
    }
}

/// The Service that a slice belongs to.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.labels().get(SERVICE_NAME_LABEL)?;
    Some(Key::new(slice.namespace().unwrap_or_default(), name))
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
