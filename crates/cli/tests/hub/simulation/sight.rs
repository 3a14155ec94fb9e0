//! What somebody sees who sees everything at once, and whom no fault reaches.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::karmada::networking::{MultiClusterService, SLICE_DISPATCHER};
use tombolo_api::karmada::work::Work;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use tombolo_runtime::{Cache, follow};

/// A member's objects.
pub(crate) struct MemberSight {
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) slices: Arc<Cache<EndpointSlice>>,
    _tasks: JoinSet<()>,
}

/// The hub's objects.
pub(crate) struct HubSight {
    pub(crate) clusters: Arc<Cache<Cluster>>,
    pub(crate) objects: Arc<Cache<MultiClusterService>>,
    pub(crate) services: Arc<Cache<Service>>,
    pub(crate) works: Arc<Cache<Work>>,
    tasks: JoinSet<()>,
}

fn watch<K>(tasks: &mut JoinSet<()>, cache: &Arc<Cache<K>>, client: &Client)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    tasks.spawn(follow(cache.clone(), Api::all(client.clone()), watcher::Config::default()));
}

impl MemberSight {
    pub(crate) fn new(client: &Client) -> Self {
        let sight = Self { services: Cache::new(), slices: Cache::new(), _tasks: JoinSet::new() };
        let mut tasks = JoinSet::new();
        watch(&mut tasks, &sight.services, client);
        watch(&mut tasks, &sight.slices, client);
        Self { _tasks: tasks, ..sight }
    }
}

impl HubSight {
    pub(crate) fn new(client: &Client) -> Self {
        let mut sight = Self {
            clusters: Cache::new(),
            objects: Cache::new(),
            services: Cache::new(),
            works: Cache::new(),
            tasks: JoinSet::new(),
        };
        sight.look_anew(client);
        sight
    }

    /// As after a hub was restored: revisions mean something else, so everything is listed again.
    pub(crate) fn look_anew(&mut self, client: &Client) {
        self.tasks = JoinSet::new();
        watch(&mut self.tasks, &self.clusters, client);
        watch(&mut self.tasks, &self.objects, client);
        watch(&mut self.tasks, &self.services, client);
        watch(&mut self.tasks, &self.works, client);
    }
}

/// The cluster that a slice was imported from, if it was.
pub(crate) fn source(slice: &EndpointSlice) -> Option<&str> {
    let labels = slice.labels();
    let imported = labels.get(MANAGED_BY_LABEL).is_some_and(|writer| writer == SLICE_DISPATCHER);
    labels.get(SOURCE_CLUSTER_LABEL).filter(|_| imported).map(String::as_str)
}

pub(crate) fn service_name(slice: &EndpointSlice) -> &str {
    slice.labels().get(SERVICE_NAME_LABEL).map(String::as_str).unwrap_or_default()
}

pub(crate) fn addresses(slice: &EndpointSlice) -> impl Iterator<Item = &String> {
    slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses)
}
