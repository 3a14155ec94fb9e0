//! What a name in one of our zones is.
//!
//! A name exists if it or any name below it has data (RFC 8020); everything here follows from that. The one exception is in
//! the specification: a headless service without ready endpoints does not exist, and with it nothing below it.

use crate::zone::{Host, Name, Realm, Service, Zones, has_port};

use super::settings::{Apex, Kind};

/// What is at a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Neither it nor anything below it has data.
    Nothing,
    /// Something below it has data.
    Empty,
    /// The top of the zone.
    Apex,
    /// `dns-version`.
    Version,
    /// `ns.dns`, the server itself.
    Server,
    /// A service.
    Service(&'a Service),
    /// `_port._protocol` of a service.
    Port(&'a Service),
    /// An endpoint of a headless service.
    Host(&'a Host),
    /// It may exist: not everything is known yet.
    Unknown,
    /// A name of the reverse zones.
    Reverse,
}

/// Runs `f` with what is at `name`, which has `before` labels before the apex.
pub(crate) fn look_up<T>(
    zones: &Zones,
    apex: &Apex,
    name: &Name,
    before: usize,
    f: impl FnOnce(Found<'_>) -> T,
) -> T {
    if let Some(found) = fixed(apex, name, before) {
        return f(found);
    }
    let Kind::Services(realm) = apex.kind else { return f(Found::Reverse) };
    if name.label(before - 1) != b"svc" {
        return f(Found::Nothing);
    }
    match before {
        1 => f(Found::Empty),
        2 => f(namespace(zones, realm, name.labels(0, 1))),
        _ => {
            let (front, key) = (name.labels(0, before - 3), name.labels(before - 3, before - 1));
            zones.with(realm, key, |service| match service.map(|service| within(service, front)) {
                Some(found) if found != Found::Nothing => f(found),
                _ if !zones.is_complete(realm) => f(Found::Unknown),
                _ => f(Found::Nothing),
            })
        }
    }
}

/// Names that every zone has.
fn fixed(apex: &Apex, name: &Name, before: usize) -> Option<Found<'static>> {
    let versioned = apex.kind != Kind::Reverse;
    match before {
        0 => Some(Found::Apex),
        1 if name.label(0) == b"dns-version" && versioned => Some(Found::Version),
        1 if name.label(0) == b"dns" => Some(Found::Empty),
        2 if name.label(1) == b"dns" && name.label(0) == b"ns" => Some(Found::Server),
        _ => None,
    }
}

fn namespace(zones: &Zones, realm: Realm, label: &[u8]) -> Found<'static> {
    match (zones.has_namespace(label), zones.is_complete(realm)) {
        (true, _) => Found::Empty,
        (false, true) => Found::Nothing,
        (false, false) => Found::Unknown,
    }
}

/// What is at `front` before the name of a service.
fn within<'a>(service: &'a Service, front: &[u8]) -> Found<'a> {
    if front.is_empty() {
        return Found::Service(service);
    }
    match service {
        Service::Address { ports, .. } if ports.iter().any(|port| *port.path == *front) => {
            Found::Port(service)
        }
        Service::Address { ports, .. } if has_port(ports, front) => Found::Empty,
        Service::Endpoints(endpoints) => match endpoints.host(front) {
            Some(host) => Found::Host(host),
            None if endpoints.has_exact_port(front) => Found::Port(service),
            None if endpoints.has_port(front) || endpoints.has_below(front) => Found::Empty,
            None => Found::Nothing,
        },
        _ => Found::Nothing,
    }
}
