//! Pools: what is accepted, and what each says.

use serde_json::json;
use tombolo_api::condition::Status;

use super::lab::pool;
use crate::balancer::{PoolVerdict, Pools};

#[test]
fn pools_are_used_by_priority_and_then_by_name() {
    let pools = [
        pool("b", json!(["192.0.2.2"])),
        pool("a", json!(["192.0.2.1"])),
        pool("z", json!({"addresses": ["192.0.2.3"], "priority": 5})),
        pool("c", json!({"addresses": ["192.0.2.4"], "priority": -1})),
    ];
    let (read, verdicts) = Pools::read(&pools);
    let names: Vec<&str> = read.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "b", "c"]);
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == PoolVerdict::Accepted));
}

#[test]
fn of_two_pools_that_overlap_the_younger_one_is_not_used_and_says_why() {
    let mut old = pool("old", json!(["192.0.2.0/28"]));
    let mut young = pool("a-young", json!(["198.51.100.0/24", "192.0.2.15-192.0.2.20"]));
    old.metadata.creation_timestamp = Some(crate::testing::at(1));
    young.metadata.creation_timestamp = Some(crate::testing::at(2));
    let (read, verdicts) = Pools::read([&young, &old]);
    assert_eq!(read.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["old"]);
    let condition = verdicts.iter().find(|(name, _)| name == "a-young").unwrap().1.condition(Some(3));
    assert_eq!((condition.status, condition.reason.as_str()), (Status::False, "Overlapping"));
    assert_eq!(condition.message, "192.0.2.15-192.0.2.20 overlaps with 192.0.2.0-192.0.2.15 of the pool old");
    assert_eq!(condition.observed_generation, Some(3));
    // Without the older one it is fine.
    assert_eq!(Pools::read([&young]).1[0].1, PoolVerdict::Accepted);
}

#[test]
fn an_entry_that_is_no_range_spoils_its_pool_and_no_other() {
    let pools = [pool("bad", json!(["192.0.2.9-192.0.2.1"])), pool("good", json!(["192.0.2.1"]))];
    let (read, verdicts) = Pools::read(&pools);
    assert_eq!(read.iter().count(), 1);
    let condition = verdicts[0].1.condition(None);
    assert_eq!((condition.status, condition.reason.as_str()), (Status::False, "InvalidAddresses"));
    assert_eq!(condition.message, "\"192.0.2.9-192.0.2.1\" ends before it starts");
}

#[test]
fn a_pool_that_is_being_deleted_gives_nothing() {
    let mut going = pool("going", json!(["192.0.2.1"]));
    going.metadata.deletion_timestamp = Some(crate::testing::at(1));
    assert!(Pools::read([&going]).0.is_empty());
}
