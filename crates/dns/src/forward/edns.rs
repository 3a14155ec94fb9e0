//! EDNS is between neighbours (RFC 6891, 6.1.1): what a client says of itself is not for the upstream, and what the upstream
//! says is not for the client, nor for all others who get the reply from the cache.

use super::records::{Record, records};
use crate::message::{HEADER, Query, UDP_LIMIT, rtype};

/// The same question for an upstream: with what we can take instead of what the client can, and without options.
pub(super) fn passed_on(message: &[u8], query: &Query) -> Vec<u8> {
    let mut passed_on = message[..query.end].to_vec();
    passed_on[6..HEADER].copy_from_slice(&[0, 0, 0, 0, 0, u8::from(query.edns.is_some())]);
    if let Some(edns) = query.edns {
        passed_on.push(0);
        passed_on.extend_from_slice(&rtype::OPT.to_be_bytes());
        passed_on.extend_from_slice(&(UDP_LIMIT as u16).to_be_bytes());
        passed_on.extend_from_slice(&[0, 0, u8::from(edns.dnssec_ok) << 7, 0, 0, 0]);
    }
    passed_on
}

/// Puts our own OPT record in the place of the upstream's; its code and flags stay. `None`: the reply cannot be read.
///
/// What stands behind it goes: it is additional, and may point to names that are not where they were.
pub(super) fn take_over(reply: &mut Vec<u8>) -> Option<()> {
    let records = records(reply)?;
    let Some(place) = records.iter().position(|record| record.kind == rtype::OPT) else { return Some(()) };
    let Record { ttl_at, .. } = records[place];
    let count = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
    let behind = u16::try_from(records.len() - place - 1).ok()?;
    let additional = count(10).checked_sub(behind).filter(|left| *left > 0)?;
    reply[10..HEADER].copy_from_slice(&additional.to_be_bytes());
    reply[ttl_at - 2..ttl_at].copy_from_slice(&(UDP_LIMIT as u16).to_be_bytes());
    reply.truncate(ttl_at + 4);
    reply.extend_from_slice(&[0, 0]);
    Some(())
}

#[cfg(test)]
mod tests {
    use domain::base::iana::{OptionCode, Rtype};
    use domain::base::opt::UnknownOptData;
    use domain::base::{Message, MessageBuilder, Name};
    use domain::rdata::A;

    use super::*;

    fn name() -> Name<Vec<u8>> {
        "www.example.org".parse().unwrap()
    }

    /// A message with OPT and a cookie in it; with a record before and one behind, if it is a reply.
    fn message(is_reply: bool, dnssec_ok: bool) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec().question();
        builder.header_mut().set_qr(is_reply);
        builder.push((name(), Rtype::A)).unwrap();
        let mut builder = builder.answer();
        if is_reply {
            builder.push((name(), 60, A::from_octets(192, 0, 2, 1))).unwrap();
        }
        let mut builder = builder.additional();
        let cookie = UnknownOptData::new(OptionCode::COOKIE, *b"chocolate").unwrap();
        builder
            .opt(|opt| {
                opt.set_udp_payload_size(4096);
                opt.set_dnssec_ok(dnssec_ok);
                opt.push(&cookie)
            })
            .unwrap();
        if is_reply {
            builder.push((name(), 60, A::from_octets(192, 0, 2, 2))).unwrap();
        }
        builder.finish()
    }

    fn read(message: &[u8]) -> Query {
        let mut query = Query::default();
        query.read(message);
        query
    }

    /// Size, DO, octets of options.
    fn opt(message: &[u8]) -> Option<(u16, bool, usize)> {
        let opt = Message::from_octets(message).unwrap().opt()?;
        Some((opt.udp_payload_size(), opt.dnssec_ok(), opt.opt().len()))
    }

    #[test]
    fn an_upstream_hears_what_we_can_take_and_nothing_else_of_the_client() {
        for dnssec_ok in [false, true] {
            let asked = message(false, dnssec_ok);
            assert_eq!(opt(&asked), Some((4096, dnssec_ok, 13)));
            let passed_on = passed_on(&asked, &read(&asked));
            assert_eq!(opt(&passed_on), Some((1232, dnssec_ok, 0)));
            assert_eq!(read(&passed_on).name, read(&asked).name);
        }
        let mut plain = message(false, false);
        plain.truncate(read(&plain).end);
        plain[11] = 0;
        assert_eq!(passed_on(&plain, &read(&plain)), plain);
    }

    #[test]
    fn a_client_hears_nothing_that_the_upstream_said_to_us() {
        let mut reply = message(true, true);
        take_over(&mut reply).unwrap();
        assert_eq!(opt(&reply), Some((1232, true, 0)));
        let counts = Message::from_octets(&reply[..]).unwrap().header_counts();
        assert_eq!((counts.ancount(), counts.arcount()), (1, 1));
        assert_eq!(records(&reply).unwrap().last().unwrap().end, reply.len());
        let settled = reply.clone();
        take_over(&mut reply).unwrap();
        assert_eq!(reply, settled);
    }

    #[test]
    fn a_reply_that_cannot_be_read_or_has_its_opt_among_the_answers_is_none() {
        let whole = message(true, false);
        for mut reply in [whole[..40].to_vec(), Vec::new()] {
            assert_eq!(take_over(&mut reply), None);
        }
        let mut misplaced = whole;
        (misplaced[7], misplaced[11]) = (3, 0);
        assert_eq!(take_over(&mut misplaced), None);
    }
}
