//! What the cluster says about Services, and which of them changed.
//!
//! Caches of all kinds a route depends on. An event marks the Services it concerns; only their routes are decided anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tombolo_api::service::{IpFamily, LAST_CHANGE_TRIGGER_TIME_ANNOTATION, SERVICE_NAME_LABEL};
use tombolo_api::tombolo::{Dialect, ServiceRef};
use tombolo_api::{kep, mcs};
use tombolo_model::routing::{self, Imported, Input};
use tombolo_model::{Complaint, names};
use tombolo_runtime::{Cache, Key, follow};

use crate::config::Config;
use crate::optional::Optional;
use crate::plan::Update;
use crate::trim;

/// Set on a node that is about to be taken away, so that balancers turn elsewhere first.
const LEAVING_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// All caches, and what changed in them.
pub(crate) struct View {
    config: Config,
    client: Client,
    services: Arc<Cache<Service>>,
    slices: Arc<Cache<EndpointSlice>>,
    nodes: Arc<Cache<Node>>,
    kep: Arc<Cache<kep::ImportedService>>,
    mcs: Arc<Cache<mcs::ServiceImport>>,
    ranges: Arc<Cache<ServiceCIDR>>,
    /// The slices that a Service has, or had.
    index: Mutex<BTreeMap<Key, BTreeSet<Key>>>,
    changed: Arc<Changed>,
    complaints: Mutex<BTreeMap<Key, Vec<Complaint>>>,
}

/// Services to look at, and since when.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    state: Mutex<Pending>,
    wake: Notify,
}

/// What waits to be written.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) services: BTreeSet<Key>,
    /// Whether something that concerns the rules may have changed.
    pub(crate) node: bool,
    pub(crate) since: Option<Instant>,
    /// When endpoints changed, by the clock of whoever wrote their slices.
    pub(crate) triggers: Vec<(IpFamily, Timestamp)>,
    pub(crate) service_changes: u64,
    pub(crate) endpoint_changes: u64,
}

impl Changed {
    fn locked(&self) -> MutexGuard<'_, Pending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.locked();
        change(&mut pending);
        pending.since.get_or_insert_with(Instant::now);
        drop(pending);
        self.wake.notify_one();
    }

    /// Puts back what could not be written.
    pub(crate) fn restore(&self, mut unwritten: Pending) {
        let mut pending = self.locked();
        unwritten.services.append(&mut pending.services);
        unwritten.triggers.append(&mut pending.triggers);
        unwritten.node |= pending.node;
        unwritten.since.get_or_insert_with(Instant::now);
        unwritten.service_changes += pending.service_changes;
        unwritten.endpoint_changes += pending.endpoint_changes;
        *pending = unwritten;
    }

    /// Waits until there is something to do.
    pub(crate) async fn wait(&self) {
        while self.locked().since.is_none() {
            self.wake.notified().await;
        }
    }

    pub(crate) fn take(&self) -> Pending {
        std::mem::take(&mut *self.locked())
    }

    /// Since when the oldest change waits, and how many of both kinds do.
    pub(crate) fn waiting(&self) -> (Option<Instant>, u64, u64) {
        let pending = self.locked();
        (pending.since, pending.service_changes, pending.endpoint_changes)
    }
}

/// What the rules and the health of the proxy depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeState {
    pub(crate) routing: routing::Node,
    pub(crate) pod_cidrs: Vec<IpNet>,
    pub(crate) service_cidrs: Vec<IpNet>,
    pub(crate) leaving: bool,
}

impl NodeState {
    /// Whether routes and rules are the same; whether the node is leaving concerns its health only.
    pub(crate) fn is_routed_like(&self, other: &Self) -> bool {
        self.routing == other.routing
            && self.pod_cidrs == other.pod_cidrs
            && self.service_cidrs == other.service_cidrs
    }
}

impl View {
    pub(crate) fn new(config: Config, client: Client) -> Arc<Self> {
        let view = Arc::new(Self {
            config,
            client,
            services: Cache::trimmed(trim::service),
            slices: Cache::trimmed(trim::slice),
            nodes: Cache::trimmed(trim::node),
            kep: Cache::new(),
            mcs: Cache::new(),
            ranges: Cache::new(),
            index: Mutex::default(),
            changed: Arc::default(),
            complaints: Mutex::default(),
        });
        view.listen();
        view
    }

    pub(crate) fn changed(&self) -> &Arc<Changed> {
        &self.changed
    }

    fn listen(self: &Arc<Self>) {
        let changed = self.changed.clone();
        self.services.listen(move |service| {
            changed.mark(|pending| {
                pending.services.insert(Key::of(service));
                pending.service_changes += 1;
            });
        });
        let view = Arc::downgrade(self);
        self.slices.listen(move |slice| {
            if let Some(view) = view.upgrade() {
                view.note_slice(slice);
            }
        });
        let changed = self.changed.clone();
        self.nodes.listen(move |_| changed.mark(|pending| pending.node = true));
        let changed = self.changed.clone();
        self.ranges.listen(move |_| changed.mark(|pending| pending.node = true));
        let changed = self.changed.clone();
        self.kep.listen(move |import| changed.mark(|pending| note_import(Dialect::Kep, import, pending)));
        let changed = self.changed.clone();
        self.mcs.listen(move |import| changed.mark(|pending| note_import(Dialect::Mcs, import, pending)));
    }

    fn note_slice(&self, slice: &EndpointSlice) {
        let Some(service) = service_of(slice) else { return };
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.entry(service.clone()).or_default().insert(Key::of(slice));
        drop(index);
        let trigger = slice.annotations().get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION);
        let family = if slice.address_type == "IPv6" { IpFamily::V6 } else { IpFamily::V4 };
        let trigger = trigger.and_then(|time| Some((family, time.parse().ok()?)));
        self.changed.mark(|pending| {
            pending.services.insert(service);
            pending.triggers.extend(trigger);
            pending.endpoint_changes += 1;
        });
    }

    /// Starts the watches.
    pub(crate) fn follow(&self, tasks: &mut JoinSet<()>) {
        let (client, all) = (&self.client, watcher::Config::default);
        tasks.spawn(follow(self.services.clone(), Api::all(client.clone()), all()));
        tasks.spawn(follow(self.slices.clone(), Api::all(client.clone()), all()));
        let own = all().fields(&format!("metadata.name={}", self.config.node));
        tasks.spawn(follow(self.nodes.clone(), Api::all(client.clone()), own));
        tasks.spawn(Optional::installed(client).follow(self.kep.clone()));
        tasks.spawn(Optional::installed(client).follow(self.mcs.clone()));
        if self.config.service_cidrs.is_empty() {
            tasks.spawn(Optional::allowed(client).follow(self.ranges.clone()));
        }
    }

    /// Waits until everything has been listed once: nothing is written on half a picture. Kinds that are not installed
    /// are not waited for.
    pub(crate) async fn synced(&self) {
        self.services.synced().await;
        self.slices.synced().await;
        self.nodes.synced().await;
        Optional::installed(&self.client).synced(&self.kep).await;
        Optional::installed(&self.client).synced(&self.mcs).await;
        if self.config.service_cidrs.is_empty() {
            Optional::allowed(&self.client).synced(&self.ranges).await;
        }
    }

    /// All Services there are.
    pub(crate) fn all(&self) -> BTreeSet<Key> {
        self.services.all().iter().map(|service| Key::of(&**service)).collect()
    }

    pub(crate) fn node(&self) -> NodeState {
        let found = self.nodes.get(&Key::new("", self.config.node.clone()));
        let Some(node) = found else {
            let name = self.config.node.clone();
            let routing =
                routing::Node { name, cluster: self.config.cluster.clone(), ..routing::Node::default() };
            let (pod_cidrs, service_cidrs) = (self.config.pod_cidrs.clone(), self.service_cidrs());
            return NodeState { routing, pod_cidrs, service_cidrs, leaving: false };
        };
        let spec = node.spec.clone().unwrap_or_default();
        let declared = spec.pod_cidrs.unwrap_or_default().into_iter().filter_map(|range| range.parse().ok());
        let pod_cidrs = match self.config.pod_cidrs.is_empty() {
            true => declared.collect(),
            false => self.config.pod_cidrs.clone(),
        };
        let tainted = spec.taints.iter().flatten().any(|taint| taint.key == LEAVING_TAINT);
        let routing = routing::Node::read(&node, self.config.cluster.clone(), self.config.region.clone());
        let leaving = tainted || node.metadata.deletion_timestamp.is_some();
        NodeState { routing, pod_cidrs, service_cidrs: self.service_cidrs(), leaving }
    }

    /// Where Services have their cluster IPs, in an order that does not depend on chance.
    fn service_cidrs(&self) -> Vec<IpNet> {
        if !self.config.service_cidrs.is_empty() {
            return self.config.service_cidrs.clone();
        }
        let objects = self.ranges.all();
        let told = objects.iter().filter_map(|range| range.spec.as_ref()?.cidrs.as_ref());
        let ranges: BTreeSet<IpNet> = told.flatten().filter_map(|range| range.parse().ok()).collect();
        ranges.into_iter().collect()
    }

    /// What is new about a Service, decided.
    pub(crate) fn update(&self, key: &Key, node: &routing::Node) -> Update {
        let Some(service) = self.services.get(key) else {
            self.note_complaints(key, Vec::new());
            return Update {
                service: key.clone(),
                routes: routing::Routes::default(),
                serving: BTreeSet::new(),
            };
        };
        let slices = self.slices_of(key);
        let imported = self.imported(&service);
        let input = Input {
            service: &service,
            slices: slices.iter().map(|slice| &**slice).collect(),
            node,
            imported: imported.as_ref(),
        };
        let (routes, complaints) = routing::route(&input);
        self.note_complaints(key, complaints);
        Update {
            service: key.clone(),
            routes,
            serving: slices.iter().flat_map(|slice| serving(slice)).collect(),
        }
    }

    fn slices_of(&self, service: &Key) -> Vec<Arc<EndpointSlice>> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = index.get_mut(service) else { return Vec::new() };
        let mut found = Vec::new();
        keys.retain(|key| {
            let slice = self.slices.get(key).filter(|slice| service_of(slice).as_ref() == Some(service));
            let is_there = slice.is_some();
            found.extend(slice);
            is_there
        });
        if found.is_empty() {
            index.remove(service);
        }
        found
    }

    fn imported(&self, service: &Service) -> Option<Imported> {
        let (dialect, import) = routing::import_of(service)?;
        let key = Key::new(import.namespace, import.name);
        match dialect {
            Dialect::Kep => self.kep.get(&key).map(|import| Imported::kep(&import)),
            Dialect::Mcs => self.mcs.get(&key).map(|import| Imported::mcs(&import)),
        }
    }

    /// Says what is wrong with a Service once, not with every change.
    fn note_complaints(&self, key: &Key, complaints: Vec<Complaint>) {
        let mut known = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(key).map_or(&[][..], Vec::as_slice) == complaints {
            return;
        }
        for complaint in &complaints {
            tracing::warn!(service = %key, %complaint, "something about a Service is wrong; the rest of it works");
        }
        if complaints.is_empty() {
            known.remove(key)
        } else {
            known.insert(key.clone(), complaints)
        };
    }
}

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.labels().get(SERVICE_NAME_LABEL)?;
    Some(Key::new(slice.namespace().unwrap_or_default(), name.clone()))
}

fn note_import(dialect: Dialect, import: &impl ResourceExt, pending: &mut Pending) {
    let namespace = import.namespace().unwrap_or_default();
    let service = ServiceRef { namespace: namespace.clone(), name: import.name_any() };
    pending.services.insert(Key::new(namespace, names::derived_service(dialect, &service)));
    pending.service_changes += 1;
}

/// Where a slice's endpoints serve, ready or not.
fn serving(slice: &EndpointSlice) -> impl Iterator<Item = SocketAddr> + '_ {
    let is_serving = |conditions: &Option<k8s_openapi::api::discovery::v1::EndpointConditions>| {
        conditions.as_ref().and_then(|conditions| conditions.serving).unwrap_or(true)
    };
    let endpoints = slice.endpoints.iter().flatten().filter(move |endpoint| is_serving(&endpoint.conditions));
    let addresses = endpoints.filter_map(|endpoint| endpoint.addresses.first()?.parse().ok());
    let ports = slice.ports.iter().flatten().filter_map(|port| u16::try_from(port.port?).ok());
    let ports: Vec<u16> = ports.collect();
    addresses
        .flat_map(move |address| ports.clone().into_iter().map(move |port| SocketAddr::new(address, port)))
}
