//! The files of one cluster: a lock, the log, and the next log while it is being made.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::{Snapshot, State};
use super::recovery::{self, Damage};
use super::{lines_of, write_pieces};

/// Why a cluster's data cannot be used. Each says which file it is about.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot {doing} {}: {cause}", path.display())]
    File { doing: &'static str, path: PathBuf, cause: io::Error },
    #[error("{} is in use by another server", path.display())]
    InUse { path: PathBuf },
    #[error("{} is {what}; what came before is intact, what follows was acknowledged: restore the file", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{} does not hold what it should: {what}", path.display())]
    Identity { path: PathBuf, what: String },
}

impl DataError {
    fn file<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |cause| Self::File { doing, path: path.to_owned(), cause }
    }

    fn damaged(path: &Path, damage: &Damage) -> Self {
        Self::Damaged { path: path.to_owned(), what: damage.to_string() }
    }
}

/// A folder that only this process uses, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be. Only its owner may look into it: it holds keys and secrets.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DataError::file("make", path))?;
        let name = path.join("lock");
        let lock =
            private().create(true).truncate(false).open(&name).map_err(DataError::file("open", &name))?;
        lock.try_lock().map_err(|refused| match refused {
            TryLockError::WouldBlock => DataError::InUse { path: path.to_owned() },
            TryLockError::Error(cause) => DataError::file("lock", &name)(cause),
        })?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn next(&self) -> PathBuf {
        self.path.join("log.next")
    }

    /// A small file that is there whole or not at all; nothing when it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, DataError> {
        let path = self.path.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(DataError::file("read", &path)(cause)),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), DataError> {
        let (path, next) = (self.path.join(name), self.path.join(format!("{name}.next")));
        let written = || {
            let mut file = private().create(true).truncate(true).open(&next)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&next, &path)?;
            self.sync()
        };
        written().map_err(DataError::file("write", &path))
    }

    pub(crate) fn misunderstood(&self, name: &str, what: &str) -> DataError {
        DataError::Identity { path: self.path.join(name), what: what.to_owned() }
    }

    /// What was renamed stays renamed.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// The log and the state it leads to; `fresh` is the state of a folder that has none.
    pub(super) fn recover(&self, fresh: Snapshot, now: Timestamp) -> Result<(Log, State), DataError> {
        let path = self.log();
        let Some(octets) = self.octets(&path)? else {
            let log = self.begin(&fresh).map_err(DataError::file("write", &path))?;
            return Ok((log, fresh.state()));
        };
        let recovered =
            recovery::recover(&octets, now).map_err(|damage| DataError::damaged(&path, &damage))?;
        let length = recovered.cut.unwrap_or(octets.len()) as u64;
        // A process that was killed while it put this log in its place may have left that to the page cache, too.
        let log = Log::open(&path, length).and_then(|log| self.sync().map(|()| log));
        let log = log.map_err(DataError::file("open", &path))?;
        if recovered.cut.is_some() {
            tracing::warn!(path = %path.display(), from = octets.len(), to = length, "an unfinished write was cut off");
        }
        Ok((log, recovered.state))
    }

    fn octets(&self, path: &Path) -> Result<Option<Vec<u8>>, DataError> {
        match std::fs::read(path) {
            Ok(octets) => Ok(Some(octets)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(DataError::file("read", path)(cause)),
        }
    }

    fn begin(&self, fresh: &Snapshot) -> io::Result<Log> {
        let next = self.prepare(fresh)?;
        self.replace(next, None)
    }

    /// The next log, which begins with `snapshot`; nobody reads it yet.
    pub(super) fn prepare(&self, snapshot: &Snapshot) -> io::Result<Log> {
        let file = private().read(true).create(true).truncate(true).open(self.next())?;
        let mut next = Log { file, length: 0, synced: 0 };
        write_pieces(lines_of(snapshot), |piece| next.write(piece))?;
        next.file.sync_all()?;
        Ok(next)
    }

    /// Puts the next log in the place of the current one, with what that one got since, from an octet on.
    pub(super) fn replace(&self, mut next: Log, since: Option<(&mut Log, u64)>) -> io::Result<Log> {
        if let Some((current, from)) = since {
            next.take_rest(current, from)?;
        }
        next.file.sync_all()?;
        next.synced = next.length;
        std::fs::rename(self.next(), self.log())?;
        self.sync()?;
        Ok(next)
    }

    /// Gives back the room of a next log that was not finished.
    pub(super) fn discard_next(&self) {
        let _ = std::fs::remove_file(self.next());
    }
}

/// A log that is open at its end.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    pub(super) length: u64,
    /// Up to where it is known to be on the disk.
    synced: u64,
}

impl Log {
    /// A process that was killed may have left its last writes to the page cache alone. Whoever reads them tells others of
    /// them, so they are synced first.
    fn open(path: &Path, length: u64) -> io::Result<Self> {
        let mut file = private().read(true).open(path)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        file.sync_all()?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, length, synced: length })
    }

    pub(super) fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.file.write_all(octets)?;
        self.length += octets.len() as u64;
        Ok(())
    }

    /// What was written is on the disk when this returns.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced = self.length;
        Ok(())
    }

    /// Takes back what was never synced. After a sync that failed the kernel counts the pages as written: a later one would
    /// succeed, and whoever reads the file would believe what the disk does not have. Nobody has heard of any of it.
    pub(super) fn forget_unsynced(&mut self) -> io::Result<()> {
        self.file.set_len(self.synced)?;
        self.length = self.synced;
        self.file.seek(SeekFrom::End(0))?;
        self.file.sync_all()
    }

    fn take_rest(&mut self, other: &mut Self, from: u64) -> io::Result<()> {
        other.file.seek(SeekFrom::Start(from))?;
        let copied = io::copy(&mut (&mut other.file).take(other.length - from), &mut self.file);
        other.file.seek(SeekFrom::Start(other.length))?;
        self.length += copied?;
        Ok(())
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_synced_is_taken_back_and_the_rest_is_kept() {
        let path = std::env::temp_dir().join(format!("tombolo-unsynced-{}", std::process::id()));
        std::fs::write(&path, "known ").unwrap();
        let mut log = Log::open(&path, 6).unwrap();
        log.write(b"synced ").unwrap();
        log.sync().unwrap();
        log.write(b"doubtful").unwrap();
        log.forget_unsynced().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"known synced ");
        log.write(b"again").unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), log.length), (&b"known synced again"[..], 18));
        std::fs::remove_file(&path).unwrap();
    }
}
