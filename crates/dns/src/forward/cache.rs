//! What upstreams said, for as long as it may be kept.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::records::{Record, records};
use crate::message::{Query, rtype};

/// Replies that are kept at most; and the longest one.
const ENTRIES: usize = 4096;
const LONGEST: usize = 4096;
/// Nothing is kept longer.
const LONGEST_TTL: u32 = 30;

/// Replies by question.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashMap<Vec<u8>, Entry>,
}

#[derive(Debug)]
struct Entry {
    reply: Box<[u8]>,
    stored: Instant,
    ttl: u32,
}

/// What makes two queries the same: name, type, class, and how the client wants the reply.
pub(super) fn key(message: &[u8], query: &Query) -> Vec<u8> {
    let mut key = query.name.bytes().to_vec();
    key.extend_from_slice(&query.qtype.to_be_bytes());
    key.extend_from_slice(&query.qclass.to_be_bytes());
    let edns = query.edns.map_or(0, |edns| 1 + u8::from(edns.dnssec_ok));
    key.extend_from_slice(&[edns, message[2] & 0x01, message[3] & 0x30]);
    key
}

impl Cache {
    /// A reply that may still be given, with the time that is left of it.
    pub(super) fn get(&mut self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let entry = self.entries.get(key)?;
        let age = now.saturating_duration_since(entry.stored).as_secs() as u32;
        if age >= entry.ttl {
            self.entries.remove(key);
            return None;
        }
        let mut reply = entry.reply.to_vec();
        for Record { ttl_at, ttl, .. } in records(&entry.reply)?.into_iter().filter(|r| r.kind != rtype::OPT)
        {
            reply[ttl_at..ttl_at + 4].copy_from_slice(&ttl.saturating_sub(age).to_be_bytes());
        }
        Some(reply)
    }

    pub(super) fn put(&mut self, key: Vec<u8>, reply: &[u8], now: Instant) {
        let Some(ttl) = keep_for(reply).filter(|ttl| *ttl > 0 && reply.len() <= LONGEST) else { return };
        if self.entries.len() >= ENTRIES {
            let alive = |entry: &Entry| now < entry.stored + Duration::from_secs(u64::from(entry.ttl));
            self.entries.retain(|_, entry| alive(entry));
        }
        if self.entries.len() >= ENTRIES
            && let Some(any) = self.entries.keys().next().cloned()
        {
            self.entries.remove(&any);
        }
        self.entries.insert(key, Entry { reply: reply.into(), stored: now, ttl });
    }
}

/// Seconds that a reply may be kept; `None` for errors, for what was cut, and for a negative reply without SOA.
fn keep_for(reply: &[u8]) -> Option<u32> {
    let (rcode, cut) = (reply.get(3)? & 0x0f, reply[2] & 0x02 != 0);
    let records = records(reply)?;
    let answers = u16::from_be_bytes([reply[6], reply[7]]);
    if cut || !matches!(rcode, 0 | 3) {
        return None;
    }
    let negative = rcode == 3 || answers == 0;
    let soa = || {
        let soa = records.iter().find(|record| record.kind == rtype::SOA)?;
        let minimum = reply.get(soa.end.checked_sub(4)?..soa.end)?;
        Some(soa.ttl.min(u32::from_be_bytes(*minimum.first_chunk()?)))
    };
    let least =
        if negative { soa() } else { records.iter().filter(|r| r.kind != rtype::OPT).map(|r| r.ttl).min() };
    least.map(|ttl| ttl.min(LONGEST_TTL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply to `a. A` with one A record of this ttl.
    fn reply(rcode: u8, ttl: u32) -> Vec<u8> {
        let mut reply = vec![0, 1, 0x81, 0x80 | rcode, 0, 1, 0, 1, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
        reply.extend_from_slice(&ttl.to_be_bytes());
        reply.extend_from_slice(&[0, 4, 10, 0, 0, 1]);
        reply
    }

    fn ttl_of(reply: &[u8]) -> u32 {
        records(reply).unwrap()[0].ttl
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_is_kept_while_it_lives_and_its_time_counts_down() {
        let mut cache = Cache::default();
        let now = Instant::now();
        cache.put(b"k".to_vec(), &reply(0, 10), now);
        assert_eq!(ttl_of(&cache.get(b"k", now + Duration::from_secs(4)).unwrap()), 6);
        assert!(cache.get(b"k", now + Duration::from_secs(10)).is_none());
        cache.put(b"l".to_vec(), &reply(0, 86_400), now);
        assert!(cache.get(b"l", now + Duration::from_secs(29)).is_some());
        assert!(cache.get(b"l", now + Duration::from_secs(30)).is_none());
    }

    #[test]
    fn errors_cut_replies_and_nonsense_are_not_kept() {
        let mut cut = reply(0, 10);
        cut[2] |= 0x02;
        let short = reply(0, 10)[..30].to_vec();
        for reply in [reply(2, 10), reply(5, 10), reply(0, 0), reply(3, 10), cut, short, Vec::new()] {
            assert_eq!(keep_for(&reply).filter(|ttl| *ttl > 0), None, "{reply:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_does_not_grow_for_ever() {
        let mut cache = Cache::default();
        for number in 0..ENTRIES as u32 + 100 {
            cache.put(number.to_be_bytes().to_vec(), &reply(0, 10), Instant::now());
        }
        assert_eq!(cache.entries.len(), ENTRIES);
    }
}
