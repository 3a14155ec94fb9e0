//! The multicast groups that questions for IPv6 addresses are sent to.
//!
//! A network card, and a switch that listens to who wants which group, would not let questions through for an address
//! that the kernel does not know; so the groups are joined on its behalf.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use socket2::{Domain, Protocol, Socket, Type};

use super::frame::solicited_group;

/// The groups of one link.
pub(super) struct Groups {
    socket: Socket,
    link: u32,
    joined: BTreeSet<Ipv6Addr>,
}

impl Groups {
    pub(super) fn new(link: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        Ok(Self { socket, link, joined: BTreeSet::new() })
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
        let (socket, link) = (&self.socket, self.link);
        self.joined.retain(|group| wanted.contains(group) || socket.leave_multicast_v6(group, link).is_err());
        for group in wanted {
            if !self.joined.contains(&group) {
                match self.socket.join_multicast_v6(&group, self.link) {
                    Ok(()) => drop(self.joined.insert(group)),
                    Err(error) => tracing::warn!(%error, %group, "a multicast group was not joined"),
                }
            }
        }
    }
}
