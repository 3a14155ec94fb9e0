//! Weights as repeated slots, and slots that stay where they are.
//!
//! A frontend with N slots sends a connection to one of them by chance. A backend with twice the weight has twice the
//! slots. When backends come and go, a slot changes only if it must: that is what is written to the kernel.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tombolo_model::routing::Backend;

/// Weights are told with at most so many slots, unless there are more backends than that.
const MOST_SLOTS: u64 = 4096;

/// How many slots each backend gets.
pub(crate) fn shares(backends: &[Backend]) -> BTreeMap<SocketAddr, u32> {
    let all_zero = backends.iter().all(|backend| backend.weight == 0);
    let weight = |backend: &Backend| if all_zero { 1 } else { u64::from(backend.weight) };
    let weighted: BTreeMap<SocketAddr, u64> = backends
        .iter()
        .map(|backend| (SocketAddr::new(backend.address, backend.port), weight(backend)))
        .filter(|(_, weight)| *weight > 0)
        .collect();
    let divisor = weighted.values().copied().fold(0, greatest_common_divisor).max(1);
    let total: u64 = weighted.values().map(|weight| weight / divisor).sum();
    let most = MOST_SLOTS.max(weighted.len() as u64);
    let share = |weight: u64| match total <= most {
        true => weight / divisor,
        false => (weight / divisor * most / total).max(1),
    };
    weighted.into_iter().map(|(target, weight)| (target, share(weight) as u32)).collect()
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// Places the shares, leaving as much as possible of `before` where it is.
pub(crate) fn place(before: &[SocketAddr], shares: &BTreeMap<SocketAddr, u32>) -> Vec<SocketAddr> {
    let mut missing = shares.clone();
    let mut slots: Vec<Option<SocketAddr>> = Vec::with_capacity(before.len());
    let total: usize = shares.values().map(|share| *share as usize).sum();
    for (slot, target) in before.iter().enumerate() {
        let wanted = missing.get_mut(target).filter(|left| **left > 0 && slot < total);
        slots.push(wanted.map(|left| {
            *left -= 1;
            *target
        }));
    }
    slots.resize(total, None);
    let mut rest = missing.into_iter().flat_map(|(target, left)| std::iter::repeat_n(target, left as usize));
    slots.into_iter().filter_map(|slot| slot.or_else(|| rest.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(last: u8, weight: u32) -> Backend {
        let address = [10, 0, 0, last].into();
        Backend { address, port: 80, weight, sticky: None, local: false, source: None }
    }

    fn target(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 80).into()
    }

    fn counts(weights: &[u32]) -> Vec<u32> {
        let backends: Vec<Backend> =
            weights.iter().enumerate().map(|(place, weight)| backend(place as u8, *weight)).collect();
        shares(&backends).into_values().collect()
    }

    #[test]
    fn weights_become_as_few_slots_as_tell_them() {
        assert_eq!(counts(&[1, 1, 1]), [1, 1, 1]);
        assert_eq!(counts(&[30, 20, 10]), [3, 2, 1]);
        assert_eq!(counts(&[5, 0, 5]), [1, 1]);
        assert_eq!(counts(&[0, 0]), [1, 1]);
        assert_eq!(counts(&[]), [] as [u32; 0]);
        assert_eq!(counts(&[u32::MAX, 1]), [4095, 1]);
        let many = counts(&[1_000_000_007, 999_999_937, 3]);
        assert!(many.iter().sum::<u32>() <= 4097, "{many:?}");
    }

    #[test]
    fn a_slot_changes_only_if_it_must() {
        let places = |before: &[u8], wanted: &[u8]| -> Vec<SocketAddr> {
            let before: Vec<SocketAddr> = before.iter().map(|last| target(*last)).collect();
            let mut shares = BTreeMap::new();
            wanted.iter().for_each(|last| *shares.entry(target(*last)).or_default() += 1);
            place(&before, &shares)
        };
        let targets = |of: &[u8]| of.iter().map(|last| target(*last)).collect::<Vec<_>>();
        assert_eq!(places(&[], &[3, 1]), targets(&[1, 3]));
        assert_eq!(places(&[1, 2, 3], &[1, 4, 3]), targets(&[1, 4, 3]), "replaced in place");
        assert_eq!(places(&[1, 2, 3], &[2, 3]), targets(&[3, 2]), "the last moves into the hole");
        assert_eq!(places(&[3, 1], &[1, 2, 3]), targets(&[3, 1, 2]), "a new one goes to the end");
        assert_eq!(places(&[1, 1, 2], &[1, 2]), targets(&[1, 2]));
        assert_eq!(places(&[1, 2], &[]), targets(&[]));
    }
}
