//! Network namespaces without a name: nothing but an open file keeps them.
//!
//! Whatever ends the process, even SIGKILL, closes the file, and the kernel takes the namespace away with its links, routes
//! and rules. There is nothing to clean up, so nothing can be forgotten.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::unshare::unshare;

/// A network namespace; the last clone takes it away.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// A fresh one, with nothing but a loopback that is down.
    pub(crate) fn new() -> io::Result<Self> {
        let make = || {
            unshare(UnshareFlags::NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        let file = run_apart(make)??;
        Ok(Self { file: Arc::new(file) })
    }

    /// Moves the calling thread into it, and with it all threads and processes that it starts.
    pub(crate) fn enter(&self) -> io::Result<()> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }

    /// Does something in it, on a thread of its own.
    pub(crate) fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> io::Result<T> {
        run_apart(|| self.enter().map(|()| body()))?
    }

    /// The number of the open file, as the kernel wants it for links that move here.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Where others find it while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor())
    }
}

/// Runs something on a thread that ends with it, so that the caller stays where it is.
fn run_apart<T: Send>(body: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, body)?;
        thread.join().map_err(|_| io::Error::other("a thread in a network namespace panicked"))
    })
}
