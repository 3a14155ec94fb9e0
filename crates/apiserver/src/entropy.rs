//! Chance, injected: a cluster with a fixed seed hands out the same uids, names and addresses every time.

use std::sync::{Arc, Mutex, PoisonError};

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
