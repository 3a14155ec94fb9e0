//! An alias of ours whose target is not: two replies become one.
//!
//! Stub resolvers follow no aliases, so whoever forwards for them has to. This is the slow path: messages are taken apart
//! and put together by the `domain` crate.

use domain::base::iana::Rtype;
use domain::base::{Message, MessageBuilder, Name, ParsedRecord, Record, ToName as _};
use domain::rdata::{AllRecordData, Cname};

/// The target of the last alias in a reply of ours.
fn target(begun: &[u8]) -> Option<Name<Vec<u8>>> {
    let message = Message::from_octets(begun).ok()?;
    let last = message.answer().ok()?.limit_to::<Cname<_>>().last()?.ok()?;
    Some(last.data().cname().to_name())
}

/// The query for that target, of the type that was asked for.
pub(super) fn question(query: &[u8], begun: &[u8]) -> Option<Vec<u8>> {
    let asked = Message::from_octets(query).ok()?.sole_question().ok()?.qtype();
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((target(begun)?, asked)).ok()?;
    Some(builder.finish())
}

/// `begun` with the answers of `rest` behind its own, and the code of `rest`.
pub(super) fn join(begun: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    let (begun, rest) = (Message::from_octets(begun).ok()?, Message::from_octets(rest).ok()?);
    let mut builder = MessageBuilder::new_vec();
    *builder.header_mut() = begun.header();
    builder.header_mut().set_rcode(rest.header().rcode());
    let mut builder = builder.question();
    builder.push(begun.sole_question().ok()?).ok()?;
    let mut builder = builder.answer();
    for record in begun.answer().ok()?.chain(rest.answer().ok()?) {
        builder.push(owned(&record.ok()?)?).ok()?;
    }
    let mut builder = builder.authority();
    for record in rest.authority().ok()? {
        let record = record.ok()?;
        if record.rtype() == Rtype::SOA {
            builder.push(owned(&record)?).ok()?;
        }
    }
    if begun.opt().is_some() {
        let mut builder = builder.additional();
        builder
            .opt(|opt| {
                opt.set_udp_payload_size(1232);
                Ok(())
            })
            .ok()?;
        return Some(builder.finish());
    }
    Some(builder.finish())
}

type Owned<'a> = Record<Name<Vec<u8>>, AllRecordData<&'a [u8], domain::base::ParsedName<&'a [u8]>>>;

fn owned<'a>(record: &ParsedRecord<'a, &'a [u8]>) -> Option<Owned<'a>> {
    let record = record.to_any_record::<AllRecordData<_, _>>().ok()?;
    let (owner, class, ttl) = (record.owner().to_name(), record.class(), record.ttl());
    Some(Record::new(owner, class, ttl, record.into_data()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reply of ours that ends with an alias.
    fn begun() -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec().question();
        let own: Name<Vec<u8>> = "alias.a.svc.cluster.local".parse().unwrap();
        let other: Name<Vec<u8>> = "www.example.com".parse().unwrap();
        builder.push((&own, Rtype::A)).unwrap();
        let mut builder = builder.answer();
        builder.push((&own, 5, Cname::new(other))).unwrap();
        builder.finish()
    }

    proptest! {
        #[test]
        fn whatever_an_upstream_sends_makes_a_readable_reply_or_none(
            noise in proptest::collection::vec(any::<u8>(), 0..300),
            place in any::<prop::sample::Index>(),
        ) {
            let good = begun();
            let mut spliced = good.clone();
            let at = place.index(spliced.len());
            spliced.truncate(at);
            spliced.extend_from_slice(&noise);
            for rest in [&noise, &spliced] {
                if let Some(joined) = join(&good, rest) {
                    let message = Message::from_octets(&joined[..]).unwrap();
                    prop_assert!(message.answer().unwrap().all(|record| record.is_ok()));
                }
                let _ = question(rest, &good);
                let _ = question(&good, rest);
            }
        }
    }
}
