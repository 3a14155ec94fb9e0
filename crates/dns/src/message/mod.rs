//! DNS messages as far as a server needs them: one query in, one reply out.
//!
//! Ordinary queries (one question, at most an OPT record behind it) are read here without allocating. Whatever else is
//! allowed goes through the `domain` crate. The rules of hygiene are here, too: who gets no answer at all, and who gets an
//! error without his question.

mod writer;

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedRecord};

pub(crate) use self::writer::{Section, Writer};
use crate::zone::Name;

pub(crate) const HEADER: usize = 12;
/// What a UDP reply may be at most without EDNS (RFC 1035, 4.2.1).
pub(crate) const SMALLEST_LIMIT: usize = 512;
/// What we send and take at most over UDP: it fits any path without fragments (DNS flag day 2020).
pub(crate) const UDP_LIMIT: usize = 1232;
pub(crate) const TCP_LIMIT: usize = 65_535;
/// The OPT record of a reply: root, type, size, extended code, version, flags, no data.
pub(crate) const OPT_LENGTH: usize = 11;
/// The option that says why: code, length, and a code again.
pub(crate) const WHY_LENGTH: usize = 6;

/// Response codes (IANA, DNS RCODEs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rcode {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    BadVers = 16,
}

impl Rcode {
    pub(crate) const ALL: [Rcode; 7] = [
        Rcode::NoError,
        Rcode::FormErr,
        Rcode::ServFail,
        Rcode::NxDomain,
        Rcode::NotImp,
        Rcode::Refused,
        Rcode::BadVers,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Rcode::NoError => "NOERROR",
            Rcode::FormErr => "FORMERR",
            Rcode::ServFail => "SERVFAIL",
            Rcode::NxDomain => "NXDOMAIN",
            Rcode::NotImp => "NOTIMP",
            Rcode::Refused => "REFUSED",
            Rcode::BadVers => "BADVERS",
        }
    }
}

/// Why there is no better answer, told to clients that speak EDNS (RFC 8914).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Why {
    /// Not everything has been listed yet.
    NotReady = 14,
    /// This client may not have it.
    Prohibited = 18,
    /// No zone of ours, and nobody to ask.
    NotAuthoritative = 20,
    /// Who was to be asked does not answer.
    NetworkError = 23,
}

/// Record types (IANA, DNS resource record types) that have a meaning here.
pub(crate) mod rtype {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const HINFO: u16 = 13;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const SRV: u16 = 33;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const ANY: u16 = 255;
}

pub(crate) const CLASS_IN: u16 = 1;

/// What a client says about itself (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edns {
    pub(crate) size: u16,
    pub(crate) version: u8,
    pub(crate) dnssec_ok: bool,
}

/// A query. The same value reads one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) name: Name,
    pub(crate) qtype: u16,
    pub(crate) qclass: u16,
    /// Where the question ends in the message.
    pub(crate) end: usize,
    pub(crate) edns: Option<Edns>,
}

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// Nothing: it is no query. Answering answers makes loops.
    No,
    /// Say this, without a question.
    Bad(Rcode),
    Yes,
}

impl Query {
    pub(crate) fn read(&mut self, message: &[u8]) -> Readable {
        if message.len() < HEADER || message[2] & 0x80 != 0 {
            return Readable::No;
        }
        if message[2] & 0x78 != 0 {
            return Readable::Bad(Rcode::NotImp);
        }
        match self.read_body(message) {
            Some(()) => Readable::Yes,
            None => Readable::Bad(Rcode::FormErr),
        }
    }

    fn read_body(&mut self, message: &[u8]) -> Option<()> {
        if message[4..6] != [0, 1] {
            return None;
        }
        let length = self.name.read(&message[HEADER..]).ok()?;
        let &[t0, t1, c0, c1] = message.get(HEADER + length..)?.first_chunk()?;
        (self.qtype, self.qclass) = (u16::from_be_bytes([t0, t1]), u16::from_be_bytes([c0, c1]));
        self.end = HEADER + length + 4;
        self.edns = match message[6..HEADER] {
            [0, 0, 0, 0, 0, 0] => None,
            [0, 0, 0, 0, 0, 1] => match opt(&message[self.end..]) {
                Some(edns) => Some(edns),
                None => slow(message)?,
            },
            _ => slow(message)?,
        };
        Some(())
    }
}

/// An OPT record right where one is expected.
fn opt(record: &[u8]) -> Option<Edns> {
    let &[0, 0, 41, s0, s1, _, version, flags, _, l0, l1] = record.first_chunk()? else { return None };
    let data = usize::from(u16::from_be_bytes([l0, l1]));
    let size = u16::from_be_bytes([s0, s1]);
    (record.len() >= OPT_LENGTH + data).then_some(Edns { size, version, dnssec_ok: flags & 0x80 != 0 })
}

/// Whatever else a query may carry: `None` if it cannot be read, or has two OPT records.
fn slow(message: &[u8]) -> Option<Option<Edns>> {
    let message = Message::from_octets(message).ok()?;
    let mut records = message.answer().ok()?;
    for record in &mut records {
        record.ok()?;
    }
    let mut records = records.next_section().ok()??;
    for record in &mut records {
        record.ok()?;
    }
    let mut edns = None;
    for record in records.next_section().ok()?? {
        let record: ParsedRecord<'_, _> = record.ok()?;
        if record.rtype() == Rtype::OPT {
            let [_, version, flags, _] = record.ttl().as_secs().to_be_bytes();
            let size = record.class().to_int();
            let found = Edns { size, version, dnssec_ok: flags & 0x80 != 0 };
            if edns.replace(found).is_some() || !record.owner().is_root() {
                return None;
            }
        }
    }
    Some(edns)
}
