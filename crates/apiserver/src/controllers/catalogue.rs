//! Which kinds there are, custom ones included.
//!
//! Controllers that deal with all kinds ask here. The answer changes when CustomResourceDefinitions do, so those are
//! watched; what cannot be listed, watched and deleted is left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::discovery::{Discovery, Scope, verbs};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tombolo_runtime::Patience;

/// A new definition may be served a moment after it is there, so one more look follows.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// The metadata of an object of any kind.
pub(super) type Meta = PartialObjectMeta<DynamicObject>;

/// A kind by its group and name; the version does not matter for who somebody is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKind {
    pub(super) group: String,
    pub(super) kind: String,
}

impl GroupKind {
    /// From the fields of a reference.
    pub(super) fn new(api_version: &str, kind: &str) -> Self {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self { group: group.to_owned(), kind: kind.to_owned() }
    }
}

/// How to reach a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
}

impl Kind {
    /// Its objects in one namespace, or where it has none, all of them.
    pub(super) fn within(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    pub(super) fn everywhere(&self, client: &Client) -> Api<Meta> {
        Api::all_with(client.clone(), &self.resource)
    }
}

pub(super) type Kinds = BTreeMap<GroupKind, Kind>;

/// Asks the server for its kinds.
pub(super) async fn discover(client: &Client) -> Result<Kinds, Error> {
    let found = Discovery::new(client.clone()).run_aggregated().await?;
    let mut kinds = Kinds::new();
    for (resource, capabilities) in found.groups().flat_map(|group| group.resources_by_stability()) {
        let able = |verb: &str| capabilities.supports_operation(verb);
        // Events are seen under two names.
        if resource.group == "events.k8s.io"
            || ![verbs::LIST, verbs::WATCH, verbs::DELETE].into_iter().all(able)
        {
            continue;
        }
        let name = GroupKind { group: resource.group.clone(), kind: resource.kind.clone() };
        kinds.insert(name, Kind { resource, namespaced: capabilities.scope == Scope::Namespaced });
    }
    Ok(kinds)
}

/// The kinds as they are now, for any number of readers.
pub(super) type Catalogue = watch::Sender<Arc<Kinds>>;

pub(super) fn new() -> Catalogue {
    watch::Sender::new(Arc::default())
}

/// Keeps the catalogue up to date, for ever.
pub(super) async fn maintain(client: Client, catalogue: Arc<Catalogue>) {
    let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client.clone());
    let mut changes = watcher(definitions, watcher::Config::default()).backoff(Patience::default()).boxed();
    let mut patience = Patience::default();
    let mut due = None;
    loop {
        tokio::select! {
            biased;
            // A list comes in pieces; only its end is news.
            Some(event) = changes.next() => match event {
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                Ok(_) => due = Some(Instant::now() + SECOND_LOOK),
                Err(error) => {
                    tracing::warn!(%error, "the watch of definitions was interrupted");
                    continue;
                }
            },
            () = wait(due) => due = None,
        }
        match discover(&client).await {
            Ok(kinds) => {
                patience = Patience::default();
                publish(&catalogue, kinds);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot find out which kinds there are");
                due = patience.next().map(|delay| Instant::now() + delay);
            }
        }
    }
}

async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn publish(catalogue: &Catalogue, kinds: Kinds) {
    catalogue.send_if_modified(|known| {
        let changed = **known != kinds;
        *known = Arc::new(kinds);
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_kind_whatever_the_version() {
        for version in ["apps/v1", "apps/v1beta1"] {
            let expected = GroupKind { group: "apps".to_owned(), kind: "Deployment".to_owned() };
            assert_eq!(GroupKind::new(version, "Deployment"), expected);
        }
        assert_eq!(GroupKind::new("v1", "Pod").group, "");
    }
}
