//! Watches the metadata of every kind and draws the graph.
//!
//! One task reads all watches. When kinds come or go, theirs are added or ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_kind};
use kube::{Client, ResourceExt};
use tokio::sync::oneshot;
use tombolo_runtime::{Patience, Queue};

use super::super::catalogue::{Catalogue, GroupKind, Kind, Kinds, Meta};
use super::graph::{Graph, Record};

type Change = (GroupKind, Result<Event<Meta>, watcher::Error>);

/// What the watches of a moment are.
struct Observer {
    client: Client,
    graph: Arc<Mutex<Graph>>,
    queue: Arc<Queue<String>>,
    changes: SelectAll<BoxStream<'static, Change>>,
    /// The kinds that are watched; dropping the sender ends the watch.
    watched: BTreeMap<GroupKind, (Kind, oneshot::Sender<()>)>,
    /// What has been listed of kinds that are being listed.
    listed: BTreeMap<GroupKind, BTreeSet<String>>,
}

/// Keeps `graph` in step with the server and puts into `queue` what has to be looked at, for ever.
pub(super) async fn observe(
    client: Client,
    catalogue: Arc<Catalogue>,
    graph: Arc<Mutex<Graph>>,
    queue: Arc<Queue<String>>,
) {
    let mut kinds = catalogue.subscribe();
    let (changes, watched, listed) = (SelectAll::new(), BTreeMap::new(), BTreeMap::new());
    let mut observer = Observer { client, graph, queue, changes, watched, listed };
    kinds.mark_changed();
    loop {
        tokio::select! {
            biased;
            // The catalogue outlives this task: its sender is held here.
            _ = kinds.changed() => {
                let now = kinds.borrow_and_update().clone();
                observer.follow(&now);
            }
            Some((kind, event)) = observer.changes.next() => observer.take(&kind, event),
        }
    }
}

impl Observer {
    /// Watches exactly these kinds.
    fn follow(&mut self, kinds: &Kinds) {
        let gone: Vec<GroupKind> = self
            .watched
            .iter()
            .filter(|(name, (kind, _))| kinds.get(name) != Some(kind))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            self.watched.remove(name);
            self.listed.remove(name);
        }
        for name in gone.iter().filter(|name| !kinds.contains_key(name)) {
            self.graph.lock().unwrap_or_else(PoisonError::into_inner).forget(name);
        }
        let mut news = !gone.is_empty();
        // Events come by the thousand, go by themselves, and own nothing.
        for (name, kind) in kinds.iter().filter(|(name, _)| name.kind != "Event") {
            if !self.watched.contains_key(name) {
                self.watch(name.clone(), kind.clone());
                news = true;
            }
        }
        if news {
            self.change(|graph| graph.owned());
        }
    }

    fn watch(&mut self, name: GroupKind, kind: Kind) {
        let (end, ended) = oneshot::channel();
        let label = name.clone();
        let events = watch_kind(kind.everywhere(&self.client), watcher::Config::default());
        let events = events.backoff(Patience::default()).map(move |event| (label.clone(), event));
        self.changes.push(events.take_until(ended).boxed());
        self.watched.insert(name, (kind, end));
    }

    fn take(&mut self, kind: &GroupKind, event: Result<Event<Meta>, watcher::Error>) {
        match event {
            Ok(Event::Apply(object)) => self.put(kind, &object),
            Ok(Event::Delete(object)) => {
                let uid = object.uid().unwrap_or_default();
                self.change(|graph| graph.remove(&uid));
            }
            Ok(Event::Init) => {
                self.listed.insert(kind.clone(), BTreeSet::new());
            }
            Ok(Event::InitApply(object)) => {
                self.listed.entry(kind.clone()).or_default().insert(object.uid().unwrap_or_default());
                self.put(kind, &object);
            }
            Ok(Event::InitDone) => {
                let present = self.listed.remove(kind).unwrap_or_default();
                self.change(|graph| graph.retain(kind, &present));
            }
            Err(error) => tracing::debug!(?kind, %error, "a watch was interrupted"),
        }
    }

    fn put(&self, kind: &GroupKind, object: &Meta) {
        let uid = object.uid().unwrap_or_default();
        self.change(|graph| graph.put(&uid, Record::of(kind, object)));
    }

    fn change(&self, change: impl FnOnce(&mut Graph) -> Vec<String>) {
        let affected = change(&mut self.graph.lock().unwrap_or_else(PoisonError::into_inner));
        affected.into_iter().for_each(|uid| self.queue.add(uid));
    }
}
