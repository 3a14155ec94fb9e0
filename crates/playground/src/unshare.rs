//! Leaving namespaces that are shared with others: the one system call here that Rust calls unsafe.

use std::io;

use rustix::thread::UnshareFlags;

/// Gives the calling thread namespaces of its own. Files stay shared, whatever the flags say.
#[expect(
    unsafe_code,
    reason = "unshare is unsafe only where it parts tables of file descriptors, which is masked out"
)]
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    let flags = flags.difference(UnshareFlags::FILES);
    // SAFETY: without CLONE_FILES all threads go on sharing one table of file descriptors; that is all it asks for.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}
