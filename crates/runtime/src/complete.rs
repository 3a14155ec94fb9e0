//! Knowing up to which version a cache has everything.
//!
//! What is deleted before a list leaves no trace in it, and neither does the version of the list: the library keeps that to
//! itself. So after every list the server is asked once more, and when what it shows is just what the cache has, the cache is
//! complete up to the version of that answer. From there on the watch tells of all that happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::cache::{Cache, follow_unread};
use crate::key::Key;
use crate::unread::Unread;

/// How long the server may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// When to ask again after a change was under way, or no answer came.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps `cache` in step with the server, for ever, and says how far: see [`Cache::complete_up_to`].
pub async fn follow_completely<K>(cache: Arc<Cache<K>>, api: Api<K>, config: watcher::Config)
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
{
    let api = Unread::of(api);
    // In one task: whoever compares must not come between a change and those who hear of it.
    tokio::join!(follow_unread(&cache, api.clone(), config), compare(&cache, &api));
}

/// Compares after every list, for ever.
async fn compare<K>(cache: &Cache<K>, api: &Api<Unread>)
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
{
    let mut compared = 0;
    loop {
        let lists = cache.lists.wait_for(|lists| lists > compared).await;
        match version_of(cache, api).await {
            Some(version) => {
                cache.set_complete_up_to(version);
                compared = lists;
            }
            None => sleep(AGAIN).await,
        }
    }
}

/// The server's version, if it has just what the cache has.
async fn version_of<K>(cache: &Cache<K>, api: &Api<Unread>) -> Option<u64>
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
{
    let list = timeout(ANSWER, api.list(&ListParams::default())).await.ok()?.ok()?;
    // One that cannot be read is not in the cache.
    let readable = list.items.iter().filter(|object| object.read::<K>().is_ok());
    let there: BTreeMap<_, _> = readable.map(|object| (Key::of(object), object.resource_version())).collect();
    let here = cache.all().into_iter().map(|object| (Key::of(&*object), object.resource_version())).collect();
    let version = list.metadata.resource_version?.parse().ok();
    version.filter(|_| there == here)
}
