//! Kinds that a cluster may lack: they are followed once they are there, and not waited for until then.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tombolo_runtime::{Cache, follow};

/// How often to look whether the kind is there now.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A kind that may be missing.
pub(crate) struct Optional {
    client: Client,
    says_missing: fn(&kube::Error) -> bool,
}

impl Optional {
    /// Missing while it is not installed.
    pub(crate) fn installed(client: &Client) -> Self {
        Self { client: client.clone(), says_missing: is_unknown }
    }

    /// Missing also while this account may not read it: it can be done without.
    pub(crate) fn allowed(client: &Client) -> Self {
        Self { client: client.clone(), says_missing: |error| is_unknown(error) || is_forbidden(error) }
    }

    /// Keeps `cache` in step once the kind is there.
    pub(crate) async fn follow<K>(self, cache: Arc<Cache<K>>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api: Api<K> = Api::all(self.client.clone());
        while self.is_missing(&api).await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        follow(cache, api, watcher::Config::default()).await;
    }

    /// Waits until everything has been listed once, if there is anything to list.
    pub(crate) async fn synced<K>(self, cache: &Cache<K>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        if !self.is_missing(&Api::<K>::all(self.client.clone())).await {
            cache.synced().await;
        }
    }

    async fn is_missing<K: Clone + DeserializeOwned + Debug>(&self, api: &Api<K>) -> bool {
        let listed = api.list(&ListParams::default().limit(1)).await;
        listed.is_err_and(|error| (self.says_missing)(&error))
    }
}

/// Whether there is no such thing or no such kind. Of a kind that nobody installed an API server may say so without saying
/// why.
pub(crate) fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
