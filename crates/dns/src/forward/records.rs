//! Where the records of a message stand.

use crate::message::HEADER;

/// One record of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) ttl_at: usize,
    pub(super) ttl: u32,
    pub(super) end: usize,
}

/// The records of a reply; `None` if it cannot be read.
pub(super) fn records(reply: &[u8]) -> Option<Vec<Record>> {
    let count = |at: usize| Some(usize::from(u16::from_be_bytes(*reply.get(at..)?.first_chunk()?)));
    let mut at = HEADER;
    for _ in 0..count(4)? {
        at = after_name(reply, at)? + 4;
    }
    let total = count(6)? + count(8)? + count(10)?;
    let mut records = Vec::new();
    for _ in 0..total {
        let head = after_name(reply, at)?;
        let &[k0, k1, _, _, t0, t1, t2, t3, l0, l1] = reply.get(head..)?.first_chunk()?;
        at = head + 10 + usize::from(u16::from_be_bytes([l0, l1]));
        let (kind, ttl) = (u16::from_be_bytes([k0, k1]), u32::from_be_bytes([t0, t1, t2, t3]));
        records.push(Record { kind, ttl_at: head + 4, ttl, end: at });
        (at <= reply.len()).then_some(())?;
    }
    Some(records)
}

/// Where a name that begins at `at` ends.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += usize::from(length) + 1,
            192.. => return Some(at + 2),
            64..=191 => return None,
        }
    }
}
