//! A whole zone, message by message (AXFR, RFC 5936), for those who may have it.
//!
//! Services are taken one at a time from the live table, so a zone that changes meanwhile is sent with some of the changes:
//! its records are never torn within a service, and the next transfer has the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use super::settings::Kind;
use super::{Answerer, Settings};
use crate::message::{CLASS_IN, HEADER, rtype};
use crate::zone::{Addresses, Name, Port, Realm, Service, numbers};

/// No message gets longer.
const FULL: usize = 16 * 1024;
const SVC: &[u8] = b"\x03svc";
const SERVER: &[u8] = b"\x02ns\x03dns";

/// A transfer in progress.
pub(crate) struct Transfer {
    answerer: Answerer,
    realm: Realm,
    apex: Name,
    soa: Vec<u8>,
    keys: std::vec::IntoIter<Arc<[u8]>>,
    pages: Pages,
    begun: bool,
    ended: bool,
}

impl Transfer {
    /// Of the zone at `place`, for a query whose question ends at `end`.
    pub(crate) fn new(answerer: &Answerer, place: usize, query: &[u8], end: usize) -> Option<Self> {
        let apex = answerer.settings.zones.get(place)?;
        let Kind::Services(realm) = apex.kind else { return None };
        let mut front = query.get(..end)?.to_vec();
        front[2..HEADER].copy_from_slice(&[0x84 | query[2] & 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        let mut keys = Vec::new();
        answerer.zones.each(realm, |key, _| keys.push(Arc::from(key)));
        let soa = soa(&answerer.settings, &apex.name, answerer.zones.serial());
        let (apex, keys) = (apex.name.clone(), keys.into_iter());
        let pages = Pages::new(front, answerer.settings.ttl);
        Some(Self { answerer: answerer.clone(), realm, apex, soa, keys, pages, begun: false, ended: false })
    }

    /// The next message; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin();
        }
        while self.pages.full.is_empty() && !self.ended {
            let Some(key) = self.keys.next() else {
                self.pages.put(&[self.apex.bytes()], rtype::SOA, None, &[&self.soa]);
                self.pages.turn();
                self.ended = true;
                break;
            };
            let zones = self.answerer.zones.clone();
            zones.with(self.realm, &key, |service| self.service(&key, service));
        }
        self.pages.full.pop_front()
    }

    fn begin(&mut self) {
        let (apex, page) = (self.apex.bytes(), &mut self.pages);
        page.put(&[apex], rtype::SOA, None, &[&self.soa]);
        page.put(&[apex], rtype::NS, None, &[SERVER, apex]);
        page.addresses(&[SERVER, apex], &self.answerer.settings.servers);
        let version: &[u8] = if self.realm == Realm::Cluster { b"\x051.1.0" } else { b"\x051.0.0" };
        page.put(&[b"\x0bdns-version", apex], rtype::TXT, Some(28_800), &[version]);
    }

    fn service(&mut self, key: &[u8], service: Option<&Service>) {
        let page = &mut self.pages;
        let name: [&[u8]; 3] = [key, SVC, self.apex.bytes()];
        match service {
            Some(Service::Address { v4, v6, ports }) => {
                v4.iter().for_each(|ip| page.put(&name, rtype::A, None, &[&ip.octets()]));
                v6.iter().for_each(|ip| page.put(&name, rtype::AAAA, None, &[&ip.octets()]));
                page.ports(&name, &[], ports);
            }
            Some(Service::Endpoints(endpoints)) => {
                page.addresses(&name, &endpoints.addresses);
                for host in &endpoints.hosts {
                    page.addresses(&[&host.path, key, SVC, self.apex.bytes()], &host.addresses);
                    page.ports(&name, &host.path, &host.ports);
                }
            }
            Some(Service::Alias(target)) => page.put(&name, rtype::CNAME, None, &[target]),
            None => {}
        }
    }
}

/// The messages of a transfer.
struct Pages {
    /// Header and question of every message.
    front: Vec<u8>,
    ttl: u32,
    /// The one that is written, and how many records it has.
    wire: Vec<u8>,
    count: u16,
    /// Those that are ready to be sent.
    full: VecDeque<Vec<u8>>,
}

impl Pages {
    fn new(front: Vec<u8>, ttl: u32) -> Self {
        Self { wire: front.clone(), front, ttl, count: 0, full: VecDeque::new() }
    }

    /// Adds a record, to the next message if it does not fit into this one any more.
    fn put(&mut self, owner: &[&[u8]], kind: u16, ttl: Option<u32>, data: &[&[u8]]) {
        let length = |parts: &[&[u8]]| parts.iter().map(|part| part.len()).sum::<usize>();
        if self.count > 0 && self.wire.len() + length(owner) + 10 + length(data) > FULL {
            self.turn();
        }
        owner.iter().for_each(|part| self.wire.extend_from_slice(part));
        self.wire.extend_from_slice(&kind.to_be_bytes());
        self.wire.extend_from_slice(&CLASS_IN.to_be_bytes());
        self.wire.extend_from_slice(&ttl.unwrap_or(self.ttl).to_be_bytes());
        self.wire.extend_from_slice(&(length(data) as u16).to_be_bytes());
        data.iter().for_each(|part| self.wire.extend_from_slice(part));
        self.count += 1;
    }

    /// Ends the message that is written and begins another.
    fn turn(&mut self) {
        let mut page = std::mem::replace(&mut self.wire, self.front.clone());
        page[6..8].copy_from_slice(&std::mem::take(&mut self.count).to_be_bytes());
        self.full.push_back(page);
    }

    fn addresses(&mut self, owner: &[&[u8]], addresses: &Addresses) {
        addresses.v4.iter().for_each(|ip| self.put(owner, rtype::A, None, &[&ip.octets()]));
        addresses.v6.iter().for_each(|ip| self.put(owner, rtype::AAAA, None, &[&ip.octets()]));
    }

    /// The SRV records of one target, at the service's name and at the ports' own.
    fn ports(&mut self, service: &[&[u8]; 3], path: &[u8], ports: &[Port]) {
        let head = |number: u16| [[0, 0], 100_u16.to_be_bytes(), number.to_be_bytes()].concat();
        for number in numbers(ports, |_| true) {
            self.put(service, rtype::SRV, None, &[&head(number), path, service[0], service[1], service[2]]);
        }
        for port in ports.iter().filter(|port| !port.path.is_empty()) {
            let data: [&[u8]; 5] = [&head(port.number), path, service[0], service[1], service[2]];
            self.put(&[&port.path, service[0], service[1], service[2]], rtype::SRV, None, &data);
        }
    }
}

fn soa(settings: &Settings, apex: &Name, serial: u32) -> Vec<u8> {
    let mut data = [SERVER, apex.bytes(), b"\x0ahostmaster", apex.bytes()].concat();
    for number in [serial, 7200, 1800, 86_400, settings.negative_ttl] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data
}
