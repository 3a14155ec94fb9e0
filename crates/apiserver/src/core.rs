//! One cluster's state: what every request, in process or over TLS, works on.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use tokio::sync::watch;
use tombolo_runtime::Clock;

use crate::auth::Auth;
use crate::entropy::Entropy;
use crate::nodes::Nodes;
use crate::registry::{Registry, Resource};
use crate::rules::service::{Addresses, Features, Network};
use crate::store::{DataError, Folder, Pages, Snapshot, Store, Writer};

/// The collection of the definitions that make custom resources.
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// The collection of Services, whose addresses are drawn from pools.
const SERVICES: &str = "/services";
/// The collection of namespaces.
pub(crate) const NAMESPACES: &str = "/namespaces";

/// A cluster's state and settings. Shared by all requests; holds no task and no socket.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store<WriterState>,
    pub(crate) pages: Pages,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) features: Features,
    pub(crate) network: Network,
    pub(crate) auth: Auth,
    /// True once the cluster stops: every watch ends.
    pub(crate) closing: watch::Sender<bool>,
    /// Rings when other resources are served than before.
    pub(crate) served: watch::Sender<()>,
    /// Whoever runs the pods, if anybody does.
    pub(crate) nodes: OnceLock<Arc<dyn Nodes>>,
    registry: RwLock<Arc<Registry>>,
}

/// What a cluster is given when it starts.
pub(crate) struct CoreSettings {
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) features: Features,
    pub(crate) network: Network,
    pub(crate) auth: Auth,
}

/// Starting from the time of day, a cluster that restarts empty never hands out a revision twice: watchers of its
/// former life get a clean 410.
fn seed(clock: &Clock) -> u64 {
    clock.now().as_millisecond().max(1) as u64
}

/// What only the current writer may touch.
#[derive(Clone, Debug)]
pub(crate) struct WriterState {
    pub(crate) addresses: Addresses,
    /// When old events are looked for next.
    pub(crate) next_sweep: Timestamp,
}

impl WriterState {
    fn new(settings: &CoreSettings) -> Self {
        Self { addresses: Addresses::new(settings.network.clone()), next_sweep: settings.clock.now() }
    }
}

/// Everything a cluster held at one moment: cheap, because objects are shared.
#[derive(Clone, Debug)]
pub struct Backup {
    objects: Snapshot,
    writers: WriterState,
    registry: Arc<Registry>,
}

/// The writer of a cluster.
pub(crate) type ClusterWriter<'a> = Writer<'a, WriterState>;

impl Core {
    pub(crate) fn new(settings: CoreSettings) -> Self {
        let store = Store::new(seed(&settings.clock), settings.clock.clone(), WriterState::new(&settings));
        Self::around(store, settings)
    }

    /// What was left in `folder`, or an empty cluster that is kept there.
    pub(crate) fn open(folder: Folder, settings: CoreSettings) -> Result<Self, DataError> {
        let (clock, state) = (settings.clock.clone(), WriterState::new(&settings));
        let core = Self::around(Store::open(folder, seed(&clock), clock, state)?, settings);
        core.refresh_registry();
        let mut writer = core.store.write();
        for service in core.store.list(SERVICES, None).1 {
            writer.extra.addresses.adopt(&service.value);
        }
        drop(writer);
        Ok(core)
    }

    fn around(store: Store<WriterState>, settings: CoreSettings) -> Self {
        let CoreSettings { clock, entropy, features, network, auth } = settings;
        Self {
            store,
            pages: Pages::default(),
            clock,
            entropy,
            features,
            network,
            auth,
            closing: watch::Sender::new(false),
            served: watch::Sender::new(()),
            nodes: OnceLock::new(),
            registry: RwLock::new(Arc::new(Registry::new([]))),
        }
    }

    pub(crate) fn backup(&self) -> Backup {
        let writer = self.store.write();
        Backup { objects: self.store.snapshot(), writers: writer.extra.clone(), registry: self.registry() }
    }

    pub(crate) fn restore(&self, backup: &Backup) {
        let mut writer = self.store.write();
        writer.restore(&backup.objects);
        *writer.extra = backup.writers.clone();
        self.pages.forget();
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = backup.registry.clone();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A built-in resource that is known to exist.
    pub(crate) fn builtin(&self, group: &str, plural: &str) -> Arc<Resource> {
        self.registry().preferred(group, plural).cloned().expect("the built-in table has it")
    }

    /// Reads the definitions again, after one of them changed.
    pub(crate) fn refresh_registry(&self) {
        let definitions = self.store.list(DEFINITIONS, None).1;
        let fresh = Registry::new(definitions.iter().map(|stored| &stored.value));
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        self.served.send_replace(());
    }
}
