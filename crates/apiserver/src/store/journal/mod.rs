//! The store on disk: a log of all changes, from which everything comes back after the process ended, however it ended.
//!
//! Memory leads: a change is in the maps first and on its way to the disk then. Nobody hears of it before it is there,
//! neither the one who wrote it nor one who reads or watches, so a crash takes back nothing that anybody knew.
//!
//! `entry`, `frame` and `recovery` know the format and touch no file; `folder` and `keeper` touch files and know
//! nothing of what they say.

mod entry;
mod folder;
mod frame;
#[cfg(test)]
mod fuzz;
mod keeper;
mod recovery;

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use jiff::Timestamp;
use tombolo_runtime::Signal;

pub(in crate::store) use self::entry::Entry;
pub use self::folder::DataError;
pub(crate) use self::folder::Folder;
use self::keeper::Keeper;
use super::log::Bell;
use super::{Snapshot, State};

/// A piece is written when it has this many octets.
const PIECE: usize = 4 << 20;

/// The log of a store.
#[derive(Debug)]
pub(super) struct Journal {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// What the store and the keeper of its log say to each other.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    news: Condvar,
    progress: Signal<Progress>,
    /// Up to which revision watchers may be told.
    visible: AtomicU64,
    wants_snapshot: AtomicBool,
    broken: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Queue {
    items: Vec<Item>,
    /// How many items there ever were.
    count: u64,
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// How many items are on disk.
    count: u64,
    broken: bool,
}

/// Something for the keeper to do.
#[derive(Debug)]
enum Item {
    Change {
        entry: Entry,
        revision: u64,
        bell: Arc<Bell>,
    },
    /// Everything is as in the snapshot now.
    Anew(Snapshot),
    /// Everything is as in the snapshot anyway, from which the next log can begin.
    Snapshot(Snapshot),
}

impl Journal {
    /// The log in `folder` and the state it leads to, or else `fresh`.
    pub(super) fn open(folder: Folder, fresh: Snapshot, now: Timestamp) -> Result<(Self, State), DataError> {
        folder.discard_next();
        let (log, state) = folder.recover(fresh, now)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            news: Condvar::new(),
            progress: Signal::default(),
            visible: AtomicU64::new(state.revision),
            wants_snapshot: AtomicBool::new(false),
            broken: OnceLock::new(),
        });
        let keeper = Keeper::new(shared.clone(), folder, log);
        let keeper = std::thread::spawn(move || keep(keeper));
        Ok((Self { shared, keeper: Some(keeper) }, state))
    }

    pub(super) fn change(&self, entry: Entry, revision: u64, bell: Arc<Bell>) {
        self.shared.push(Item::Change { entry, revision, bell });
    }

    /// Whether the keeper waits for a snapshot; whoever is told so gives it one.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.shared.wants_snapshot.swap(false, Ordering::Relaxed)
    }

    pub(super) fn snapshot(&self, snapshot: Snapshot) {
        self.shared.push(Item::Snapshot(snapshot));
    }

    pub(super) fn begin_anew(&self, snapshot: Snapshot) {
        self.shared.visible.store(snapshot.revision, Ordering::Release);
        self.shared.push(Item::Anew(snapshot));
    }

    /// Up to which revision everything is on disk.
    pub(super) fn visible(&self) -> u64 {
        self.shared.visible.load(Ordering::Acquire)
    }

    /// Waits until all that has happened so far is on disk.
    pub(super) async fn settled(&self) -> Result<(), String> {
        let wanted = self.shared.queue().count;
        let reached = |progress: Progress| progress.count >= wanted || progress.broken;
        let progress = self.shared.progress.wait_for(reached).await;
        if progress.count >= wanted { Ok(()) } else { Err(self.shared.why()) }
    }

    /// Resolves when the log can no longer be written, and says why.
    pub(super) async fn broken(&self) -> String {
        self.shared.progress.wait_for(|progress| progress.broken).await;
        self.shared.why()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.news.notify_one();
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: Item) {
        let mut queue = self.queue();
        queue.items.push(item);
        queue.count += 1;
        drop(queue);
        self.news.notify_one();
    }

    /// Waits for something to do; nothing when all is done and no more will come.
    fn take(&self) -> Option<Vec<Item>> {
        let idle = |queue: &mut Queue| queue.items.is_empty() && !queue.closed;
        let mut queue = self.news.wait_while(self.queue(), idle).unwrap_or_else(PoisonError::into_inner);
        let items = std::mem::take(&mut queue.items);
        (!items.is_empty()).then_some(items)
    }

    /// Lets everybody know what is on disk now.
    fn tell(&self, items: &[Item]) {
        let mut bells = BTreeMap::new();
        for item in items {
            if let Item::Change { revision, bell, .. } = item {
                self.visible.store(*revision, Ordering::Release);
                bells.insert(Arc::as_ptr(bell), (bell, *revision));
            }
        }
        for (bell, revision) in bells.into_values() {
            // A bell that has rung for the last time stays silent.
            bell.update(|latest| latest.map(|_| revision));
        }
        let progress = self.progress.get();
        self.progress.set(Progress { count: progress.count + items.len() as u64, ..progress });
    }

    fn ask_for_snapshot(&self) {
        self.wants_snapshot.store(true, Ordering::Relaxed);
    }

    fn give_up(&self, why: &str) {
        tracing::error!(why, "a cluster stops");
        let _ = self.broken.set(why.to_owned());
        self.progress.set(Progress { broken: true, ..self.progress.get() });
    }

    fn why(&self) -> String {
        self.broken.get().cloned().unwrap_or_default()
    }
}

/// Nobody must wait for a keeper that is no more.
fn keep(keeper: Keeper) {
    let shared = keeper.shared();
    if catch_unwind(AssertUnwindSafe(|| keeper.run())).is_err() {
        shared.give_up("the writer of the cluster's log panicked");
    }
}

/// The lines that say what a snapshot says.
fn lines_of(snapshot: &Snapshot) -> impl Iterator<Item = Entry> {
    let objects = snapshot.collections.values().map(BTreeMap::len).sum();
    let begin = Entry::Begin { revision: snapshot.revision, objects };
    let puts = snapshot.collections.iter().flat_map(|(collection, objects)| {
        objects.values().map(|object| Entry::Put { collection: collection.clone(), object: object.clone() })
    });
    std::iter::once(begin).chain(puts)
}

/// Puts lines together to pieces of a handy size and writes each.
fn write_pieces(
    entries: impl Iterator<Item = Entry>,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut content, mut piece) = (Vec::new(), Vec::new());
    let mut finish = |content: &mut Vec<u8>| {
        piece.clear();
        frame::write(&mut piece, content);
        content.clear();
        write(&piece)
    };
    for entry in entries {
        entry.write(&mut content);
        if content.len() > PIECE {
            finish(&mut content)?;
        }
    }
    if content.is_empty() { Ok(()) } else { finish(&mut content) }
}
