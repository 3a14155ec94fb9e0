//! The way out: from any process onto the playground's host that belongs to no cluster.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::directory::Directory;
use crate::error::{Doing as _, Error};

/// Moves the calling process there. Must be called before any other thread exists.
pub fn enter_outside(directory: &Directory) -> Result<(), Error> {
    let endpoints = directory.endpoints()?;
    let outside = endpoints.outside.ok_or_else(|| Error::new("this playground has no networks"))?;
    let open = |path: &str| File::open(path).doing("the playground is gone");
    let network = open(&outside.namespace)?;
    // Who started the playground without root is root only in its user namespace.
    let user = open(&format!("/proc/{}/ns/user", endpoints.pid))?;
    let _ = move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User));
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).doing("cannot go there")
}
