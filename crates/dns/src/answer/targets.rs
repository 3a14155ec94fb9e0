//! SRV records: which hosts and ports a service has, and the addresses that go with them.
//!
//! Targets are written in full (RFC 2782), in the zone that was asked.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{Section, rtype};
use crate::zone::{Host, Port, Service, numbers};

use super::records::{Here, SVC, Scribe, Written};

/// What an SRV record may lead to.
#[derive(Clone, Copy)]
struct Target<'h> {
    path: &'h [u8],
    v4: &'h [Ipv4Addr],
    v6: &'h [Ipv6Addr],
    ports: &'h [Port],
}

impl<'h> Target<'h> {
    fn host(host: &'h Host) -> Self {
        Self { path: &host.path, v4: &host.addresses.v4, v6: &host.addresses.v6, ports: &host.ports }
    }
}

impl Scribe<'_, '_> {
    pub(super) fn srv(
        &mut self,
        here: Here<'_>,
        service: &Service,
        wanted: impl Fn(&Port) -> bool,
    ) -> Written {
        match service {
            Service::Endpoints(endpoints) => {
                let first = self.first(endpoints.hosts.len());
                let (front, back) = endpoints.hosts.split_at(first);
                self.targets(here, back.iter().chain(front).map(Target::host), wanted)
            }
            Service::Address { v4, v6, ports } => {
                let itself = Target { path: &[], v4: v4.as_slice(), v6: v6.as_slice(), ports };
                self.targets(here, std::iter::once(itself), wanted)
            }
            Service::Alias(_) => Written::NoData,
        }
    }

    fn targets<'h>(
        &mut self,
        here: Here<'_>,
        targets: impl Iterator<Item = Target<'h>> + Clone,
        wanted: impl Fn(&Port) -> bool,
    ) -> Written {
        let matching = |target: &Target<'_>| numbers(target.ports, &wanted).count();
        let total: usize = targets.clone().map(|target| matching(&target)).sum();
        let weight = (100 / total.max(1)).max(1) as u16;
        let begin = self.writer.at();
        for target in targets.clone() {
            for number in numbers(target.ports, &wanted) {
                let mut head = [0; 6];
                head[2..4].copy_from_slice(&weight.to_be_bytes());
                head[4..6].copy_from_slice(&number.to_be_bytes());
                let data: [&[u8]; 5] = [&head, target.path, here.key(), SVC, here.apex.name.bytes()];
                if !self.writer.record(Section::Answer, here.at, rtype::SRV, self.settings.ttl, &data) {
                    self.writer.truncate();
                    return Written::Data;
                }
            }
        }
        self.glue(begin, targets.map(|target| (target, matching(&target))));
        if total == 0 { Written::NoData } else { Written::Data }
    }

    /// The addresses of the targets of the SRV records from `begin` on: so many records of each.
    fn glue<'h>(&mut self, begin: usize, targets: impl Iterator<Item = (Target<'h>, usize)>) {
        let mut at = begin;
        for (target, records) in targets.filter(|(_, records)| *records > 0) {
            if !self.additional(at + 12 + 6, target.v4, target.v6) {
                return;
            }
            for _ in 0..records {
                let length = self.writer.written(at).get(10..12).map_or([0; 2], |l| [l[0], l[1]]);
                at += 12 + usize::from(u16::from_be_bytes(length));
            }
        }
    }
}
