//! Connection tracking: forgetting connections whose server is gone.
//!
//! The kernel sends the packets of a known connection where the first one went. For UDP, where nobody notices that the
//! server is gone, the entry has to go, too. Entries are read and deleted one by one, so that it is known how many went; what
//! the kernel selects is checked again, so a kernel that selects too much does no harm.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use crate::attribute::{Attributes, Writer};
use crate::message::{self, ACK, Family, Head, Received, Subsystem};
use crate::socket::Socket;

const GET: u16 = 1;
const DELETE: u16 = 2;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const FILTER: u16 = 25;

const SOURCE: u32 = 0x01;
const DESTINATION: u32 = 0x02;
const PROTOCOL: u32 = 0x08;
const SOURCE_PORT: u32 = 0x10;
const DESTINATION_PORT: u32 = 0x20;

/// So many flows are asked for one by one. Of more, all connections are read once.
const FEW: usize = 4;

/// Connections of one protocol to one frontend, answered by one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    pub protocol: u8,
    /// Where the client sends to; `None`: any address.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// Who answers.
    pub server: (IpAddr, u16),
}

impl Flow {
    fn family(&self) -> Family {
        if self.server.0.is_ipv4() { Family::Ip } else { Family::Ip6 }
    }

    /// A tuple with the flags that say which of its fields count.
    fn original(&self) -> (Tuple, u32) {
        let tuple =
            Tuple { destination: self.address, destination_port: Some(self.port), ..Tuple::default() };
        let address = if self.address.is_some() { DESTINATION } else { 0 };
        (Tuple { protocol: self.protocol, ..tuple }, address | PROTOCOL | DESTINATION_PORT)
    }

    fn reply(&self) -> (Tuple, u32) {
        let (server, port) = self.server;
        let tuple = Tuple { source: Some(server), source_port: Some(port), ..Tuple::default() };
        (Tuple { protocol: self.protocol, ..tuple }, SOURCE | PROTOCOL | SOURCE_PORT)
    }

    /// Asks the kernel for connections of this flow only.
    fn filter(&self, out: &mut Writer<'_>) {
        let ((original, original_flags), (reply, reply_flags)) = (self.original(), self.reply());
        original.write(out, ORIGINAL);
        reply.write(out, REPLY);
        out.nested(FILTER, |out| {
            out.bytes(1, &original_flags.to_ne_bytes());
            out.bytes(2, &reply_flags.to_ne_bytes());
        });
    }
}

/// How many connections were forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub v4: usize,
    pub v6: usize,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tuple {
    protocol: u8,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

impl Tuple {
    fn write(&self, out: &mut Writer<'_>, kind: u16) {
        out.nested(kind, |out| {
            out.nested(1, |out| {
                self.source.into_iter().for_each(|address| write_address(out, address, 1));
                self.destination.into_iter().for_each(|address| write_address(out, address, 2));
            });
            out.nested(2, |out| {
                out.u8(1, self.protocol);
                self.source_port.into_iter().for_each(|port| out.u16(2, port));
                self.destination_port.into_iter().for_each(|port| out.u16(3, port));
            });
        });
    }

    fn read(attributes: Attributes<'_>) -> Self {
        let (addresses, protocol) = (attributes.nested(1), attributes.nested(2));
        Self {
            protocol: protocol.u8(1).unwrap_or_default(),
            source: read_address(addresses, 1),
            destination: read_address(addresses, 2),
            source_port: protocol.u16(2),
            destination_port: protocol.u16(3),
        }
    }
}

/// Attributes of IPv6 addresses come after the two of IPv4.
fn write_address(out: &mut Writer<'_>, address: IpAddr, kind: u16) {
    match address {
        IpAddr::V4(address) => out.bytes(kind, &address.octets()),
        IpAddr::V6(address) => out.bytes(kind + 2, &address.octets()),
    }
}

fn read_address(addresses: Attributes<'_>, kind: u16) -> Option<IpAddr> {
    let v4 = addresses.get(kind).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(IpAddr::from);
    let v6 = || addresses.get(kind + 2).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()).map(IpAddr::from);
    v4.or_else(v6)
}

/// A connection the kernel knows.
#[derive(Clone, Copy, Debug)]
struct Entry {
    original: Tuple,
    reply: Tuple,
    id: Option<u32>,
}

impl Entry {
    fn read(message: &Received<'_>) -> Self {
        let attributes = message.attributes();
        Self {
            original: Tuple::read(attributes.nested(ORIGINAL)),
            reply: Tuple::read(attributes.nested(REPLY)),
            id: attributes.u32(12),
        }
    }

    /// The flow it belongs to.
    fn flow(&self) -> Option<Flow> {
        Some(Flow {
            protocol: self.original.protocol,
            address: Some(self.original.destination?),
            port: self.original.destination_port?,
            server: (self.reply.source?, self.reply.source_port?),
        })
    }

    fn is_of(&self, flows: &HashSet<Flow>) -> bool {
        let anywhere = |flow| Flow { address: None, ..flow };
        self.flow().is_some_and(|flow| flows.contains(&flow) || flows.contains(&anywhere(flow)))
    }
}

impl Socket {
    /// Forgets the connections of some flows.
    pub fn forget(&mut self, flows: &[Flow]) -> io::Result<Forgotten> {
        let (v4, v6): (Vec<Flow>, Vec<Flow>) = flows.iter().partition(|flow| flow.family() == Family::Ip);
        Ok(Forgotten { v4: self.forget_family(Family::Ip, &v4)?, v6: self.forget_family(Family::Ip6, &v6)? })
    }

    fn forget_family(&mut self, family: Family, flows: &[Flow]) -> io::Result<usize> {
        let mut count = 0;
        for entry in self.entries(family, flows)? {
            let mut bytes = Vec::new();
            let head = Head::new(Subsystem::Conntrack.message(DELETE), ACK, 1, family as u8);
            message::write(&mut bytes, head, |out| {
                entry.original.write(out, ORIGINAL);
                entry.id.into_iter().for_each(|id| out.u32(12, id));
            });
            match self.request(&bytes) {
                Ok(()) => count += 1,
                // It went by itself; or a device has it, which kernels could not take it from for long.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// The flows of all connections of a protocol.
    pub fn flows(&mut self, protocol: u8) -> io::Result<HashSet<Flow>> {
        let mut flows = HashSet::new();
        for family in [Family::Ip, Family::Ip6] {
            let found: Vec<Flow> = self.dump(
                (Subsystem::Conntrack, GET),
                family as u8,
                |out| {
                    Tuple { protocol, ..Tuple::default() }.write(out, ORIGINAL);
                    out.nested(FILTER, |out| {
                        out.bytes(1, &PROTOCOL.to_ne_bytes());
                        out.bytes(2, &0_u32.to_ne_bytes());
                    });
                },
                |message, found| {
                    found.extend(Entry::read(message).flow().filter(|flow| flow.protocol == protocol));
                },
            )?;
            flows.extend(found);
        }
        Ok(flows)
    }

    /// How many connections of a flow the kernel knows.
    pub fn count_connections(&mut self, flow: &Flow) -> io::Result<usize> {
        Ok(self.entries(flow.family(), std::slice::from_ref(flow))?.len())
    }

    fn entries(&mut self, family: Family, flows: &[Flow]) -> io::Result<Vec<Entry>> {
        if flows.is_empty() {
            return Ok(Vec::new());
        }
        // Kernels up to 6.18 at least compare IPv6 addresses of a filter the wrong way round and leave out what was asked for.
        if family == Family::Ip6 || flows.len() > FEW {
            return self.select(family, flows, None);
        }
        let mut found = Vec::new();
        for flow in flows {
            found.append(&mut self.select(family, std::slice::from_ref(flow), Some(flow))?);
        }
        Ok(found)
    }

    /// The connections of `flows`, of which the kernel tells those of one flow, or all (also if it is older than 5.8).
    fn select(&mut self, family: Family, flows: &[Flow], told: Option<&Flow>) -> io::Result<Vec<Entry>> {
        let wanted: HashSet<Flow> = flows.iter().copied().collect();
        self.dump(
            (Subsystem::Conntrack, GET),
            family as u8,
            |out| told.into_iter().for_each(|flow| flow.filter(out)),
            |message, found| found.extend(Some(Entry::read(message)).filter(|entry| entry.is_of(&wanted))),
        )
    }
}
