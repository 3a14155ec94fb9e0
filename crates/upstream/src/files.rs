//! A folder for what servers read and write, gone with the last who needs it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Doing as _, Error};

/// What the names of such folders begin with.
const PREFIX: &str = "tombolo-upstream-";
/// The file in a folder that its owner holds a lock on, for as long as it lives.
const LOCK: &str = "owner.lock";

/// A fresh folder that only its owner can read. Dropped, it is removed with all that is in it; one whose owner was killed
/// is removed by the next who makes one.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Nothing where the owner knows that there is no other.
    _lock: Option<File>,
}

impl Folder {
    /// Makes one where temporary files are.
    pub fn new(name: &str) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        remove_orphans(&parent);
        // Processes in other namespaces may have our number, so the time helps.
        let time = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{}-{time:x}-{number}-{name}", std::process::id());
        let (first, path) =
            (parent.join(format!("tombolo-new-{unique}")), parent.join(PREFIX.to_owned() + &unique));
        let what = format!("{} cannot be made", path.display());
        fs::DirBuilder::new().mode(0o700).create(&first).doing(&what)?;
        let lock = File::create(first.join(LOCK)).doing(&what)?;
        lock.try_lock().map_err(Into::into).doing(&what)?;
        // Only now is it found by those who look for orphans.
        fs::rename(&first, &path).doing(what)?;
        Ok(Self { path, _lock: Some(lock) })
    }

    /// Makes one at this very path, for a caller that nobody else shares it with: what is there already goes.
    pub fn at(path: PathBuf) -> Result<Self, Error> {
        let what = format!("{} cannot be made", path.display());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).doing(what),
            _ => {}
        }
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&path).doing(what)?;
        Ok(Self { path, _lock: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it with this content, for its owner only.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        let what = || format!("{} cannot be written", path.display());
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&path).doing(what())?;
        file.write_all(content.as_bytes()).doing(what())?;
        Ok(path)
    }
}

fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_and_an_orphan_with_the_next_folder() {
        let first = Folder::new("first").expect("a folder");
        let orphan = std::env::temp_dir().join(format!("{PREFIX}orphan-{}", std::process::id()));
        fs::create_dir(&orphan).expect("a folder");
        File::create(orphan.join(LOCK)).expect("a file");
        let second = Folder::new("second").expect("a folder");
        assert!(first.path().exists() && second.path().exists() && !orphan.exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_at_a_path_begins_empty_and_goes_with_its_owner() {
        let parent = Folder::new("parent").expect("a folder");
        let path = parent.path().join("deep/inside");
        fs::create_dir_all(path.join("left")).expect("a folder");
        let folder = Folder::at(path.clone()).expect("a folder");
        assert_eq!(fs::read_dir(&path).expect("it is there").count(), 0);
        drop(folder);
        assert!(!path.exists() && parent.path().exists());
    }
}
