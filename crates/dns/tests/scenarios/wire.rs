//! Messages in and out of words, by the `domain` crate, which knows nothing of our own reader and writer.

use domain::base::iana::Rtype;
use domain::base::{Message, MessageBuilder, Name, ParsedRecord};
use domain::rdata::AllRecordData;

use crate::script::Outcome;

/// A query with EDNS.
pub(crate) fn query(name: &str, kind: &str) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().unwrap();
    let mut builder = MessageBuilder::new_vec().question();
    builder.header_mut().set_id(4711);
    builder.push((name, kind.parse::<Rtype>().unwrap())).unwrap();
    let mut builder = builder.additional();
    builder
        .opt(|opt| {
            opt.set_udp_payload_size(1232);
            Ok(())
        })
        .unwrap();
    builder.finish()
}

/// What a reply comes to.
pub(crate) fn outcome(reply: &[u8]) -> Outcome {
    let message = Message::from_octets(reply).unwrap();
    assert!(message.header().qr(), "not a reply");
    let mut outcome = Outcome { status: message.header().rcode().to_string(), ..Outcome::default() };
    for record in message.answer().unwrap() {
        outcome.answer.insert(words(&record.unwrap()));
    }
    for record in message.authority().unwrap() {
        let record = record.unwrap();
        assert_eq!((record.rtype(), record.ttl().as_secs()), (Rtype::SOA, 5));
        outcome.zone = Some(format!("{}.", record.owner()));
    }
    for record in message.additional().unwrap().map(Result::unwrap) {
        if record.rtype() != Rtype::OPT {
            outcome.additional.insert(words(&record));
        }
    }
    outcome.settle()
}

fn words(record: &ParsedRecord<'_, &[u8]>) -> String {
    let data = record.to_any_record::<AllRecordData<_, _>>().unwrap();
    let text = data.data().to_string();
    let named = [Rtype::SRV, Rtype::PTR, Rtype::NS, Rtype::CNAME].contains(&record.rtype());
    let dot = if named && !text.ends_with('.') { "." } else { "" };
    format!("{}. {} {} {text}{dot}", record.owner(), record.ttl().as_secs(), record.rtype())
}
