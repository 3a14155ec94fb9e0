//! Elements in bytes: which set or map, which key, which value.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tombolo_api::service::IpFamily;
use tombolo_model::routing::{Claim, Protocol};
use tombolo_nft::{Element, Family, Fields, Value as Data, Verdict};

use super::extra::{Extra, family};
use crate::plan::{Client, Key, Value};

/// An element with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Encoded {
    pub(crate) family: Family,
    pub(crate) set: Cow<'static, str>,
    pub(crate) element: Element,
}

pub(crate) fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

/// The key alone: what is needed to remove an element.
pub(crate) fn key(key: &Key) -> Encoded {
    let place = |claim: &Claim, with: &'static str, without: &'static str| {
        Cow::Borrowed(if claim.address.is_some() { with } else { without })
    };
    let plain = |claim: &Claim, set, fields: Fields| Encoded {
        family: family(claim),
        set,
        element: Element::new(fields.bytes()),
    };
    match key {
        Key::Frontend(claim) => plain(claim, place(claim, "services", "nodeports"), frontend(claim)),
        Key::FromHere(claim) => {
            plain(claim, place(claim, "from-here", "nodeports-from-here"), frontend(claim))
        }
        Key::Slot(claim, slot) => {
            plain(claim, place(claim, "endpoints", "nodeport-endpoints"), frontend(claim).with_mark(*slot))
        }
        Key::Refused(claim) => plain(claim, place(claim, "refused", "refused-nodeports"), frontend(claim)),
        Key::Guarded(claim) => plain(claim, "guarded".into(), frontend(claim)),
        Key::Allowed(claim, range) => allowed(claim, range),
        Key::Masquerade(claim) => {
            plain(claim, place(claim, "masquerade", "masquerade-nodeports"), frontend(claim))
        }
        Key::Sticky(duration, claim, target) => {
            let extra = Extra::Sticky { duration: *duration, node_port: claim.address.is_none() };
            let fields = frontend(claim).with_address(target.ip()).with_port(target.port());
            plain(claim, extra.name().into(), fields)
        }
        Key::ClusterIp(address) => of_address("cluster-ips", *address),
        Key::External(claim) => plain(claim, "external".into(), frontend(claim)),
        Key::Hairpin(protocol, target) => hairpin(*protocol, *target),
    }
}

/// The whole element.
pub(crate) fn element(of: &Key, value: &Value) -> Encoded {
    let mut encoded = key(of);
    encoded.element.value = match value {
        Value::Present | Value::Sticks(_) => Data::None,
        Value::Target(target) => {
            Data::Data(Fields::new().with_address(target.ip()).with_port(target.port()).bytes())
        }
        Value::Drop => Data::Verdict(Verdict::Drop),
        Value::Reject => Data::Verdict(Verdict::Goto("reject".to_owned())),
        Value::Balance(_) => {
            let chain = Extra::needed(of, value).map(|(_, extra)| extra.name()).unwrap_or_default();
            Data::Verdict(Verdict::Goto(chain))
        }
    };
    encoded
}

/// `ip daddr . meta l4proto . th dport`, without the address for a node port.
fn frontend(claim: &Claim) -> Fields {
    let fields = claim.address.map_or_else(Fields::new, |address| Fields::new().with_address(address));
    fields.with(&[number(claim.protocol)]).with_port(claim.port)
}

fn allowed(claim: &Claim, range: &IpNet) -> Encoded {
    let end = frontend(claim).with_address(range.broadcast()).bytes();
    let start = frontend(claim).with_address(range.network()).bytes();
    let element = Element { end: Some(end), ..Element::new(start) };
    Encoded { family: family(claim), set: "allowed".into(), element }
}

fn of_address(set: &'static str, address: IpAddr) -> Encoded {
    let element = Element::new(Fields::new().with_address(address).bytes());
    Encoded { family: family_of(address), set: set.into(), element }
}

/// Destination, protocol, port, source: the same address twice.
fn hairpin(protocol: Protocol, target: SocketAddr) -> Encoded {
    let fields = Fields::new().with_address(target.ip()).with(&[number(protocol)]);
    let fields = fields.with_port(target.port()).with_address(target.ip());
    Encoded { family: family_of(target.ip()), set: "hairpin".into(), element: Element::new(fields.bytes()) }
}

pub(crate) fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::Ip } else { Family::Ip6 }
}

/// Who sticks to what, from an element as it is loaded: `ip saddr . ip daddr . meta l4proto . th dport : target`.
pub(crate) fn client(family: Family, loaded: &Element) -> Option<Client> {
    let Data::Data(data) = &loaded.value else { return None };
    let width = if family == Family::Ip { 4 } else { 16 };
    let (source, rest) = loaded.key.split_at_checked(width)?;
    let (address, rest) = rest.split_at_checked(width)?;
    let (protocol, port) = rest.split_at_checked(4)?;
    let (target, target_port) = data.split_at_checked(width)?;
    let frontend = Claim {
        family: if family == Family::Ip { IpFamily::V4 } else { IpFamily::V6 },
        address: Some(read_address(address)?),
        protocol: read_protocol(*protocol.first()?)?,
        port: read_port(port)?,
    };
    let target = SocketAddr::new(read_address(target)?, read_port(target_port)?);
    Some(Client { source: read_address(source)?, frontend, target })
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn read_port(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().copied().map(u16::from_be_bytes)
}

fn read_protocol(number: u8) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|protocol| self::number(*protocol) == number)
}
