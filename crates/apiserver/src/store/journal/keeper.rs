//! The thread that writes the log: takes what has come up, writes and syncs it in one piece, says so.
//!
//! While it waits for the disk, more comes up; so many writers share one sync. When the log has grown to several times
//! what it leads to, the next one is made beside it and takes its place; writers do not wait for that.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::folder::{Folder, Log};
use super::{Entry, Item, Shared, lines_of, write_pieces};
use crate::store::Snapshot;

/// A log smaller than this is never worth replacing.
const SMALL: u64 = 16 << 20;
/// A log this many times as long as the one it began with is replaced.
const GROWTH: u64 = 4;

pub(super) struct Keeper {
    shared: Arc<Shared>,
    folder: Arc<Folder>,
    log: Log,
    /// The log is replaced when it is longer than this.
    limit: u64,
    next: Option<Next>,
}

/// A next log in the making.
struct Next {
    task: JoinHandle<io::Result<Log>>,
    /// Where in the current log begins what the next one does not have yet.
    since: u64,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, folder: Folder, log: Log) -> Self {
        let limit = SMALL.max(log.length);
        Self { shared, folder: Arc::new(folder), log, limit, next: None }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Writes until the journal is closed and everything is written, or the disk refuses.
    pub(super) fn run(mut self) {
        while let Some(items) = self.shared.take() {
            if let Err(error) = self.write_all(&items) {
                if let Err(error) = self.log.forget_unsynced() {
                    tracing::error!(%error, "the end of a cluster's log may say what the disk does not have");
                }
                return self.shared.give_up(&format!("the cluster's log cannot be written: {error}"));
            }
            self.shared.tell(&items);
            if let Err(error) = self.renew() {
                return self.shared.give_up(&format!("the cluster's log cannot be replaced: {error}"));
            }
        }
        if let Some(next) = self.next {
            let _ = next.task.join();
            self.folder.discard_next();
        }
    }

    fn write_all(&mut self, items: &[Item]) -> io::Result<()> {
        let mut changes = Vec::new();
        for item in items {
            match item {
                Item::Change { entry, .. } => changes.push(entry.clone()),
                Item::Anew(snapshot) => {
                    self.write(changes.drain(..))?;
                    self.write(lines_of(snapshot))?;
                }
                Item::Snapshot(snapshot) => {
                    self.write(changes.drain(..))?;
                    self.prepare(snapshot.clone());
                }
            }
        }
        self.write(changes.into_iter())
    }

    fn write(&mut self, entries: impl Iterator<Item = Entry>) -> io::Result<()> {
        let log = &mut self.log;
        write_pieces(entries, |piece| {
            log.write(piece)?;
            log.sync()
        })
    }

    fn prepare(&mut self, snapshot: Snapshot) {
        let folder = self.folder.clone();
        let task = std::thread::spawn(move || folder.prepare(&snapshot));
        self.next = Some(Next { task, since: self.log.length });
    }

    /// Asks for a snapshot when the log is long; puts the next one in its place when that is ready.
    fn renew(&mut self) -> io::Result<()> {
        match self.next.take_if(|next| next.task.is_finished()) {
            Some(next) => self.replace(next),
            None => {
                if self.next.is_none() && self.log.length > self.limit {
                    self.limit = u64::MAX;
                    self.shared.ask_for_snapshot();
                }
                Ok(())
            }
        }
    }

    fn replace(&mut self, Next { task, since }: Next) -> io::Result<()> {
        let made = task.join().unwrap_or_else(|_| Err(io::Error::other("its writer panicked")));
        match made {
            Ok(next) => {
                self.limit = SMALL.max(next.length.saturating_mul(GROWTH));
                self.log = self.folder.replace(next, Some((&mut self.log, since)))?;
            }
            // The current log is as good as ever; there is just too little room for another one.
            Err(error) => {
                tracing::warn!(%error, "the log of a cluster cannot be made shorter");
                self.folder.discard_next();
                self.limit = self.log.length.saturating_mul(2);
            }
        }
        Ok(())
    }
}
