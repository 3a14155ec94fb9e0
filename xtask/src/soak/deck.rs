//! In which order things go wrong: by chance, but each kind before any comes again. Pure.

use fastrand::Rng;

use super::fault::Fault;

/// The first member is spared, so that its agents show what a long life does to them.
pub(super) const SPARED: usize = 0;
const KINDS: u8 = 9;

/// What is still to come.
#[derive(Debug)]
pub(super) struct Deck {
    members: usize,
    left: Vec<u8>,
    /// The hub was away for minutes; from now on it is for less.
    had_long_loss: bool,
}

impl Deck {
    pub(super) fn new(members: usize) -> Self {
        Self { members, left: Vec::new(), had_long_loss: false }
    }

    pub(super) fn draw(&mut self, random: &mut Rng) -> Fault {
        if self.left.is_empty() {
            self.left = (0..KINDS).collect();
            random.shuffle(&mut self.left);
        }
        let member = random.usize(SPARED + 1..self.members);
        match self.left.pop() {
            Some(0) => Fault::AgentKilled(member),
            Some(1) => Fault::AgentFrozen(member),
            Some(2) => Fault::Silence(member),
            Some(3) if !self.had_long_loss => {
                self.had_long_loss = true;
                Fault::HubLostForLong
            }
            Some(3) => Fault::HubLost,
            Some(4) => Fault::ServerKilled(member),
            Some(5) => Fault::StoreKilled,
            Some(6) => Fault::Throttled(member),
            Some(7) => Fault::CertificateExpired,
            _ => Fault::Flood,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_comes_before_any_comes_again_and_the_hub_is_away_for_minutes_once() {
        let (mut deck, mut random) = (Deck::new(3), Rng::with_seed(1));
        let mut draw = || -> Vec<Fault> { (0..KINDS).map(|_| deck.draw(&mut random)).collect() };
        let (first, second) = (draw(), draw());
        for round in [&first, &second] {
            let kinds: BTreeSet<&str> = round.iter().map(|fault| fault.kind()).collect();
            assert_eq!(kinds.len(), usize::from(KINDS), "{round:?}");
            assert!(!round.contains(&Fault::Silence(SPARED)));
        }
        assert!(first.contains(&Fault::HubLostForLong) && !first.contains(&Fault::HubLost));
        assert!(second.contains(&Fault::HubLost) && !second.contains(&Fault::HubLostForLong));
    }
}
