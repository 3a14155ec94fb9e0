//! Time and chance, injected.
//!
//! A cluster asks nobody else for either, so a test that pauses Tokio's clock and fixes the seed gets the same uids,
//! names, timestamps and resource versions every time.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::time::Instant;

/// Where a cluster gets the time of day from.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Wall,
    Tokio { epoch: Timestamp, start: Instant },
}

impl Clock {
    /// The computer's clock.
    pub fn wall() -> Self {
        Self(Source::Wall)
    }

    /// A clock that reads `epoch` now and moves with Tokio's time, paused or not.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self(Source::Tokio { epoch, start: Instant::now() })
    }

    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Wall => Timestamp::now(),
            Source::Tokio { epoch, start } => epoch.checked_add(start.elapsed()).unwrap_or(Timestamp::MAX),
        }
    }
}

/// The format of `metav1.Time`: whole seconds, UTC.
pub(crate) fn stamp(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

/// Where a cluster gets uids, name suffixes and addresses from.
#[derive(Clone, Debug)]
pub struct Entropy(Arc<Mutex<fastrand::Rng>>);

impl Entropy {
    /// Different every time.
    pub fn fresh() -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::new())))
    }

    /// The same sequence for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(0..bound)
    }

    pub(crate) fn uid(&self) -> String {
        let mut bytes = [0; 16];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters for `generateName`, from the alphabet without vowels and look-alikes.
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| ALPHABET[self.below(ALPHABET.len() as u64) as usize] as char).collect()
    }
}
