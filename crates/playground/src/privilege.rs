//! Whether this process may make networks, and how it gets to.
//!
//! Root just may. Anybody else becomes root in a user namespace, which the kernel allows only before there is a second
//! thread. Where that is forbidden, too, everything runs without pods' networks.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use crate::namespace::Namespace;
use crate::unshare::unshare;

/// What kind of network there can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nodes and pods are network namespaces.
    Namespaces,
    /// Nodes and pods are only pretended; this is why.
    Pretended(String),
}

/// Gets what is needed to make networks. Must be called before any other thread exists.
pub fn acquire() -> Network {
    if try_network().is_ok() {
        return Network::Namespaces;
    }
    match enter_user_namespace().and_then(|()| try_network()) {
        Ok(()) => Network::Namespaces,
        Err(error) => Network::Pretended(format!("user namespaces cannot be used here: {}", told(&error))),
    }
}

/// The kernel speaks of space and permissions.
fn told(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => "none may be made (see /proc/sys/user/max_user_namespaces)".to_owned(),
        // Where AppArmor forbids them they can be made, but nothing can be done in them.
        Some(Errno::PERM | Errno::ACCESS) => "this user may make none (see kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns)".to_owned(),
        _ => error.to_string(),
    }
}

/// A namespace that can be made and whose settings can be changed is enough.
fn try_network() -> io::Result<()> {
    let probe = Namespace::new()?;
    probe.within(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?
}

fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // The kernel wants this before a group may be mapped by someone unprivileged.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_is_told_with_the_setting_that_may_be_the_reason() {
        let cases = [
            (Errno::NOSPC, "max_user_namespaces"),
            (Errno::PERM, "unprivileged_userns_clone"),
            (Errno::ACCESS, "apparmor_restrict_unprivileged_userns"),
        ];
        for (refusal, setting) in cases {
            let said = told(&refusal.into());
            assert!(said.contains(setting), "{said}");
        }
    }
}
