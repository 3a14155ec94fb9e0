//! From watch events to the table: what changed is read again, one service at a time.
//!
//! Nothing is published before everything it depends on has been listed once: half a list would make names vanish that
//! exist. After a broken watch only what differs is read again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service as CoreService};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{Dialect, MANAGED_BY_LABEL, MANAGER};
use tombolo_api::{kep, mcs};
use tombolo_model::Policy;
use tombolo_runtime::{Cache, Clock, Key, follow};

use crate::answer::Settings;
use crate::changes::{Batch, Changes};
use crate::metrics::Metrics;
use crate::trim;
use crate::zone::{Read, Reader, Realm, Zones, key, room};

/// Changes that come within this time are published together, under one serial.
const TOGETHER: Duration = Duration::from_millis(1);
/// After so many services others get a turn.
const TURN: usize = 256;

/// The objects of the member that names come from.
pub(crate) struct View {
    kep: Arc<Cache<kep::ImportedService>>,
    mcs: Arc<Cache<mcs::ServiceImport>>,
    services: Arc<Cache<CoreService>>,
    slices: Arc<Cache<EndpointSlice>>,
    namespaces: Arc<Cache<Namespace>>,
    changes: Arc<Changes>,
    settings: Arc<Settings>,
}

impl View {
    pub(crate) fn new(settings: &Arc<Settings>) -> Arc<Self> {
        let view = Self {
            kep: Cache::trimmed(trim::kep),
            mcs: Cache::trimmed(trim::mcs),
            services: Cache::trimmed(trim::service),
            slices: Cache::trimmed(trim::slice),
            namespaces: Cache::trimmed(trim::namespace),
            changes: Arc::default(),
            settings: settings.clone(),
        };
        view.listen();
        Arc::new(view)
    }

    fn listen(&self) {
        let changes = self.changes.clone();
        self.kep.listen(move |import| changes.service(Realm::Kep, Key::of(import)));
        let changes = self.changes.clone();
        self.mcs.listen(move |import| changes.service(Realm::Mcs, Key::of(import)));
        let changes = self.changes.clone();
        self.services.listen(move |service| changes.service(Realm::Cluster, Key::of(service)));
        let changes = self.changes.clone();
        self.namespaces.listen(move |namespace| changes.namespace(namespace.name_any()));
        let changes = self.changes.clone();
        self.slices.listen(move |slice| {
            if let Some((realm, service)) = owner(slice) {
                changes.slice(realm, service, slice.name_any());
            }
        });
    }

    /// The realms that have a zone.
    pub(crate) fn realms(&self) -> Vec<Realm> {
        Realm::ALL.into_iter().filter(|realm| self.settings.longest_apex(*realm).is_some()).collect()
    }

    /// Starts the watches that the zones need.
    pub(crate) fn follow(&self, client: &Client, tasks: &mut JoinSet<()>) {
        let all = watcher::Config::default;
        let realms = self.realms();
        let has = |realm| realms.contains(&realm);
        if has(Realm::Kep) {
            tasks.spawn(follow(self.kep.clone(), Api::all(client.clone()), all()));
        }
        if has(Realm::Mcs) {
            tasks.spawn(follow(self.mcs.clone(), Api::all(client.clone()), all()));
        }
        if has(Realm::Cluster) {
            tasks.spawn(follow(self.services.clone(), Api::all(client.clone()), all()));
        }
        let wanted = if has(Realm::Cluster) { all() } else { all().labels(mcs::SOURCE_CLUSTER_LABEL) };
        tasks.spawn(follow(self.slices.clone(), Api::all(client.clone()), wanted));
        tasks.spawn(follow(self.namespaces.clone(), Api::all(client.clone()), all()));
    }

    /// Waits until all that the names of a realm depend on has been listed once.
    pub(crate) async fn synced(&self, realm: Realm) {
        self.slices.synced().await;
        self.namespaces.synced().await;
        match realm {
            Realm::Kep => self.kep.synced().await,
            Realm::Mcs => self.mcs.synced().await,
            Realm::Cluster => self.services.synced().await,
        }
    }

    /// What is known of one service; nothing in a namespace that is not there (KEP-1645, Namespace sameness).
    pub(crate) fn read(&self, reader: &mut Reader, realm: Realm, service: &Key) -> Read {
        let place = key(&service.namespace, &service.name);
        let (Some(place), Some(apex)) = (place, self.settings.longest_apex(realm)) else {
            return Read::default();
        };
        if self.namespaces.get(&Key::new("", service.namespace.clone())).is_none() {
            return Read::default();
        }
        let room = room(&place, apex);
        let slices = self.slices_of(realm, service);
        match realm {
            Realm::Kep => self.kep.get(service).map(|import| reader.kep(&import, &slices, room)),
            Realm::Mcs => self.mcs.get(service).map(|import| reader.mcs(&import, &slices, room)),
            Realm::Cluster => self
                .services
                .get(service)
                .filter(|service| !is_derived(service))
                .map(|service| reader.cluster(&service, &slices, room)),
        }
        .unwrap_or_default()
    }

    /// What the object of a service says, for a person; `None` if there is none.
    pub(crate) fn state(&self, realm: Realm, service: &Key) -> Option<String> {
        match realm {
            Realm::Kep => self.kep.get(service).map(|import| {
                let clusters: Vec<&str> =
                    import.spec.clusters.iter().map(|part| part.cluster.as_str()).collect();
                format!("ip {:?}, clusters {clusters:?}", import.spec.ip)
            }),
            Realm::Mcs => self
                .mcs
                .get(service)
                .map(|import| format!("type {}, ips {:?}", import.spec.type_, import.spec.ips)),
            Realm::Cluster => self.services.get(service).map(|found| {
                let spec = found.spec.clone().unwrap_or_default();
                let derived = if is_derived(&found) { ", only holds the address of an import" } else { "" };
                format!("type {:?}, clusterIPs {:?}{derived}", spec.type_, spec.cluster_ips)
            }),
        }
    }

    pub(crate) fn slices_of(&self, realm: Realm, service: &Key) -> Vec<Arc<EndpointSlice>> {
        self.changes.slices(realm, service, |place| {
            let belongs =
                |slice: &Arc<EndpointSlice>| owner(slice).as_ref() == Some(&(realm, service.clone()));
            self.slices.get(place).filter(belongs)
        })
    }

    /// Keeps `zones` in step, for ever.
    pub(crate) async fn publish(self: Arc<Self>, zones: Arc<Zones>, metrics: Metrics, clock: Clock) {
        let mut publisher = Publisher {
            view: self,
            zones,
            metrics,
            clock,
            reader: Reader::default(),
            unfit: Default::default(),
        };
        let (mut waiting, mut ready) = (publisher.view.realms(), Vec::new());
        while !waiting.is_empty() {
            let view = publisher.view.clone();
            let next = async {
                let all = waiting.iter().map(|realm| {
                    Box::pin(async {
                        view.synced(*realm).await;
                        *realm
                    })
                });
                first(all.collect()).await
            };
            tokio::select! {
                batch = publisher.view.changes.take(&ready), if !ready.is_empty() => publisher.apply(batch, &ready).await,
                realm = next => {
                    waiting.retain(|other| *other != realm);
                    ready.push(realm);
                    let batch = publisher.view.changes.take_now(&ready);
                    publisher.apply(batch, &ready).await;
                    publisher.zones.complete(realm);
                    tracing::info!(realm = realm.as_str(), services = publisher.zones.services(realm), "complete");
                }
            }
        }
        loop {
            let batch = publisher.view.changes.take(&ready).await;
            publisher.apply(batch, &ready).await;
            tokio::time::sleep(TOGETHER).await;
        }
    }
}

/// The result of whichever future is first.
async fn first<F: Future + Unpin>(mut futures: Vec<F>) -> F::Output {
    std::future::poll_fn(move |context| {
        let done = futures.iter_mut().find_map(|future| match std::pin::Pin::new(future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        });
        done.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await
}

struct Publisher {
    view: Arc<View>,
    zones: Arc<Zones>,
    metrics: Metrics,
    clock: Clock,
    reader: Reader,
    /// Services with endpoints that have no name, and how many.
    unfit: BTreeMap<(Realm, Key), usize>,
}

impl Publisher {
    /// Namespaces first: what comes and goes with them is read in the same go.
    async fn apply(&mut self, batch: Batch, realms: &[Realm]) {
        for (name, _) in &batch.namespaces {
            self.namespace(name);
        }
        let mut services: BTreeMap<(Realm, Key), Instant> = batch.services.into_iter().collect();
        for (service, since) in self.view.changes.take_services(realms) {
            services.entry(service).or_insert(since);
        }
        for (turn, (realm, service)) in services.keys().enumerate() {
            self.service(*realm, service);
            if turn % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        self.zones.advance(u32::try_from(self.clock.now().as_second()).unwrap_or_default());
        let since = services.values().chain(batch.namespaces.iter().map(|(_, since)| since));
        self.metrics.note_update(since.map(|since| since.elapsed()), self.unfit.values().sum());
    }

    fn service(&mut self, realm: Realm, service: &Key) {
        let Read { service: known, unfit } = self.view.read(&mut self.reader, realm, service);
        if let Some(place) = key(&service.namespace, &service.name) {
            self.zones.put(realm, &place, known);
        }
        if unfit > 0 {
            self.unfit.insert((realm, service.clone()), unfit);
        } else {
            self.unfit.remove(&(realm, service.clone()));
        }
    }

    /// With a namespace all its services come and go.
    fn namespace(&mut self, name: &str) {
        let exists = self.view.namespaces.get(&Key::new("", name)).is_some();
        let mut label = Vec::new();
        if !crate::zone::push_label(&mut label, name) || self.zones.has_namespace(&label) == exists {
            return;
        }
        self.zones.put_namespace(name, exists);
        let changes = self.view.changes.clone();
        let note = |realm: Realm, object: &dyn Fn() -> Vec<Key>| {
            object().into_iter().for_each(|key| changes.service(realm, key));
        };
        note(Realm::Kep, &|| keys(&self.view.kep, name));
        note(Realm::Mcs, &|| keys(&self.view.mcs, name));
        note(Realm::Cluster, &|| keys(&self.view.services, name));
    }
}

fn keys<K: ResourceExt>(cache: &Cache<K>, namespace: &str) -> Vec<Key> {
    cache.within(namespace).iter().map(|object| Key::of(&**object)).collect()
}

/// The service that a slice belongs to. Those of an import belong to it alone, and name it; endpoints of other clusters that
/// name none stand behind a Service under its own name, as those of this cluster do.
fn owner(slice: &EndpointSlice) -> Option<(Realm, Key)> {
    let label = |key: &str| slice.labels().get(key).cloned();
    let namespace = slice.namespace()?;
    let realms = [
        (Realm::Kep, Policy::of(Dialect::Kep).import_label),
        (Realm::Mcs, Policy::of(Dialect::Mcs).import_label),
    ];
    let import = realms.into_iter().find_map(|(realm, key)| Some((realm, label(key)?)));
    let own = || Some((Realm::Cluster, label(SERVICE_NAME_LABEL)?));
    let (realm, name) = import.or_else(own)?;
    Some((realm, Key::new(namespace, name)))
}

/// A Service that only holds the address of an import. Its own name is nobody's business.
fn is_derived(service: &CoreService) -> bool {
    let labels = service.labels();
    let ours = labels.get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER);
    let import = Dialect::ALL.iter().any(|dialect| labels.contains_key(Policy::of(*dialect).import_label));
    ours && import
}
