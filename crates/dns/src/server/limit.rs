//! How many queries one address may ask.
//!
//! A bucket of tokens per address, in a table of fixed size: whatever comes, it takes no more memory. Two addresses that
//! meet in one place push each other out, which errs on the side of answering. One atomic word per place, no locks.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PLACES: usize = 1 << 16;

/// Lets an address ask `rate` times a second, and as much again at once.
#[derive(Debug)]
pub(crate) struct Limit {
    rate: u64,
    hasher: RandomState,
    places: Box<[AtomicU64]>,
}

impl Limit {
    /// `None`, or 0, lets everybody ask as much as he likes.
    pub(crate) fn new(rate: u32) -> Option<Self> {
        let places = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        (rate > 0).then(|| Self { rate: u64::from(rate.min(1 << 19)), hasher: RandomState::new(), places })
    }

    /// Takes a token of `address` at `now`, which is the time since some fixed moment; `false` if there is none.
    pub(crate) fn allows(&self, address: IpAddr, now: Duration) -> bool {
        let hash = self.hasher.hash_one(address);
        let place = &self.places[hash as usize % PLACES];
        let (tag, now) = (hash >> 44, now.as_millis() as u64 & 0xff_ffff);
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
    /// Word: tag of the address (20 bits), milliseconds (24 bits, 4.6 hours), tokens (20 bits).
    fn tokens(&self, word: u64, tag: u64, now: u64) -> (u64, u64) {
        let full = (self.rate * 2).min(0xf_ffff);
        if word == 0 || word >> 44 != tag {
            return (full, now);
        }
        let (since, left) = (word >> 20 & 0xff_ffff, word & 0xf_ffff);
        let earned = (now.wrapping_sub(since) & 0xff_ffff) * self.rate / 1000;
        // Less than a whole token: its time goes on counting.
        if earned == 0 { (left, since) } else { ((left + earned).min(full), now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(limit: &Limit, address: IpAddr, times: usize, now: Duration) -> usize {
        (0..times).filter(|_| limit.allows(address, now)).count()
    }

    #[test]
    fn an_address_gets_its_rate_and_others_are_not_touched() {
        let limit = Limit::new(100).unwrap();
        let [flood, other] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        assert_eq!(asked(&limit, flood, 1000, Duration::ZERO), 200);
        assert_eq!(asked(&limit, flood, 1000, Duration::from_millis(500)), 50);
        assert_eq!(asked(&limit, other, 10, Duration::from_millis(500)), 10);
        assert_eq!(asked(&limit, flood, 1000, Duration::from_secs(60)), 200);
        let slowly = (1..=100).filter(|step| limit.allows(flood, Duration::from_millis(60_000 + step * 10)));
        assert_eq!(slowly.count(), 100);
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert!(Limit::new(0).is_none());
    }
}
