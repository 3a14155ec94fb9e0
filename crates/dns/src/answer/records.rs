//! What is written for what was found; SRV records are in `targets`, names of addresses in `pointers`.
//!
//! Owners are pointers to where the name stands in the message already, so that a reply keeps the case of the question
//! (0x20) and stays small. What does not fit is left out: of an answer with TC set, of additional addresses without a word.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{HEADER, Rcode, Section, Why, Writer, rtype};
use crate::zone::{Addresses, Name, Realm, Service, Zones};

use super::lookup::{Found, look_up};
use super::settings::{Apex, Settings};

pub(super) const SVC: &[u8] = b"\x03svc";
const SERVER: &[u8] = b"\x02ns\x03dns";
const HOSTMASTER: &[u8] = b"\x0ahostmaster";
/// How often an alias may lead to another.
const MOST_ALIASES: usize = 8;
/// Seconds that the version of the schema may be kept.
const VERSION_TTL: u32 = 28_800;

/// Writes one reply.
pub(super) struct Scribe<'a, 'b> {
    pub(super) zones: &'a Zones,
    pub(super) settings: &'a Settings,
    pub(super) random: &'a mut fastrand::Rng,
    pub(super) writer: Writer<'b>,
    pub(super) qtype: u16,
}

/// A name in our zones and where it stands in the message.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) apex: &'a Apex,
    pub(super) name: &'a Name,
    pub(super) before: usize,
    pub(super) at: usize,
}

impl Here<'_> {
    /// Where the apex stands in the message.
    fn apex_at(&self) -> usize {
        self.at + self.name.start(self.before)
    }

    /// `<service>.<namespace>` of a name that is at or below a service.
    pub(super) fn key(&self) -> &[u8] {
        self.name.labels(self.before.saturating_sub(3), self.before.saturating_sub(1))
    }
}

/// What became of a name.
pub(super) enum Written {
    Data,
    NoData,
    Nothing,
    Unknown,
    Alias(Box<[u8]>),
}

impl Scribe<'_, '_> {
    /// Whether there is anything in the answer.
    pub(super) fn is_begun(&self) -> bool {
        self.writer.count(Section::Answer) > 0
    }

    /// Answers for a name that stands at `at` in the message, and for what it is an alias of. `None`: not ours.
    pub(super) fn resolve(&mut self, name: &Name, at: usize) -> Option<Rcode> {
        let mut target;
        let (mut name, mut at) = (name, at);
        for _ in 0..MOST_ALIASES {
            let Some((place, before)) = self.settings.zone(name) else { return self.reverse_only(name, at) };
            let here = Here { apex: &self.settings.zones[place], name, before, at };
            self.writer.authoritative();
            let zones = self.zones;
            let written = look_up(zones, here.apex, name, before, |found| self.write(here, found));
            match written {
                Written::Alias(wire) if self.qtype != rtype::CNAME => {
                    let place = self.writer.at() - wire.len();
                    target = Name::default();
                    target.read(&wire).ok()?;
                    (name, at) = (&target, place);
                }
                written => return Some(self.conclude(here, written)),
            }
        }
        Some(Rcode::ServFail)
    }

    fn conclude(&mut self, here: Here<'_>, written: Written) -> Rcode {
        match written {
            Written::Data | Written::Alias(_) => Rcode::NoError,
            Written::Unknown => {
                self.writer.explain(Why::NotReady);
                Rcode::ServFail
            }
            Written::NoData => {
                self.soa(here, Section::Authority);
                Rcode::NoError
            }
            Written::Nothing => {
                self.soa(here, Section::Authority);
                Rcode::NxDomain
            }
        }
    }

    fn write(&mut self, here: Here<'_>, found: Found<'_>) -> Written {
        match found {
            Found::Nothing => Written::Nothing,
            Found::Unknown => Written::Unknown,
            Found::Reverse => self.reverse(here),
            Found::Service(Service::Alias(target)) => self.alias(here, target),
            _ if self.qtype == rtype::ANY => self.any(here),
            Found::Empty => Written::NoData,
            Found::Apex => self.apex(here),
            Found::Version => self.version(here),
            Found::Server => self.addresses(here, &self.settings.servers),
            Found::Service(service) => self.service(here, service),
            Found::Port(service) if self.qtype == rtype::SRV => {
                let path = here.name.labels(0, here.before - 3);
                self.srv(here, service, |port| *port.path == *path)
            }
            Found::Port(_) => Written::NoData,
            Found::Host(host) => self.addresses(here, &host.addresses),
        }
    }

    fn one(&mut self, owner: usize, kind: u16, ttl: u32, parts: &[&[u8]]) -> Written {
        if !self.writer.record(Section::Answer, owner, kind, ttl, parts) {
            self.writer.truncate();
        }
        Written::Data
    }

    /// Whoever asks for everything gets one small record (RFC 8482).
    pub(super) fn any(&mut self, here: Here<'_>) -> Written {
        self.one(here.at, rtype::HINFO, self.settings.ttl, &[b"\x07RFC8482\x00"])
    }

    fn alias(&mut self, here: Here<'_>, target: &[u8]) -> Written {
        if self.qtype == rtype::ANY {
            return self.any(here);
        }
        if !self.writer.record(Section::Answer, here.at, rtype::CNAME, self.settings.ttl, &[target]) {
            self.writer.truncate();
            return Written::Data;
        }
        Written::Alias(target.into())
    }

    fn version(&mut self, here: Here<'_>) -> Written {
        let text: &[u8] = match here.apex.kind {
            super::Kind::Services(Realm::Cluster) => b"\x051.1.0",
            _ => b"\x051.0.0",
        };
        match self.qtype {
            rtype::TXT => self.one(here.at, rtype::TXT, VERSION_TTL, &[text]),
            _ => Written::NoData,
        }
    }

    fn apex(&mut self, here: Here<'_>) -> Written {
        match self.qtype {
            rtype::SOA => {
                self.soa(here, Section::Answer);
                Written::Data
            }
            rtype::NS => {
                let up = pointer(here.apex_at());
                let written = self.one(here.at, rtype::NS, self.settings.ttl, &[SERVER, &up]);
                let owner = self.writer.at() - SERVER.len() - up.len();
                let servers = &self.settings.servers;
                self.additional(owner, &servers.v4, &servers.v6);
                written
            }
            _ => Written::NoData,
        }
    }

    /// The record that begins every zone; in the authority section it says how long there is nothing (RFC 2308).
    fn soa(&mut self, here: Here<'_>, section: Section) {
        let Settings { ttl, negative_ttl, .. } = *self.settings;
        let ttl = if section == Section::Answer { ttl } else { ttl.min(negative_ttl) };
        let up = pointer(here.apex_at());
        let mut numbers = [0; 20];
        let values = [self.zones.serial(), 7200, 1800, 86_400, negative_ttl];
        for (place, value) in numbers.chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_be_bytes());
        }
        let owner = here.apex_at();
        if !self.writer.record(section, owner, rtype::SOA, ttl, &[SERVER, &up, HOSTMASTER, &up, &numbers]) {
            self.writer.truncate();
        }
    }

    fn service(&mut self, here: Here<'_>, service: &Service) -> Written {
        match (self.qtype, service) {
            // Not in the specification, but asked by its conformance suite and by clients that look for all ports.
            (rtype::SRV, _) => self.srv(here, service, |_| true),
            (_, Service::Endpoints(endpoints)) => self.addresses(here, &endpoints.addresses),
            (rtype::A, Service::Address { v4, .. }) => self.v4(here.at, v4.as_slice()),
            (rtype::AAAA, Service::Address { v6, .. }) => self.v6(here.at, v6.as_slice()),
            _ => Written::NoData,
        }
    }

    fn addresses(&mut self, here: Here<'_>, addresses: &Addresses) -> Written {
        match self.qtype {
            rtype::A => self.v4(here.at, &addresses.v4),
            rtype::AAAA => self.v6(here.at, &addresses.v6),
            _ => Written::NoData,
        }
    }

    fn v4(&mut self, owner: usize, all: &[Ipv4Addr]) -> Written {
        self.set(owner, rtype::A, all.len(), |place| all[place].octets())
    }

    fn v6(&mut self, owner: usize, all: &[Ipv6Addr]) -> Written {
        self.set(owner, rtype::AAAA, all.len(), |place| all[place].octets())
    }

    /// Records of one size. If not all fit, which ones do is chance as well.
    fn set<const N: usize>(
        &mut self,
        owner: usize,
        kind: u16,
        count: usize,
        data: impl Fn(usize) -> [u8; N],
    ) -> Written {
        if count == 0 {
            return Written::NoData;
        }
        let (begin, first, ttl) = (self.writer.at(), self.first(count), self.settings.ttl);
        for place in 0..count {
            let octets = data((first + place) % count);
            if !self.writer.record(Section::Answer, owner, kind, ttl, &[&octets]) {
                self.writer.truncate();
                break;
            }
        }
        if self.settings.shuffle && count > 2 {
            shuffle(self.writer.written_mut(begin), 12 + N, self.random);
        }
        Written::Data
    }

    /// Which of `count` comes first.
    pub(super) fn first(&mut self, count: usize) -> usize {
        if self.settings.shuffle && count > 1 { self.random.usize(0..count) } else { 0 }
    }

    /// Adds the addresses of a name that stands at `owner`; `false` if there is no more room.
    pub(super) fn additional(&mut self, owner: usize, v4: &[Ipv4Addr], v6: &[Ipv6Addr]) -> bool {
        let ttl = self.settings.ttl;
        let mut add =
            |kind, octets: &[u8]| self.writer.record(Section::Additional, owner, kind, ttl, &[octets]);
        v4.iter().all(|ip| add(rtype::A, &ip.octets())) && v6.iter().all(|ip| add(rtype::AAAA, &ip.octets()))
    }
}

fn pointer(at: usize) -> [u8; 2] {
    // Names stand at the front of a message; `HEADER + LONGEST_NAME` and a few records fit in 14 bits.
    debug_assert!((HEADER..0x4000).contains(&at));
    (0xc000 | at as u16).to_be_bytes()
}

/// Puts records of `stride` octets into another order.
fn shuffle(records: &mut [u8], stride: usize, random: &mut fastrand::Rng) {
    let count = records.len() / stride;
    for place in (1..count).rev() {
        let other = random.usize(0..=place);
        if other != place {
            let (front, back) = records.split_at_mut(place * stride);
            front[other * stride..][..stride].swap_with_slice(&mut back[..stride]);
        }
    }
}
