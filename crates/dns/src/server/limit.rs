//! How many queries one address may ask.
//!
//! A bucket of tokens per address, in a table of fixed size: whatever comes, it takes no more memory. Two addresses that
//! meet in one place push each other out, which errs on the side of answering. One atomic word per place, no locks.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const PLACES: usize = 1 << 16;
/// Milliseconds after which they begin anew: 4.6 hours.
const ROUND: u64 = 1 << 24;
/// Who asks now read the clock at most so many milliseconds before somebody else did who has asked already. A small part of
/// a round: who comes back at just that time of the next one waits for so long.
const BEHIND: u64 = 4096;

/// Lets an address ask `rate` times a second, and as much again at once.
#[derive(Debug)]
pub(crate) struct Limit {
    /// All who ask measure time from here.
    begin: Instant,
    rate: u64,
    hasher: RandomState,
    places: Box<[AtomicU64]>,
}

impl Limit {
    /// `None`, or 0, lets everybody ask as much as he likes.
    pub(crate) fn new(rate: u32) -> Option<Self> {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        let (begin, rate, hasher) = (Instant::now(), u64::from(rate.min(1 << 19)), RandomState::new());
        (rate > 0).then_some(Self { begin, rate, hasher, places })
    }

    /// Takes a token of `address`; `false` if there is none.
    pub(crate) fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let hash = self.hasher.hash_one(address);
        let place = &self.places[hash as usize % PLACES];
        let (tag, now) = (hash >> 44, now.saturating_duration_since(self.begin).as_millis() as u64 % ROUND);
        let mut allowed = false;
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let (tokens, since) = self.tokens(word, tag, now);
            allowed = tokens > 0;
            Some(tag << 44 | since << 20 | tokens.saturating_sub(1))
        });
        allowed
    }

    /// The tokens there are now, and since when time counts for the next.
    ///
    /// Word: tag of the address (20 bits), milliseconds (24 bits), tokens (20 bits).
    fn tokens(&self, word: u64, tag: u64, now: u64) -> (u64, u64) {
        let full = (self.rate * 2).min(0xf_ffff);
        if word == 0 || word >> 44 != tag {
            return (full, now);
        }
        let (since, left) = (word >> 20 & (ROUND - 1), word & 0xf_ffff);
        let passed = now.wrapping_sub(since) % ROUND;
        let passed = if passed >= ROUND - BEHIND { 0 } else { passed };
        let earned = passed * self.rate / 1000;
        // Less than a whole token: its time goes on counting.
        if earned == 0 { (left, since) } else { ((left + earned).min(full), now) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(limit: &Limit, address: IpAddr, times: usize, milliseconds: u64) -> usize {
        let now = limit.begin + Duration::from_millis(milliseconds);
        (0..times).filter(|_| limit.allows(address, now)).count()
    }

    #[test]
    fn an_address_gets_its_rate_and_others_are_not_touched() {
        let limit = Limit::new(100).unwrap();
        let [flood, other] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        assert_eq!(asked(&limit, flood, 1000, 0), 200);
        assert_eq!(asked(&limit, flood, 1000, 500), 50);
        assert_eq!(asked(&limit, other, 10, 500), 10);
        assert_eq!(asked(&limit, flood, 1000, 60_000), 200);
        let slowly: usize = (1..=100).map(|step| asked(&limit, flood, 1, 60_000 + step * 10)).sum();
        assert_eq!(slowly, 100);
    }

    #[test]
    fn a_clock_that_is_behind_earns_nothing_and_loses_nothing() {
        let limit = Limit::new(100).unwrap();
        let flood = "10.0.0.1".parse().unwrap();
        assert_eq!(asked(&limit, flood, 1000, 1000), 200);
        assert_eq!(asked(&limit, flood, 1000, 999), 0);
        assert_eq!(asked(&limit, flood, 1000, 1000), 0);
        assert_eq!(asked(&limit, flood, 1000, 1500), 50);
        // Whoever was away for hours has all of it.
        assert_eq!(asked(&limit, flood, 1000, 3 * 3_600_000), 200);
        assert_eq!(asked(&limit, flood, 1000, 7 * 3_600_000), 200);
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert!(Limit::new(0).is_none());
    }
}
