//! Queries to replies.
//!
//! [`Answerer::answer`] is the whole way of an ordinary query: read, looked up, written, without a lock, an allocation or a
//! wait. What cannot be answered from the table is handed back for somebody else to do: forward, follow, transfer.

mod lookup;
mod pointers;
mod records;
mod settings;
mod targets;
mod transfer;

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use self::lookup::{Found, look_up};
use self::records::Scribe;
pub use self::settings::{Apex, Kind, Settings};
pub(crate) use self::transfer::Transfer;
use crate::message::{
    CLASS_IN, HEADER, Query, Rcode, Readable, SMALLEST_LIMIT, TCP_LIMIT, UDP_LIMIT, Why, Writer, rtype,
};
use crate::zone::Zones;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Ignore,
    /// The reply is in the buffer.
    Reply(Facts),
    /// It is not ours: ask an upstream.
    Forward,
    /// The reply in the buffer ends with a name that is not ours: ask an upstream for the rest.
    Follow(Facts),
    /// The client may have this zone.
    Transfer(usize),
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub size: usize,
    pub rcode: Rcode,
    pub qtype: u16,
    /// The zone, by its place in the settings.
    pub zone: Option<usize>,
}

impl Facts {
    /// Of a reply that somebody else gave.
    pub(crate) fn of_forwarded(message: &[u8], reply: &[u8]) -> Self {
        let mut query = Query::default();
        query.read(message);
        let code = reply.get(3).map_or(0, |flags| flags & 0x0f);
        let rcode = Rcode::ALL.into_iter().find(|rcode| *rcode as u8 == code).unwrap_or(Rcode::ServFail);
        Self { size: reply.len(), rcode, qtype: query.qtype, zone: None }
    }
}

/// What one worker needs for its queries, one after another.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) query: Query,
    random: fastrand::Rng,
}

impl Scratch {
    pub fn new(seed: u64) -> Self {
        Self { query: Query::default(), random: fastrand::Rng::with_seed(seed) }
    }
}

/// Answers from a table, by settings.
#[derive(Clone, Debug)]
pub struct Answerer {
    pub zones: Arc<Zones>,
    pub settings: Arc<Settings>,
}

impl Answerer {
    /// Answers one message into `out`, which has room for the longest reply of the transport.
    pub fn answer(
        &self,
        scratch: &mut Scratch,
        message: &[u8],
        from: IpAddr,
        transport: Transport,
        out: &mut [u8],
    ) -> Verdict {
        let Scratch { query, random } = scratch;
        match query.read(message) {
            Readable::No => return Verdict::Ignore,
            Readable::Bad(rcode) => return Verdict::Reply(refuse(message, rcode, out)),
            Readable::Yes => {}
        }
        let limit = limit(query, transport);
        if limit > out.len() || query.end + 16 > limit {
            return Verdict::Reply(refuse(message, Rcode::FormErr, out));
        }
        let mut writer = Writer::reply(out, message, query.end, limit);
        if query.edns.is_some() {
            writer.reserve_opt();
        }
        if self.settings.forward {
            writer.recursion_available();
        }
        self.decide(query, random, from, transport, writer)
    }

    fn decide(
        &self,
        query: &Query,
        random: &mut fastrand::Rng,
        from: IpAddr,
        transport: Transport,
        writer: Writer<'_>,
    ) -> Verdict {
        let zone = self.settings.zone(&query.name);
        let place = zone.map(|(place, _)| place);
        let finish = |writer: Writer<'_>, rcode| {
            let size = writer.finish(rcode, query.edns);
            Verdict::Reply(Facts { size, rcode, qtype: query.qtype, zone: place })
        };
        if query.edns.is_some_and(|edns| edns.version > 0) {
            return finish(writer, Rcode::BadVers);
        }
        if query.qclass != CLASS_IN {
            return finish(writer, Rcode::Refused);
        }
        let decline = |mut writer: Writer<'_>, rcode, why| {
            writer.explain(why);
            finish(writer, rcode)
        };
        if matches!(query.qtype, rtype::AXFR | rtype::IXFR) {
            let allowed = transport == Transport::Tcp && self.settings.transfer.contains(&from);
            let apex = zone.filter(|(_, before)| allowed && *before == 0);
            return match apex.map(|(place, _)| (place, self.settings.zones[place].kind)) {
                // Half a zone would be kept as if it were the whole.
                Some((_, Kind::Services(realm))) if !self.zones.is_complete(realm) => {
                    decline(writer, Rcode::ServFail, Why::NotReady)
                }
                Some((place, Kind::Services(_))) => Verdict::Transfer(place),
                _ => decline(writer, Rcode::Refused, Why::Prohibited),
            };
        }
        let mut scribe =
            Scribe { zones: &self.zones, settings: &self.settings, random, writer, qtype: query.qtype };
        match scribe.resolve(&query.name, HEADER) {
            Some(rcode) => finish(scribe.writer, rcode),
            None if scribe.is_begun() => {
                let size = scribe.writer.finish(Rcode::NoError, query.edns);
                Verdict::Follow(Facts { size, rcode: Rcode::NoError, qtype: query.qtype, zone: place })
            }
            None if self.settings.forward => Verdict::Forward,
            None => decline(scribe.writer, Rcode::Refused, Why::NotAuthoritative),
        }
    }
}

/// How long the reply may be.
pub(crate) fn limit(query: &Query, transport: Transport) -> usize {
    match (transport, query.edns) {
        (Transport::Tcp, _) => TCP_LIMIT,
        (Transport::Udp, None) => SMALLEST_LIMIT,
        (Transport::Udp, Some(edns)) => usize::from(edns.size).clamp(SMALLEST_LIMIT, UDP_LIMIT),
    }
}

/// An error without a question: nobody gets back more than he sent.
fn refuse(message: &[u8], rcode: Rcode, out: &mut [u8]) -> Facts {
    let opcode = message[2] & 0x78;
    let size = Writer::reply(out, message, HEADER, HEADER).finish(rcode, None);
    out[2] |= opcode;
    Facts { size, rcode, qtype: 0, zone: None }
}

/// The reply to a query that somebody else was to answer and did not.
pub(crate) fn fail(message: &[u8], rcode: Rcode, out: &mut [u8]) -> Option<Facts> {
    let mut query = Query::default();
    (query.read(message) == Readable::Yes && query.end <= out.len()).then(|| {
        let mut writer = Writer::reply(out, message, query.end, query.end + 16);
        writer.recursion_available();
        if rcode == Rcode::ServFail {
            writer.explain(Why::NetworkError);
        }
        let edns = query.edns;
        Facts { size: writer.finish(rcode, edns), rcode, qtype: query.qtype, zone: None }
    })
}

#[cfg(test)]
mod tests;
