//! Parts of rules: what is loaded into registers, and what is asked about it.
//!
//! Keys of several fields lie in registers one after the other, from the first on; an IPv6 address takes four.

use std::net::IpAddr;

use ipnet::IpNet;
use tombolo_nft::{Comparison, CtKey, Expression, Family, Fields, Header, MetaKey, Register, Type};

const TCP: u8 = 6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) family: Family,
    /// How many registers an address takes.
    pub(super) width: u8,
}

impl Registers {
    pub(super) fn of(family: Family) -> Self {
        Self { family, width: if family == Family::Ip6 { 4 } else { 1 } }
    }

    pub(super) fn address_type(self) -> Type {
        if self.family == Family::Ip6 { Type::Ipv6 } else { Type::Ipv4 }
    }

    /// Of `ranges`, those of this family.
    pub(super) fn own(self, ranges: &[IpNet]) -> impl Iterator<Item = IpNet> + use<'_> {
        ranges.iter().copied().filter(move |range| range.addr().is_ipv6() == (self.family == Family::Ip6))
    }

    pub(super) fn loopback(self) -> IpNet {
        let v4 = IpNet::new_assert(IpAddr::from([127, 0, 0, 0]), 8);
        let v6 = IpNet::new_assert(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]), 128);
        if self.family == Family::Ip6 { v6 } else { v4 }
    }

    fn address(self, (v4, v6): (u32, u32), to: u8) -> Expression {
        let (offset, length) = if self.family == Family::Ip6 { (v6, 16) } else { (v4, 4) };
        Expression::Payload { header: Header::Network, offset, length, to: Register(to) }
    }

    pub(super) fn source(self, to: u8) -> Expression {
        self.address((12, 8), to)
    }

    pub(super) fn destination(self, to: u8) -> Expression {
        self.address((16, 24), to)
    }

    pub(super) fn protocol(self, to: u8) -> Expression {
        Expression::Meta { key: MetaKey::Protocol, to: Register(to) }
    }

    pub(super) fn destination_port(self, to: u8) -> Expression {
        Expression::Payload { header: Header::Transport, offset: 2, length: 2, to: Register(to) }
    }

    /// The address the client sent to.
    pub(super) fn original_destination(self, to: u8) -> Expression {
        let key = if self.family == Family::Ip6 { CtKey::DestinationV6 } else { CtKey::DestinationV4 };
        Expression::Ct { key, original: true, to: Register(to) }
    }

    fn original_destination_port(self, to: u8) -> Expression {
        Expression::Ct { key: CtKey::DestinationPort, original: true, to: Register(to) }
    }

    /// `ip daddr . meta l4proto . th dport`
    pub(super) fn frontend(self) -> Vec<Expression> {
        vec![self.destination(0), self.protocol(self.width), self.destination_port(self.width + 1)]
    }

    /// `ip daddr . meta l4proto . th dport . ip saddr`
    pub(super) fn frontend_and_source(self) -> Vec<Expression> {
        [self.frontend(), vec![self.source(self.width + 2)]].concat()
    }

    /// The same after the translation: who speaks to whom.
    pub(super) fn pair(self) -> Vec<Expression> {
        self.frontend_and_source()
    }

    /// `meta l4proto . th dport`
    pub(super) fn port(self) -> Vec<Expression> {
        vec![self.protocol(0), self.destination_port(1)]
    }

    /// `ct original ip daddr . meta l4proto . ct original proto-dst` from a register on.
    pub(super) fn original_frontend_at(self, to: u8) -> Vec<Expression> {
        vec![
            self.original_destination(to),
            self.protocol(to + self.width),
            self.original_destination_port(to + self.width + 1),
        ]
    }

    pub(super) fn original_frontend(self) -> Vec<Expression> {
        self.original_frontend_at(0)
    }

    pub(super) fn original_port(self) -> Vec<Expression> {
        vec![self.protocol(0), self.original_destination_port(1)]
    }

    pub(super) fn dispatch(self, map: &str) -> Expression {
        Expression::Dispatch { map: map.to_owned(), from: Register(0) }
    }

    pub(super) fn present(self, set: &str) -> Expression {
        Expression::Contains { set: set.to_owned(), from: Register(0), inverted: false }
    }

    pub(super) fn absent(self, set: &str) -> Expression {
        Expression::Contains { set: set.to_owned(), from: Register(0), inverted: true }
    }

    pub(super) fn is_tcp(self) -> Vec<Expression> {
        vec![self.protocol(0), compare(Comparison::Equal, vec![TCP])]
    }

    pub(super) fn destination_is(self, kind: u32) -> [Expression; 2] {
        address_type(false, kind)
    }

    pub(super) fn source_is(self, kind: u32) -> [Expression; 2] {
        address_type(true, kind)
    }

    pub(super) fn source_in(self, range: IpNet, comparison: Comparison) -> Vec<Expression> {
        [vec![self.source(0)], within(range, comparison)].concat()
    }

    pub(super) fn destination_in(self, range: IpNet, comparison: Comparison) -> Vec<Expression> {
        [vec![self.destination(0)], within(range, comparison)].concat()
    }

    /// Goes on if a bit of the connection is set.
    pub(super) fn bit(self, key: CtKey, bit: u32) -> [Expression; 3] {
        masked(key, bit, Comparison::NotEqual)
    }

    /// Goes on if it is not.
    pub(super) fn no_bit(self, key: CtKey, bit: u32) -> [Expression; 3] {
        masked(key, bit, Comparison::Equal)
    }

    /// Translates to the address and port that lie from the first register on.
    pub(super) fn translate(self) -> Expression {
        let port = Register(self.width);
        Expression::DestinationNat { family: self.family, address: Register(0), port }
    }
}

fn compare(comparison: Comparison, value: Vec<u8>) -> Expression {
    Expression::Compare { from: Register(0), comparison, value }
}

fn address_type(source: bool, kind: u32) -> [Expression; 2] {
    let to = Register(0);
    [Expression::AddressType { source, to }, compare(Comparison::Equal, kind.to_ne_bytes().to_vec())]
}

fn masked(key: CtKey, bit: u32, comparison: Comparison) -> [Expression; 3] {
    let to = Register(0);
    [
        Expression::Ct { key, original: false, to },
        Expression::Bitwise { from: to, to, mask: bit.to_ne_bytes().to_vec(), xor: vec![0; 4] },
        compare(comparison, vec![0; 4]),
    ]
}

/// A prefix of zero bits holds everything and one of all bits needs no mask.
fn within(range: IpNet, comparison: Comparison) -> Vec<Expression> {
    let octets = |address: IpAddr| Fields::new().with_address(address).bytes();
    let (mask, network) = (octets(range.netmask()), octets(range.network()));
    let to = Register(0);
    let masked = Expression::Bitwise { from: to, to, xor: vec![0; mask.len()], mask };
    let whole = range.prefix_len() == range.max_prefix_len();
    let masked = Some(masked).filter(|_| !whole);
    masked.into_iter().chain([compare(comparison, network)]).collect()
}
