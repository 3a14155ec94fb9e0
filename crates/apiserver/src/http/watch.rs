//! Watches: a stream of changes, one JSON line each.
//!
//! Nothing is queued per watcher. Each takes what is new from the change log when the bell rings and sends all of it in
//! one piece; one that is too slow finds its place gone and is told to list again.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::present::{Presentation, is_shown_as_stored};
use crate::core::Core;
use crate::object;
use crate::registry::Resource;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Change, ChangeKind, Cursor, Stored};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How often a watch that has to start with something newer looks whether that is there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A last bookmark goes out this long before the stream ends, so that the client resumes from a recent place.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// What a watch request asks for.
#[derive(Debug)]
pub(super) struct WatchQuery {
    pub(super) namespace: String,
    pub(super) selector: Selector,
    /// Start after this revision; nothing or 0: start with what is there.
    pub(super) revision: Option<u64>,
    pub(super) bookmarks: bool,
    /// Whether to start with what is there, whatever the revision; `None`: the revision decides.
    pub(super) initial_events: Option<bool>,
    pub(super) timeout: Duration,
}

struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    query: WatchQuery,
    presentation: Presentation,
    cursor: Cursor,
    closing: watch::Receiver<bool>,
    served: watch::Receiver<()>,
    end: Instant,
    next_bookmark: Instant,
    /// The revision that must have been reached before it is said that this was all there is.
    initial_end: Option<u64>,
    said_columns: bool,
    over: bool,
}

/// Why a sleeping watch woke up.
enum Wake {
    Changes,
    /// Perhaps this resource is served no more, or otherwise.
    Served,
    Bookmark,
    /// It may be time to say that this was all.
    InitialEnd,
    End,
}

/// The body of a watch.
pub(super) fn stream(
    core: Arc<Core>,
    resource: Arc<Resource>,
    query: WatchQuery,
    presentation: Presentation,
) -> BoxStream<'static, Bytes> {
    let now = Instant::now();
    let end = now + query.timeout;
    let asked = query.revision.unwrap_or(0);
    let with_state = query.initial_events.unwrap_or(asked == 0);
    let (first, seen) = if with_state {
        let namespace = (!query.namespace.is_empty()).then_some(query.namespace.as_str());
        let (revision, items) = core.store.list(&resource.collection, namespace);
        (items, revision)
    } else {
        (Vec::new(), if asked == 0 { core.store.revision() } else { asked })
    };
    let cursor = core.store.watch(&resource.collection, seen);
    let (closing, mut served) = (core.closing.subscribe(), core.served.subscribe());
    // The resource was looked up before anybody listened: it may have changed in between.
    served.mark_changed();
    let mut watch = Watch {
        next_bookmark: next_bookmark(now, end),
        core,
        resource,
        query,
        presentation,
        cursor,
        closing,
        served,
        end,
        initial_end: None,
        said_columns: false,
        over: false,
    };
    if watch.query.initial_events == Some(true) && watch.query.bookmarks {
        watch.initial_end = Some(asked);
    }
    let opening = watch.opening(&first);
    let rest =
        stream::unfold(watch, |mut watch| async move { watch.next().await.map(|bytes| (bytes, watch)) });
    stream::iter(opening).chain(rest).boxed()
}

fn next_bookmark(now: Instant, end: Instant) -> Instant {
    let last = end - BOOKMARK_BEFORE_END.min(end - now);
    if now < last { (now + BOOKMARK_EVERY).min(last) } else { end + BOOKMARK_EVERY }
}

impl Watch {
    /// What is there already, as additions; then, where asked for, the mark that this was all.
    fn opening(&mut self, items: &[Arc<Stored>]) -> Option<Bytes> {
        let mut out = BytesMut::new();
        for stored in items {
            if self.query.selector.matches(&stored.value) {
                out.put(self.line("ADDED", stored));
            }
        }
        out.put(self.say_initial_end());
        (!out.is_empty()).then(|| out.freeze())
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            let lines = match self.wait().await {
                Wake::Changes if self.initial_end.is_none() => self.take_changes(),
                Wake::Changes | Wake::InitialEnd => self.reach_initial_end(),
                Wake::Served => self.still_served().await,
                Wake::Bookmark => self.regular_bookmark(),
                Wake::End => return None,
            };
            if !lines.is_empty() {
                return Some(lines);
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        tokio::select! {
            biased;
            _ = self.closing.wait_for(|closing| *closing) => Wake::End,
            Ok(()) = self.served.changed() => Wake::Served,
            alive = self.cursor.news() => if alive { Wake::Changes } else { Wake::End },
            () = sleep_until(self.end) => Wake::End,
            () = tokio::time::sleep(LOOK_AGAIN), if self.initial_end.is_some() => Wake::InitialEnd,
            () = sleep_until(self.next_bookmark) => Wake::Bookmark,
        }
    }

    /// A watch of what is served no more, or after another definition than before, ends after all that happened until then.
    async fn still_served(&mut self) -> Bytes {
        let Resource { group, version, plural, .. } = &*self.resource;
        let registry = self.core.registry();
        if registry.find(group, version, plural).is_some_and(|found| found.is_still(&self.resource)) {
            return Bytes::new();
        }
        let settled = self.core.store.settled().await;
        let lines = if settled.is_ok() { self.take_changes() } else { Bytes::new() };
        self.over = true;
        lines
    }

    /// Changes may reach what was asked for. Other kinds move the revision, too, and ring no bell here.
    fn reach_initial_end(&mut self) -> Bytes {
        let revision = self.core.store.visible();
        let mut out = BytesMut::from(self.take_changes());
        if !self.over {
            self.cursor.seen = self.cursor.seen.max(revision);
            out.put(self.say_initial_end());
        }
        out.freeze()
    }

    /// The mark that all there is has been sent, once that is as new as it was asked for.
    fn say_initial_end(&mut self) -> Bytes {
        if self.initial_end.is_none_or(|asked| self.cursor.seen < asked) {
            return Bytes::new();
        }
        self.initial_end = None;
        self.bookmark(true)
    }

    fn regular_bookmark(&mut self) -> Bytes {
        self.next_bookmark = next_bookmark(Instant::now(), self.end);
        if !self.query.bookmarks {
            return Bytes::new();
        }
        // Nothing up to here is missing once the changes below are out, also when only other resources changed.
        let revision = self.core.store.visible();
        let mut out = BytesMut::from(self.take_changes());
        if !self.over {
            self.cursor.seen = self.cursor.seen.max(revision);
            out.put(self.say_initial_end());
            if self.initial_end.is_none() {
                out.put(self.bookmark(false));
            }
        }
        out.freeze()
    }

    fn take_changes(&mut self) -> Bytes {
        let Some(changes) = self.core.store.changes(&self.resource.collection, self.cursor.seen) else {
            self.over = true;
            return self.expired();
        };
        if let Some(last) = changes.last() {
            self.cursor.seen = last.revision;
        }
        let mut lines = changes.iter().filter_map(|change| self.event(change));
        let Some(first) = lines.next() else { return Bytes::new() };
        let mut out = BytesMut::from(first);
        lines.for_each(|line| out.put(line));
        out.freeze()
    }

    fn sees(&self, stored: &Stored) -> bool {
        let namespace = &self.query.namespace;
        (namespace.is_empty() || object::namespace(&stored.value) == namespace)
            && self.query.selector.matches(&stored.value)
    }

    /// A change as this watcher sees it: what leaves its selection is gone, what enters is new.
    fn event(&mut self, change: &Change) -> Option<Bytes> {
        let before = change.previous.as_ref().is_some_and(|previous| self.sees(previous));
        let after = change.kind != ChangeKind::Deleted && self.sees(&change.object);
        let kind = match (before, after) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        if kind == "DELETED" && change.kind != ChangeKind::Deleted {
            return Some(self.line(kind, &left(change)));
        }
        if self.presentation != Presentation::Object || !is_shown_as_stored(&self.resource, &change.object) {
            return Some(self.line(kind, &change.object));
        }
        let natural = match change.kind {
            ChangeKind::Added => "ADDED",
            ChangeKind::Modified => "MODIFIED",
            ChangeKind::Deleted => "DELETED",
        };
        if kind != natural {
            return Some(self.line(kind, &change.object));
        }
        Some(change.line(|| encode(kind, change.object.encoded.whole())))
    }

    fn line(&mut self, kind: &str, stored: &Stored) -> Bytes {
        let now = self.core.now();
        let bytes = self.presentation.one(&self.resource, stored, now, !self.said_columns);
        self.said_columns = true;
        encode(kind, &bytes)
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.seen.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": metadata,
        });
        let object = match self.presentation {
            Presentation::Table(_) => json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
                "columnDefinitions": null,
                "rows": [{"cells": [], "object": object}],
            }),
            Presentation::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
            Presentation::Object => object,
        };
        encode("BOOKMARK", &serde_json::to_vec(&object).expect("a JSON value encodes"))
    }

    fn expired(&self) -> Bytes {
        let oldest = self.core.store.oldest(&self.resource.collection);
        let message = format!("too old resource version: {} ({oldest})", self.cursor.seen);
        error_line(&Status::expired(message))
    }
}

/// The last state a watcher saw of an object that left its selection, with the revision at which it left.
fn left(change: &Change) -> Stored {
    let last = change.previous.as_ref().unwrap_or(&change.object);
    let mut value = last.value.clone();
    object::metadata(&mut value).insert("resourceVersion".into(), change.revision.to_string().into());
    value.into()
}

fn encode(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + kind.len() + 26);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}

fn error_line(status: &Status) -> Bytes {
    let status: Value = status.to_value();
    encode("ERROR", &serde_json::to_vec(&status).expect("a JSON value encodes"))
}
