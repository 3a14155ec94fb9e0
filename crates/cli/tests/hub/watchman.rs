//! Somebody who sees every state that objects go through, not only the last one.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tombolo_runtime::{Cache, Change, follow};

/// What happened to an object.
#[derive(Clone, Debug)]
pub(crate) enum Seen<K> {
    Put(K),
    Gone(K),
}

impl<K> Seen<K> {
    /// The object as it became, or as it last was.
    pub(crate) fn object(&self) -> &K {
        let (Self::Put(object) | Self::Gone(object)) = self;
        object
    }
}

pub(crate) struct Watchman<K> {
    seen: Arc<Mutex<Vec<Seen<K>>>>,
    task: JoinHandle<()>,
}

impl<K> Watchman<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// One who sees all that happens from now on.
    pub(crate) async fn post(api: Api<K>) -> Self {
        let (cache, seen) = (Cache::<K>::new(), Arc::<Mutex<Vec<Seen<K>>>>::default());
        let task = tokio::spawn(follow(cache.clone(), api, watcher::Config::default()));
        cache.synced().await;
        let log = seen.clone();
        cache.listen_to_changes(move |change| {
            log.lock().unwrap().push(match change {
                Change::Put { new, .. } => Seen::Put((*new).clone()),
                Change::Gone(last) => Seen::Gone((*last).clone()),
            });
        });
        Self { seen, task }
    }

    /// All that happened since.
    pub(crate) fn dismiss(self) -> Vec<Seen<K>> {
        self.task.abort();
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}
