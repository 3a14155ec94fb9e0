//! Elements in bytes: which set or map, which key, which value.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use tombolo_model::routing::{Claim, Protocol};
use tombolo_nft::{Element, Family, Fields, Value as Data, Verdict};

use super::extra::{Extra, family};
use crate::plan::{Key, Value};

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
        Key::ExternalIp(address) => of_address("external-ips", *address),
        Key::Hairpin(protocol, target) => hairpin(*protocol, *target),
    }
}

/// The whole element.
pub(crate) fn element(of: &Key, value: &Value) -> Encoded {
    let mut encoded = key(of);
    encoded.element.value = match value {
        Value::Present => Data::None,
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

/// The key of who sticks to a frontend, from its bytes: the frontend's part (without the client) and the backend.
pub(crate) fn affinity_matches(loaded: &Element, claim: &Claim, target: SocketAddr) -> bool {
    let width = if claim.family == tombolo_api::service::IpFamily::V4 { 4 } else { 16 };
    let tail = if claim.address.is_some() { width } else { 2 * width };
    let backend = Fields::new().with_address(target.ip()).with_port(target.port()).bytes();
    loaded.key.get(tail..) == Some(&frontend(claim).bytes()[..]) && loaded.value == Data::Data(backend)
}
