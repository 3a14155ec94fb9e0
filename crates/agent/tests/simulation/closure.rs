//! Services that are `RemoteOnly`: once that is carried out, no local endpoint may stand behind them, not for a moment.
//!
//! One counts as closed when its selector is aside, no slice leads to local pods, and no user did anything about it for a
//! while. From then on every slice that the member's own controllers write is looked at, whoever restarts or fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use tokio::time::Instant;
use tombolo_api::karmada::strategy::ImportStrategy;
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL, STOCK_SLICE_CONTROLLER};
use tombolo_model::strategy;
use tombolo_runtime::{Change, Key};

use crate::invariants::{Invariant, State, is_long_ago};
use crate::log::{Log, locked};
use crate::native::behind;
use crate::schedule::{SERVICES, key};
use crate::truth::addresses;
use crate::world::{Member, World};

/// A Service of a member.
type Place = (String, Key);

/// What is closed.
#[derive(Default)]
pub(crate) struct Closures {
    closed: Arc<Mutex<BTreeSet<Place>>>,
    /// When a user last did something about a Service that was, or may become, closed.
    opened: BTreeMap<Place, Instant>,
    /// How many were closed, summed over all looks: a run that closes nothing checks nothing.
    pub(crate) watched: usize,
}

impl Closures {
    /// Looks at every slice of a member from now on.
    pub(crate) fn watch(&self, member: &Member, state: &Arc<Mutex<State>>, log: &Log) {
        let (closed, state, log) = (self.closed.clone(), state.clone(), log.clone());
        let (consumer, imports) = (member.name().to_owned(), Arc::downgrade(&member.sight.mcs_imports));
        member.sight.slices.listen_to_changes(move |change| {
            let Change::Put { new: slice, .. } = change else { return };
            let Some((key, imports)) = leads_home(slice).zip(imports.upgrade()) else { return };
            let place = (consumer.clone(), key);
            if locked(&closed).contains(&place) && is_remote_only(imports.get(&place.1).as_deref()) {
                let what = format!("{} in {consumer} has local endpoints: {:?}", place.1, addresses(slice));
                locked(&state).report(&log, Invariant::Closure, what);
            }
        });
    }

    /// A user is about to do something after which local endpoints may be there again.
    pub(crate) fn open(&mut self, member: &Member, key: &Key) {
        let place = (member.name().to_owned(), key.clone());
        locked(&self.closed).remove(&place);
        self.opened.insert(place, Instant::now());
    }

    /// Takes note of what is closed and nobody is about to open.
    pub(crate) fn look(&mut self, world: &World) {
        for member in world.members.iter().filter(|member| is_long_ago(member.unobstructed)) {
            for key in (0..SERVICES.len()).map(key).filter(|key| is_closed(member, key)) {
                let place = (member.name().to_owned(), key);
                if is_long_ago(self.opened.get(&place).copied()) {
                    locked(&self.closed).insert(place);
                }
            }
        }
        self.watched += locked(&self.closed).len();
    }
}

/// Whether an import that is there to stay asks for remote endpoints only.
fn is_remote_only(import: Option<&ServiceImport>) -> bool {
    let import = import.filter(|import| import.metadata.deletion_timestamp.is_none());
    import.and_then(strategy::of_import) == Some(Ok(ImportStrategy::RemoteOnly))
}

/// The service of a slice with endpoints that the member's own controllers wrote.
fn leads_home(slice: &EndpointSlice) -> Option<Key> {
    let label = |key: &str| slice.labels().get(key);
    label(MANAGED_BY_LABEL).filter(|manager| *manager == STOCK_SLICE_CONTROLLER)?;
    slice.endpoints.as_ref().filter(|endpoints| !endpoints.is_empty())?;
    Some(Key::new(slice.namespace()?, label(SERVICE_NAME_LABEL)?.clone()))
}

/// Whether `RemoteOnly` is carried out for a Service of the member's own.
fn is_closed(member: &Member, key: &Key) -> bool {
    let (import, present) = (member.sight.mcs_imports.get(key), member.sight.services.get(key));
    is_remote_only(import.as_deref())
        && present.is_some_and(|service| strategy::is_put_aside(&service))
        && behind(member, key).iter().all(|slice| leads_home(slice).is_none())
}
