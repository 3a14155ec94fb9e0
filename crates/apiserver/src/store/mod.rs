//! Everything the cluster remembers: one revision counter, a sorted map and a change log per resource.
//!
//! There is one writer at a time: whoever holds the [`Writer`] reads, decides and commits without interference, so
//! cross-object invariants (names, addresses, ports) need no repair. Readers never wait for a decision, only for the
//! instant in which a finished change is put into the maps. Objects are immutable and encoded once, when written.

mod encoded;
mod journal;
mod log;
mod page;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use jiff::Timestamp;
use serde_json::Value;
use tombolo_runtime::Clock;

pub(crate) use self::encoded::Encoded;
pub use self::journal::DataError;
pub(crate) use self::journal::Folder;
use self::journal::{Entry, Journal};
use self::log::{Bell, Log};
pub(crate) use self::log::{Change, ChangeKind, Cursor};
pub(crate) use self::page::{Page, Pages, Token};
use crate::object;

/// One version of an object, as stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) value: Value,
    pub(crate) encoded: Encoded,
}

impl Stored {
    /// Stamps the revision into `metadata.resourceVersion` and encodes the object.
    fn new(mut value: Value, revision: u64) -> Arc<Self> {
        object::metadata(&mut value).insert("resourceVersion".into(), revision.to_string().into());
        Arc::new(value.into())
    }
}

impl From<Value> for Stored {
    fn from(value: Value) -> Self {
        Self { encoded: Encoded::new(&value), value }
    }
}

/// Where an object lives within its collection. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn of(value: &Value) -> Self {
        Self::new(object::namespace(value), object::name(value))
    }
}

type Objects = BTreeMap<Key, Arc<Stored>>;

/// The objects of one resource and what happened to them lately.
#[derive(Debug, Default)]
struct Collection {
    objects: Objects,
    log: Log,
}

#[derive(Debug)]
struct State {
    revision: u64,
    /// The revision before the first change: every collection's log is complete from here on.
    origin: u64,
    collections: BTreeMap<Arc<str>, Collection>,
}

/// The store of one cluster.
#[derive(Debug)]
pub(crate) struct Store<A> {
    state: RwLock<State>,
    /// What only a writer may touch; holding it makes one the writer.
    writer: Mutex<A>,
    /// The store on disk; without one, all is gone with the process.
    journal: Option<Journal>,
    clock: Clock,
}

impl<A> Store<A> {
    /// An empty store whose revisions start at `revision`.
    pub(crate) fn new(revision: u64, clock: Clock, writers_only: A) -> Self {
        Self {
            state: RwLock::new(State::starting(revision)),
            writer: Mutex::new(writers_only),
            journal: None,
            clock,
        }
    }

    /// The store that was left in `folder`, or an empty one whose revisions start at `revision`.
    pub(crate) fn open(
        folder: Folder,
        revision: u64,
        clock: Clock,
        writers_only: A,
    ) -> Result<Self, DataError> {
        let fresh = Snapshot { revision, collections: BTreeMap::new() };
        let (journal, state) = Journal::open(folder, fresh, clock.now())?;
        let (state, writer) = (RwLock::new(state), Mutex::new(writers_only));
        Ok(Self { state, writer, journal: Some(journal), clock })
    }

    /// Waits until what has happened so far is as safe as it gets. Whoever tells anybody anything waits for this first.
    pub(crate) async fn settled(&self) -> Result<(), String> {
        match &self.journal {
            Some(journal) => journal.settled().await,
            None => Ok(()),
        }
    }

    /// Resolves when nothing can be kept any more, and says why.
    pub(crate) async fn broken(&self) -> String {
        match &self.journal {
            Some(journal) => journal.broken().await,
            None => std::future::pending().await,
        }
    }

    /// The revision up to which watchers may be told what happened.
    pub(crate) fn visible(&self) -> u64 {
        self.journal.as_ref().map_or_else(|| self.revision(), Journal::visible)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state().revision
    }

    pub(crate) fn get(&self, collection: &str, key: &Key) -> Option<Arc<Stored>> {
        self.state().get(collection, key)
    }

    /// All objects of a collection in the order of their keys, in one namespace or in all, with the revision they show.
    pub(crate) fn list(&self, collection: &str, namespace: Option<&str>) -> (u64, Vec<Arc<Stored>>) {
        let state = self.state();
        let found = state.collections.get(collection).map(|found| found.range(namespace)).unwrap_or_default();
        (state.revision, found)
    }

    /// How many objects a collection holds.
    pub(crate) fn len(&self, collection: &str) -> usize {
        self.state().collections.get(collection).map_or(0, |found| found.objects.len())
    }

    /// A place in the change log of a collection, just after `revision`.
    pub(crate) fn watch(&self, collection: &Arc<str>, revision: u64) -> Cursor {
        if let Some(found) = self.state().collections.get(collection) {
            return found.log.cursor(revision);
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.collection(collection).log.cursor(revision)
    }

    /// The changes of a collection after the cursor, oldest first; `None` when some are no longer known.
    pub(crate) fn changes(&self, collection: &str, after: u64) -> Option<Vec<Arc<Change>>> {
        let visible = self.journal.as_ref().map_or(u64::MAX, Journal::visible);
        let mut changes = self.state().collections.get(collection)?.log.after(after)?;
        changes.truncate(changes.partition_point(|change| change.revision <= visible));
        Some(changes)
    }

    /// The revision after which every change of a collection is still known.
    pub(crate) fn oldest(&self, collection: &str) -> u64 {
        self.state().collections.get(collection).map_or(0, |found| found.log.floor())
    }

    /// The objects of a collection as they were at a past revision; `None` when what happened since is forgotten in part.
    pub(crate) fn list_at(
        &self,
        collection: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Option<Vec<Arc<Stored>>> {
        let state = self.state();
        let Some(found) = state.collections.get(collection) else {
            return (revision >= state.origin).then(Vec::new);
        };
        let mut objects = found.objects.clone();
        for change in found.log.after(revision)?.iter().rev() {
            let key = Key::of(&change.object.value);
            match &change.previous {
                Some(previous) => objects.insert(key, previous.clone()),
                None => objects.remove(&key),
            };
        }
        Some(Collection { objects, log: Log::default() }.range(namespace))
    }

    /// Everything as it is now; the objects are shared, not copied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().snapshot()
    }

    /// Waits until nobody else writes.
    pub(crate) fn write(&self) -> Writer<'_, A> {
        Writer { store: self, extra: self.writer.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// All objects at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    revision: u64,
    collections: BTreeMap<Arc<str>, Objects>,
}

impl Snapshot {
    fn state(&self) -> State {
        let floor = self.revision;
        let collections = self.collections.iter().map(|(name, objects)| {
            (name.clone(), Collection { objects: objects.clone(), log: Log::starting(floor) })
        });
        State { revision: floor, origin: floor, collections: collections.collect() }
    }
}

impl State {
    fn starting(revision: u64) -> Self {
        Self { revision, origin: revision, collections: BTreeMap::new() }
    }

    fn snapshot(&self) -> Snapshot {
        let objects = self.collections.iter().map(|(name, found)| (name.clone(), found.objects.clone()));
        Snapshot { revision: self.revision, collections: objects.collect() }
    }

    fn get(&self, collection: &str, key: &Key) -> Option<Arc<Stored>> {
        self.collections.get(collection)?.objects.get(key).cloned()
    }

    /// Holds an object that was there before the first change.
    fn load(&mut self, collection: &Arc<str>, key: Key, stored: Arc<Stored>) {
        self.collection(collection).objects.insert(key, stored);
    }

    fn put(
        &mut self,
        collection: &Arc<str>,
        key: Key,
        stored: &Arc<Stored>,
        revision: u64,
        now: Timestamp,
    ) -> Arc<Bell> {
        let found = self.collection(collection);
        let previous = found.objects.insert(key, stored.clone());
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        found.log.push(Change::new(revision, kind, stored.clone(), previous), now);
        let bell = found.log.bell();
        self.revision = revision;
        bell
    }

    fn remove(
        &mut self,
        collection: &Arc<str>,
        key: &Key,
        last: &Arc<Stored>,
        revision: u64,
        now: Timestamp,
    ) -> Arc<Bell> {
        let found = self.collection(collection);
        let previous = found.objects.remove(key);
        found.log.push(Change::new(revision, ChangeKind::Deleted, last.clone(), previous), now);
        let bell = found.log.bell();
        self.revision = revision;
        bell
    }

    fn collection(&mut self, name: &Arc<str>) -> &mut Collection {
        let origin = self.origin;
        self.collections.entry(name.clone()).or_insert_with(|| Collection::starting(origin))
    }
}

impl Collection {
    fn starting(floor: u64) -> Self {
        Self { objects: BTreeMap::new(), log: Log::starting(floor) }
    }

    fn range(&self, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let Some(namespace) = namespace else { return self.objects.values().cloned().collect() };
        let from = Bound::Included(Key::new(namespace, ""));
        self.objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, stored)| stored.clone())
            .collect()
    }
}

/// The right to write, held by one at a time.
pub(crate) struct Writer<'a, A> {
    store: &'a Store<A>,
    pub(crate) extra: MutexGuard<'a, A>,
}

impl<A> Writer<'_, A> {
    pub(crate) fn get(&self, collection: &str, key: &Key) -> Option<Arc<Stored>> {
        self.store.get(collection, key)
    }

    /// Holds what `snapshot` holds and nothing else. What happened before it is forgotten, so every watch ends.
    pub(crate) fn restore(&mut self, snapshot: &Snapshot) {
        *self.store.state.write().unwrap_or_else(PoisonError::into_inner) = snapshot.state();
        if let Some(journal) = &self.store.journal {
            journal.begin_anew(snapshot.clone());
        }
    }

    /// Stores a new or changed object under the next revision.
    pub(crate) fn put(&mut self, collection: &Arc<str>, key: Key, value: Value) -> Arc<Stored> {
        let revision = self.store.revision() + 1;
        let stored = Stored::new(value, revision);
        let entry = Entry::Put { collection: collection.clone(), object: stored.clone() };
        self.commit(entry, revision, |state, now| state.put(collection, key, &stored, revision, now));
        stored
    }

    /// Removes an object and tells watchers its last state, which may differ from the stored one.
    pub(crate) fn remove(&mut self, collection: &Arc<str>, key: &Key, last: Value) -> Arc<Stored> {
        let revision = self.store.revision() + 1;
        let stored = Stored::new(last, revision);
        let entry = Entry::Remove { collection: collection.clone(), key: key.clone(), revision };
        self.commit(entry, revision, |state, now| state.remove(collection, key, &stored, revision, now));
        stored
    }

    fn commit(
        &mut self,
        entry: Entry,
        revision: u64,
        change: impl FnOnce(&mut State, Timestamp) -> Arc<Bell>,
    ) {
        let now = self.store.clock.now();
        let mut state = self.store.state.write().unwrap_or_else(PoisonError::into_inner);
        let bell = change(&mut state, now);
        let Some(journal) = &self.store.journal else {
            // Wake watchers only after the lock is gone, so that none of them finds it taken.
            drop(state);
            return bell.set(Some(revision));
        };
        // While nobody can have read it: whoever did would wait for all that the journal knows of.
        journal.change(entry, revision, bell);
        drop(state);
        if journal.wants_snapshot() {
            journal.snapshot(self.store.snapshot());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store() -> Store<()> {
        Store::new(100, Clock::wall(), ())
    }

    fn named(namespace: &str, name: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}})
    }

    #[test]
    fn every_change_gets_the_next_revision_and_the_object_carries_it() {
        let store = store();
        let things: Arc<str> = "things".into();
        let first = store.write().put(&things, Key::new("a", "x"), named("a", "x"));
        let second = store.write().put(&things, Key::new("a", "x"), named("a", "x"));
        let version = |stored: &Stored| stored.value["metadata"]["resourceVersion"].clone();
        assert_eq!((version(&first), version(&second)), ("101".into(), "102".into()));
        assert_eq!(store.revision(), 102);
    }

    #[test]
    fn a_list_is_sorted_and_stays_within_its_namespace() {
        let store = store();
        let things: Arc<str> = "things".into();
        for (namespace, name) in [("b", "x"), ("a", "z"), ("a", "y"), ("ab", "w")] {
            store.write().put(&things, Key::new(namespace, name), named(namespace, name));
        }
        let names = |namespace| -> Vec<String> {
            store.list("things", namespace).1.iter().map(|found| object::name(&found.value).into()).collect()
        };
        assert_eq!(names(Some("a")), ["y", "z"]);
        assert_eq!(names(None), ["y", "z", "w", "x"]);
    }

    #[tokio::test]
    async fn a_restored_store_holds_what_it_held_counts_from_there_and_ends_watches() {
        let store = store();
        let things: Arc<str> = "things".into();
        store.write().put(&things, Key::new("a", "x"), named("a", "x"));
        let snapshot = store.snapshot();
        store.write().put(&things, Key::new("a", "y"), named("a", "y"));
        let cursors = [101, 102].map(|seen| store.watch(&things, seen));
        store.write().restore(&snapshot);
        for mut cursor in cursors {
            assert!(!cursor.news().await, "the watch ends, whether or not it had seen everything");
        }
        assert_eq!((store.revision(), store.len("things")), (101, 1));
        assert!(store.changes("things", 100).is_none(), "the past is forgotten");
        store.write().put(&things, Key::new("a", "z"), named("a", "z"));
        assert_eq!(store.revision(), 102);
        assert_eq!(snapshot.collections["things"].len(), 1, "a snapshot does not change");
    }

    #[test]
    fn a_removed_object_leaves_a_change_with_its_last_state() {
        let store = store();
        let things: Arc<str> = "things".into();
        let key = Key::new("a", "x");
        store.write().put(&things, key.clone(), named("a", "x"));
        store.write().remove(&things, &key, named("a", "x"));
        let changes = store.changes("things", 100).expect("nothing is lost yet");
        assert_eq!(changes[1].kind, ChangeKind::Deleted);
        assert_eq!(changes[1].object.value["metadata"]["resourceVersion"], "102");
        assert!(store.get("things", &key).is_none());
    }
}
