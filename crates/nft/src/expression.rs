//! Expressions: the instructions a rule is made of.
//!
//! Each reads and writes registers of four bytes; a rule sees only what it wrote itself. Variants are named after what
//! they do, with the kernel's name for it in the comment.

use std::time::Duration;

use crate::attribute::Writer;
use crate::message::Family;

const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
/// Before the numbers of registers of four bytes.
const FIRST_REGISTER: u32 = 8;

/// One of sixteen registers of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub u8);

impl Register {
    fn number(self) -> u32 {
        FIRST_REGISTER + u32::from(self.0)
    }
}

/// What becomes of a packet, or which rules see it next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Drop,
    Accept,
    /// The rules of a chain, then the ones after this.
    Jump(String),
    /// The rules of a chain instead of the ones after this.
    Goto(String),
    Return,
}

impl Verdict {
    fn code(&self) -> i32 {
        match self {
            Verdict::Drop => 0,
            Verdict::Accept => 1,
            Verdict::Jump(_) => -3,
            Verdict::Goto(_) => -4,
            Verdict::Return => -5,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.nested(DATA_VERDICT, |out| {
            out.u32(1, self.code() as u32);
            if let Verdict::Jump(chain) | Verdict::Goto(chain) = self {
                out.text(2, chain);
            }
        });
    }

    pub(crate) fn read(code: u32, chain: Option<String>) -> Option<Self> {
        match (code as i32, chain) {
            (0, _) => Some(Verdict::Drop),
            (1, _) => Some(Verdict::Accept),
            (-3, Some(chain)) => Some(Verdict::Jump(chain)),
            (-4, Some(chain)) => Some(Verdict::Goto(chain)),
            (-5, _) => Some(Verdict::Return),
            _ => None,
        }
    }
}

/// Which header a payload is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    Network = 1,
    Transport = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaKey {
    Mark = 3,
    Protocol = 16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtKey {
    /// Bits: see [`NEW`].
    State = 0,
    /// Bits: see [`DESTINATION_TRANSLATED`].
    Status = 2,
    /// 16 bits.
    DestinationPort = 12,
    SourceV4 = 19,
    DestinationV4 = 20,
    SourceV6 = 21,
    DestinationV6 = 22,
}

/// Bit of [`CtKey::State`]: the first packet of a connection.
pub const NEW: u32 = 8;
/// Bit of [`CtKey::Status`].
pub const DESTINATION_TRANSLATED: u32 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal = 0,
    NotEqual = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// ICMP, with the family's code for "port unreachable".
    PortUnreachable(Family),
    TcpReset,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `payload`: bytes of the packet into a register.
    Payload { header: Header, offset: u32, length: u32, to: Register },
    /// `meta`
    Meta { key: MetaKey, to: Register },
    /// `ct`: with `original`, of the direction the connection began in.
    Ct { key: CtKey, original: bool, to: Register },
    /// `fib daddr type` or `fib saddr type`: what kind of address it is for this host.
    AddressType { source: bool, to: Register },
    /// `cmp`: the rule ends here unless it holds.
    Compare { from: Register, comparison: Comparison, value: Vec<u8> },
    /// `bitwise`: and, then exclusive or.
    Bitwise { from: Register, to: Register, mask: Vec<u8>, xor: Vec<u8> },
    /// `lookup` in a set: the rule ends here unless the key is in it, or with `inverted` if it is.
    Contains { set: String, from: Register, inverted: bool },
    /// `lookup` in a map of values.
    Lookup { map: String, from: Register, to: Register },
    /// `lookup` in a map of verdicts.
    Dispatch { map: String, from: Register },
    /// `numgen random`: a number in the byte order of the host.
    Random { to: Register, modulus: u32, offset: u32 },
    /// `dynset` update: adds an element from registers, or makes the one that is there last longer.
    Update { set: String, key: Register, data: Option<Register>, timeout: Duration },
    /// `immediate`: bytes into a register.
    Immediate { to: Register, value: Vec<u8> },
    /// `immediate`: a verdict.
    Verdict(Verdict),
    /// `nat`: destination address and port from registers.
    DestinationNat { family: Family, address: Register, port: Register },
    /// `masq`: source address of the outgoing interface, any port.
    Masquerade,
    /// `reject`
    Reject(Rejection),
    /// `counter`
    Counter,
}

impl Expression {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.text(1, self.name());
        out.nested(2, |out| self.write_data(out));
    }

    const fn name(&self) -> &'static str {
        match self {
            Expression::Payload { .. } => "payload",
            Expression::Meta { .. } => "meta",
            Expression::Ct { .. } => "ct",
            Expression::AddressType { .. } => "fib",
            Expression::Compare { .. } => "cmp",
            Expression::Bitwise { .. } => "bitwise",
            Expression::Contains { .. } | Expression::Lookup { .. } | Expression::Dispatch { .. } => "lookup",
            Expression::Random { .. } => "numgen",
            Expression::Update { .. } => "dynset",
            Expression::Immediate { .. } | Expression::Verdict(_) => "immediate",
            Expression::DestinationNat { .. } => "nat",
            Expression::Masquerade => "masq",
            Expression::Reject(_) => "reject",
            Expression::Counter => "counter",
        }
    }

    fn write_data(&self, out: &mut Writer<'_>) {
        match self {
            Expression::Payload { header, offset, length, to } => {
                numbers(out, &[(1, to.number()), (2, *header as u32), (3, *offset), (4, *length)]);
            }
            Expression::Meta { key, to } => numbers(out, &[(2, *key as u32), (1, to.number())]),
            Expression::Ct { key, original, to } => {
                numbers(out, &[(2, *key as u32), (1, to.number())]);
                if *original {
                    out.u8(3, 0);
                }
            }
            Expression::AddressType { source, to } => {
                numbers(out, &[(3, if *source { 1 } else { 2 }), (2, 3), (1, to.number())]);
            }
            Expression::Compare { from, comparison, value } => {
                numbers(out, &[(1, from.number()), (2, *comparison as u32)]);
                data(out, 3, value);
            }
            Expression::Bitwise { from, to, mask, xor } => {
                numbers(out, &[(1, from.number()), (2, to.number()), (3, mask.len() as u32)]);
                data(out, 4, mask);
                data(out, 5, xor);
            }
            Expression::Random { to, modulus, offset } => {
                numbers(out, &[(1, to.number()), (2, *modulus), (3, 1), (4, *offset)]);
            }
            Expression::Immediate { to, value } => {
                out.u32(1, to.number());
                data(out, 2, value);
            }
            Expression::Verdict(verdict) => {
                out.u32(1, 0);
                out.nested(2, |out| verdict.write(out));
            }
            Expression::DestinationNat { family, address, port } => {
                numbers(out, &[(1, 1), (2, *family as u32), (3, address.number()), (5, port.number())]);
            }
            // Fully random ports, so that two clients that chose the same one do not race for it.
            Expression::Masquerade => out.u32(1, 16),
            Expression::Reject(rejection) => reject(out, *rejection),
            Expression::Counter => [1, 2].into_iter().for_each(|kind| out.u64(kind, 0)),
            _ => self.write_lookup(out),
        }
    }

    /// What works on sets and maps.
    fn write_lookup(&self, out: &mut Writer<'_>) {
        match self {
            Expression::Contains { set, from, inverted } => {
                out.text(1, set);
                numbers(out, &[(2, from.number()), (5, u32::from(*inverted))]);
            }
            Expression::Lookup { map, from, to } => {
                out.text(1, map);
                numbers(out, &[(2, from.number()), (3, to.number())]);
            }
            Expression::Dispatch { map, from } => {
                out.text(1, map);
                numbers(out, &[(2, from.number()), (3, 0)]);
            }
            Expression::Update { set, key, data, timeout } => {
                out.text(1, set);
                numbers(out, &[(3, 1), (4, key.number())]);
                if let Some(data) = data {
                    out.u32(5, data.number());
                }
                out.u64(6, u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
}

fn numbers(out: &mut Writer<'_>, numbers: &[(u16, u32)]) {
    numbers.iter().for_each(|(kind, number)| out.u32(*kind, *number));
}

pub(crate) fn data(out: &mut Writer<'_>, kind: u16, value: &[u8]) {
    out.nested(kind, |out| out.bytes(DATA_VALUE, value));
}

fn reject(out: &mut Writer<'_>, rejection: Rejection) {
    let (kind, code) = match rejection {
        Rejection::TcpReset => (1, 0),
        Rejection::PortUnreachable(Family::Ip) => (0, 3),
        Rejection::PortUnreachable(Family::Ip6) => (0, 4),
        // One code for both families.
        Rejection::PortUnreachable(Family::Inet) => (2, 1),
    };
    out.u32(1, kind);
    out.u8(2, code);
}
