//! The multicast groups that questions for IPv6 addresses are sent to.
//!
//! A network card, and a switch that listens to who wants which group, would not let questions through for an address
//! that the kernel does not know; so the groups are joined on its behalf. A kernel without IPv6 has no such groups, and nobody asks
//! there: IPv4 addresses are answered for all the same.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use socket2::{Domain, Protocol, Socket, Type};

use super::frame::solicited_group;

type Open = fn() -> io::Result<Socket>;

/// The groups of one link.
pub(super) struct Groups {
    /// Opened for the first group.
    socket: Option<Socket>,
    open: Open,
    /// Whether it was said that the socket cannot be opened.
    told: bool,
    link: u32,
    joined: BTreeSet<Ipv6Addr>,
}

impl Groups {
    pub(super) fn new(link: u32) -> Self {
        Self::with(link, || Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)))
    }

    fn with(link: u32, open: Open) -> Self {
        Self { socket: None, open, told: false, link, joined: BTreeSet::new() }
    }

    /// Joins those of these addresses, and leaves all others. One that cannot be joined is tried again next time.
    pub(super) fn follow(&mut self, addresses: &BTreeSet<IpAddr>) {
        let wanted: BTreeSet<Ipv6Addr> = addresses
            .iter()
            .filter_map(|address| match address {
                IpAddr::V6(v6) => Some(solicited_group(*v6)),
                IpAddr::V4(_) => None,
            })
            .collect();
        if !wanted.is_empty() {
            self.ensure_socket();
        }
        let (Some(socket), link) = (&self.socket, self.link) else { return };
        self.joined.retain(|group| wanted.contains(group) || socket.leave_multicast_v6(group, link).is_err());
        for group in wanted {
            if !self.joined.contains(&group) {
                match socket.join_multicast_v6(&group, link) {
                    Ok(()) => drop(self.joined.insert(group)),
                    Err(error) => tracing::warn!(%error, %group, "a multicast group was not joined"),
                }
            }
        }
    }

    fn ensure_socket(&mut self) {
        if self.socket.is_some() {
            return;
        }
        match (self.open)() {
            Ok(socket) => self.socket = Some(socket),
            Err(error) if !self.told => {
                tracing::warn!(%error, "no IPv6 on this node: nobody finds its IPv6 addresses");
                self.told = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_ipv6_costs_nothing_but_the_groups() {
        let mut groups = Groups::with(1, || Err(io::ErrorKind::Unsupported.into()));
        groups.follow(&[[192, 0, 2, 1].into()].into());
        assert!(!groups.told, "nobody asked for IPv6");
        groups.follow(&["2001:db8::1".parse().unwrap()].into());
        assert!(groups.told && groups.joined.is_empty());
    }
}
