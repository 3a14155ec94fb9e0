//! What the server last told about all objects of one kind.
//!
//! One task writes it from one watch; any number of controllers read it and are told about changes. It lags behind the
//! server, so it says where to look, not what is true: before a controller makes or deletes something that cannot be
//! guarded by a name or a resource version, it asks the server again.
//!
//! What belongs together is found without looking through everything: an index puts each object into the groups its
//! function names. A cache need not keep what its readers do not read: [`Cache::trimmed`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::causes::with_causes;
use crate::key::Key;
use crate::signal::Signal;
use crate::trim::keep_applied;
use crate::unread::{self, Unread};

/// What happened to one object.
#[derive(Debug)]
pub enum Change<'a, K> {
    Put {
        old: Option<&'a K>,
        new: &'a K,
    },
    /// Its last state: as the server told it, or as it was known before a new list came without it.
    Gone(&'a K),
}

type Listener<K> = Box<dyn Fn(&Change<'_, K>) + Send + Sync>;
/// The groups an object belongs to.
type Grouping<K> = fn(&K) -> Vec<Key>;
/// Takes away what nobody reads.
type Trim<K> = fn(&mut K);

/// All objects of kind `K`, as far as they are known.
pub struct Cache<K> {
    objects: Mutex<Objects<K>>,
    listeners: Mutex<Vec<Listener<K>>>,
    /// How many lists it has taken in.
    pub(crate) lists: Signal<u64>,
    complete_up_to: AtomicU64,
    trim: Trim<K>,
}

struct Objects<K> {
    all: BTreeMap<Key, Arc<K>>,
    groups: BTreeMap<Key, BTreeSet<Key>>,
    grouping: Grouping<K>,
}

impl<K: ResourceExt> Objects<K> {
    fn put(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        let key = Key::of(&*object);
        let groups = (self.grouping)(&object);
        let old = self.all.insert(key.clone(), object);
        if let Some(old) = &old {
            let left = (self.grouping)(old).into_iter().filter(|group| !groups.contains(group)).collect();
            self.leave(&key, left);
        }
        for group in groups {
            self.groups.entry(group).or_default().insert(key.clone());
        }
        old
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.all.remove(key)?;
        self.leave(key, (self.grouping)(&old));
        Some(old)
    }

    fn leave(&mut self, key: &Key, groups: Vec<Key>) {
        for group in groups {
            if let Some(members) = self.groups.get_mut(&group) {
                members.remove(key);
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
    }
}

impl<K: ResourceExt> Cache<K> {
    pub fn new() -> Arc<Self> {
        Self::grouped(|_| Vec::new())
    }

    /// One that also knows which objects belong together; see [`Cache::group`].
    pub fn grouped(grouping: fn(&K) -> Vec<Key>) -> Arc<Self> {
        Self::with(grouping, |_| ())
    }

    /// One that keeps of each object only what `trim` leaves. Names and the resource version have to stay.
    pub fn trimmed(trim: fn(&mut K)) -> Arc<Self> {
        Self::with(|_| Vec::new(), trim)
    }

    fn with(grouping: Grouping<K>, trim: Trim<K>) -> Arc<Self> {
        let objects = Objects { all: BTreeMap::new(), groups: BTreeMap::new(), grouping };
        Arc::new(Self {
            objects: Mutex::new(objects),
            listeners: Mutex::default(),
            lists: Signal::default(),
            complete_up_to: AtomicU64::default(),
            trim,
        })
    }

    /// Calls `listener` with the old and the new state of every object that changes from now on.
    pub fn listen(&self, listener: impl Fn(&K) + Send + Sync + 'static) {
        self.listen_to_changes(move |change| match change {
            Change::Put { old, new } => old.iter().chain([new]).for_each(|object| listener(object)),
            Change::Gone(last) => listener(last),
        });
    }

    /// Calls `listener` with every change from now on.
    pub fn listen_to_changes(&self, listener: impl Fn(&Change<'_, K>) + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Lets go of all listeners.
    pub fn stop_telling(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until everything has been listed once.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        self.lists.wait_for(|lists| lists > 0).await;
    }

    /// Whether everything has been listed once.
    pub fn is_synced(&self) -> bool {
        self.lists.get() > 0
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.objects().all.get(key).cloned()
    }

    /// Everything in all namespaces, in order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.objects().all.values().cloned().collect()
    }

    /// Everything in one namespace, in order of names.
    pub fn within(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.objects();
        let from = objects.all.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace).map(|(_, object)| object.clone()).collect()
    }

    /// Everything in one group, in order.
    pub fn group(&self, group: &Key) -> Vec<Arc<K>> {
        let objects = self.objects();
        let members = objects.groups.get(group).into_iter().flatten();
        members.filter_map(|key| objects.all.get(key).cloned()).collect()
    }

    /// All that happened at the server up to this version is known here, also what went before anybody listened, and
    /// whoever listens has heard of it. Nothing unless it is followed completely.
    pub fn complete_up_to(&self) -> u64 {
        self.complete_up_to.load(Ordering::Acquire)
    }

    pub(crate) fn set_complete_up_to(&self, version: u64) {
        self.complete_up_to.store(version, Ordering::Release);
    }

    fn objects(&self) -> MutexGuard<'_, Objects<K>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: Change<'_, K>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(&change));
    }

    /// An object as it is kept.
    fn keep(&self, mut object: K) -> Arc<K> {
        (self.trim)(&mut object);
        Arc::new(object)
    }

    fn put(&self, object: K) {
        let object = self.keep(object);
        let old = self.objects().put(object.clone());
        self.tell(Change::Put { old: old.as_deref(), new: &object });
    }

    /// Takes an object out; `last` is what the server told about it, if that can be read.
    fn remove(&self, key: &Key, last: Option<K>) {
        let old = self.objects().remove(key);
        if let Some(last) = last.as_ref().or(old.as_deref()) {
            self.tell(Change::Gone(last));
        }
    }

    /// Takes `listed` as everything there is. Listeners hear of what differs: first of what is gone.
    fn replace(&self, listed: BTreeMap<Key, Arc<K>>) {
        let mut objects = self.objects();
        let gone: Vec<Key> = objects.all.keys().filter(|key| !listed.contains_key(key)).cloned().collect();
        let gone: Vec<_> = gone.iter().filter_map(|key| objects.remove(key)).collect();
        let new = listed.into_values();
        let put: Vec<_> = new.map(|object| (objects.put(object.clone()), object)).collect();
        drop(objects);
        gone.iter().for_each(|last| self.tell(Change::Gone(last)));
        for (old, new) in &put {
            if old.as_ref().is_none_or(|old| old.resource_version() != new.resource_version()) {
                self.tell(Change::Put { old: old.as_deref(), new });
            }
        }
        self.lists.update(|lists| lists + 1);
    }
}

/// How long the server keeps a watch open; one that says nothing for a little longer is dead. A connection that was lost on
/// the way, with nobody to say so, is noticed by that alone.
const WATCH_SECONDS: u32 = 30;

/// Keeps `cache` in step with the server, for ever. An object that cannot be read counts as absent: whoever wrote it must
/// not keep the others from being seen.
pub async fn follow<K>(cache: Arc<Cache<K>>, api: Api<K>, config: watcher::Config)
where
    K: Resource<DynamicType: Default> + DeserializeOwned,
{
    follow_unread(&cache, Unread::of(api), config).await;
}

pub(crate) async fn follow_unread<K>(cache: &Cache<K>, api: Api<Unread>, config: watcher::Config)
where
    K: Resource + DeserializeOwned,
{
    let mut events = unread::watch(api, config.timeout(WATCH_SECONDS));
    let mut listed = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object)) => match read(&object) {
                Some(object) => cache.put(object),
                None => cache.remove(&Key::of(&object), None),
            },
            Ok(Event::Delete(object)) => cache.remove(&Key::of(&object), read(&object)),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.extend(read(&object).map(|read| (Key::of(&object), cache.keep(read))));
            }
            Ok(Event::InitDone) => cache.replace(std::mem::take(&mut listed)),
            Err(error) => tracing::warn!(error = %with_causes(&error), "a watch was interrupted"),
        }
    }
}

/// An object as far as caches keep it.
fn read<K: Resource + DeserializeOwned>(object: &Unread) -> Option<K> {
    let (name, namespace) = (&object.meta().name, &object.meta().namespace);
    let unreadable = |error: &_| tracing::warn!(?namespace, ?name, %error, "an object cannot be read");
    let mut read: K = object.read().inspect_err(unreadable).ok()?;
    keep_applied(read.meta_mut());
    Some(read)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{from_value, json};

    use super::*;

    fn object(name: &str, version: &str) -> ConfigMap {
        let metadata = json!({"namespace": "a", "name": name, "resourceVersion": version});
        from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn listed(objects: &[(&str, &str)]) -> BTreeMap<Key, Arc<ConfigMap>> {
        let pairs = objects.iter().map(|(name, version)| object(name, version));
        pairs.map(|object| (Key::of(&object), Arc::new(object))).collect()
    }

    #[test]
    fn a_new_list_tells_only_of_differences() {
        let cache = Cache::new();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        cache.replace(listed(&[("same", "1"), ("gone", "2"), ("moved", "3")]));
        cache.listen(move |object: &ConfigMap| log.lock().unwrap().push(object.name_any()));
        cache.replace(listed(&[("same", "1"), ("moved", "5"), ("new", "4")]));
        assert_eq!(*heard.lock().unwrap(), ["gone", "moved", "moved", "new"]);
        let names: Vec<String> = cache.within("a").iter().map(|object| object.name_any()).collect();
        assert_eq!(names, ["moved", "new", "same"]);
        assert!(cache.within("b").is_empty());
    }

    #[test]
    fn a_trimmed_cache_keeps_and_tells_what_is_left() {
        let cache = Cache::trimmed(|object: &mut ConfigMap| object.data = None);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        cache.listen(move |object: &ConfigMap| log.lock().unwrap().push(object.data.is_some()));
        let full = ConfigMap { data: Some([("a".to_owned(), "b".to_owned())].into()), ..object("one", "1") };
        cache.put(full);
        assert_eq!(cache.get(&Key::new("a", "one")).unwrap().data, None);
        assert_eq!(*heard.lock().unwrap(), [false]);
    }

    #[test]
    fn groups_follow_their_members() {
        let cache = Cache::grouped(|object: &ConfigMap| {
            let version = object.resource_version().unwrap_or_default();
            vec![Key::new("", version)]
        });
        let named = |group: &str| -> Vec<String> {
            cache.group(&Key::new("", group)).iter().map(|object| object.name_any()).collect()
        };
        cache.replace(listed(&[("a", "1"), ("b", "1"), ("c", "2")]));
        assert_eq!(named("1"), ["a", "b"]);
        cache.put(object("a", "2"));
        assert_eq!((named("1"), named("2")), (vec!["b".to_owned()], vec!["a".to_owned(), "c".to_owned()]));
        cache.remove(&Key::new("a", "b"), Some(object("b", "9")));
        assert!(named("1").is_empty());
        cache.replace(listed(&[("c", "3")]));
        assert_eq!((named("2").len(), named("3").len()), (0, 1));
    }
}
