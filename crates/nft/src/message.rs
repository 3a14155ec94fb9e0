//! Netlink messages: a header, the family they are about, attributes.

use crate::attribute::{Attributes, Writer};

pub(crate) const REQUEST: u16 = 0x01;
pub(crate) const ACK: u16 = 0x04;
/// Of a reply: the kernel's state changed while it was told.
pub(crate) const INTERRUPTED: u16 = 0x10;
pub(crate) const DUMP: u16 = 0x300;
/// Of a request to make something: not to be there already.
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;

pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;
pub(crate) const BATCH_BEGIN: u16 = 16;
pub(crate) const BATCH_END: u16 = 17;

const HEADER: usize = 16;
const NETFILTER_HEADER: usize = 4;

/// A part of netfilter that takes messages.
#[derive(Clone, Copy)]
pub(crate) enum Subsystem {
    Conntrack = 1,
    Tables = 10,
}

impl Subsystem {
    pub(crate) fn message(self, number: u16) -> u16 {
        ((self as u16) << 8) | number
    }
}

/// The family of addresses that something in the kernel is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 and IPv6 alike.
    Inet = 1,
    Ip = 2,
    Ip6 = 10,
}

impl Family {
    pub(crate) fn of(number: u8) -> Option<Self> {
        [Family::Inet, Family::Ip, Family::Ip6].into_iter().find(|family| *family as u8 == number)
    }

    /// As `nft` writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Family::Inet => "inet",
            Family::Ip => "ip",
            Family::Ip6 => "ip6",
        }
    }
}

/// What stands before the attributes.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// 0: any.
    pub(crate) family: u8,
    pub(crate) version: u8,
    pub(crate) resource: u16,
}

impl Head {
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32, family: u8) -> Self {
        Self { kind, flags: flags | REQUEST, sequence, family, version: 0, resource: 0 }
    }
}

/// Appends a message to `out`.
pub(crate) fn write(out: &mut Vec<u8>, head: Head, fill: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&head.kind.to_ne_bytes());
    out.extend_from_slice(&head.flags.to_ne_bytes());
    out.extend_from_slice(&head.sequence.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[head.family, head.version]);
    out.extend_from_slice(&head.resource.to_be_bytes());
    fill(&mut Writer(out));
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// Clears a flag of the message that begins at `start`.
pub(crate) fn clear_flag(out: &mut [u8], start: usize, flag: u16) {
    if let Some(bytes) = out.get_mut(start + 6..start + 8) {
        let known = u16::from_ne_bytes([bytes[0], bytes[1]]);
        bytes.copy_from_slice(&(known & !flag).to_ne_bytes());
    }
}

/// A message the kernel sent.
#[derive(Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

impl<'a> Received<'a> {
    /// The first message in `bytes`, and what follows it.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let header = bytes.get(..HEADER)?;
        let number = |from: usize| {
            u32::from_ne_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]])
        };
        let half = |from: usize| u16::from_ne_bytes([header[from], header[from + 1]]);
        let length = usize::try_from(number(0)).ok()?;
        let body = bytes.get(HEADER..length)?;
        let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Self { kind: half(4), flags: half(6), sequence: number(8), body }, rest))
    }

    /// For an ERROR: the number of the error, 0 for an acknowledgement.
    pub(crate) fn error(&self) -> Option<i32> {
        let code = self.body.get(..4).filter(|_| self.kind == ERROR)?;
        Some(-i32::from_ne_bytes(code.try_into().ok()?))
    }

    pub(crate) fn family(&self) -> u8 {
        self.body.first().copied().unwrap_or_default()
    }

    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.body.get(NETFILTER_HEADER..).unwrap_or_default())
    }
}
