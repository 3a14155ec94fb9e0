//! PTR records: from an address back to the names of services and hosts.

use std::net::IpAddr;

use crate::message::{Rcode, Section, rtype};
use crate::zone::{Asked, Name, Realm, Service, asked};

use super::records::{Here, SVC, Scribe, Written};

impl Scribe<'_, '_> {
    /// A name below `in-addr.arpa` or `ip6.arpa` in one of our reverse zones.
    pub(super) fn reverse(&mut self, here: Here<'_>) -> Written {
        let known = Realm::ALL
            .into_iter()
            .filter(|realm| self.settings.home(*realm).is_some())
            .all(|realm| self.zones.is_complete(realm));
        let nothing = if known { Written::Nothing } else { Written::Unknown };
        match asked(here.name) {
            Some(Asked::Address(ip)) => match self.pointers(here.at, ip) {
                0 => nothing,
                _ if self.qtype == rtype::PTR => Written::Data,
                _ if self.qtype == rtype::ANY => self.any(here),
                _ => Written::NoData,
            },
            Some(Asked::Block(first, last)) if self.zones.reverse().has_between(first, last) => {
                if self.qtype == rtype::ANY { self.any(here) } else { Written::NoData }
            }
            _ => nothing,
        }
    }

    /// A reverse name in no zone of ours: only what we have is answered.
    pub(super) fn reverse_only(&mut self, name: &Name, at: usize) -> Option<Rcode> {
        let Some(Asked::Address(ip)) = asked(name).filter(|_| self.qtype == rtype::PTR) else { return None };
        if self.pointers(at, ip) == 0 {
            return None;
        }
        self.writer.authoritative();
        Some(Rcode::NoError)
    }

    /// Writes the names of an address if they are asked for; returns how many there are.
    fn pointers(&mut self, at: usize, ip: IpAddr) -> usize {
        let (zones, settings) = (self.zones, self.settings);
        let mut count = 0;
        for owner in zones.reverse().owners(ip) {
            let Some(home) = settings.home(owner.realm) else { continue };
            zones.with(owner.realm, &owner.key, |service| {
                let mut point = |path: &[u8]| {
                    count += 1;
                    let target = [path, &owner.key, SVC, home.bytes()];
                    if self.qtype == rtype::PTR
                        && !self.writer.record(Section::Answer, at, rtype::PTR, settings.ttl, &target)
                    {
                        self.writer.truncate();
                    }
                };
                match service {
                    Some(Service::Address { .. }) => point(&[]),
                    Some(Service::Endpoints(endpoints)) => endpoints
                        .hosts
                        .iter()
                        .filter(|host| host.addresses.iter().any(|other| other == ip))
                        .for_each(|host| point(&host.path)),
                    Some(Service::Alias(_)) | None => {}
                }
            });
        }
        count
    }
}
