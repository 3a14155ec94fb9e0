//! What chance meets too rarely, told step by step.

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use tombolo_model::names;
use tombolo_runtime::Key;
use tombolo_testkit::FaultPlan;

use crate::log::Log;
use crate::schedule::{Run, ms};
use crate::truth::origin;
use crate::with_time;

/// A supercluster of three in which `a` exports and everybody imports.
async fn three(seed: u64) -> Run {
    let mut run = Run::begin(seed, 3, Log::default()).await;
    for place in 0..3 {
        run.start(place);
    }
    run.serve_simply(0).await;
    run.converge().await.expect("nothing is wrong");
    run.wait(ms(20_000)).await.expect("nothing is wrong");
    run
}

impl Run {
    fn has_slices_of(&self, consumer: usize, source: &str) -> bool {
        let slices = self.world.members[consumer].sight.slices.all();
        slices.iter().any(|slice| origin(slice).is_some_and(|from| from.source == source))
    }
}

/// Every second request to the hub fails, so now and then a heartbeat does, too.
#[test]
fn a_link_that_often_fails_does_not_keep_a_dead_source_alive() {
    with_time(async {
        for seed in 0..8 {
            let mut run = three(seed).await;
            let plan = FaultPlan { server_error: 0.5, cut_watch: 0.2, ..FaultPlan::default() };
            run.world.members[1].hub_link.plan(plan);
            run.world.members[1].is_spoiled = true;
            run.mark(1);
            run.wait(ms(30_000)).await.expect("a live source does not blink on such a link");
            assert!(run.has_slices_of(1, "a"), "seed {seed}: a lives");
            run.kill(0);
            run.wait(ms(150_000)).await.expect("nothing else breaks");
            assert!(!run.has_slices_of(1, "a"), "seed {seed}: a is dead for long enough");
        }
    });
}

/// While the hub is out of reach nobody is declared dead.
#[test]
fn a_hub_that_is_gone_for_minutes_costs_no_endpoint() {
    with_time(async {
        let mut run = three(1).await;
        for place in 0..3 {
            run.world.members[place].hub_link.outage(tombolo_testkit::Outage::Refused);
            run.world.members[place].is_cut = true;
            run.mark(place);
        }
        run.wait(ms(300_000)).await.unwrap();
        assert!(run.has_slices_of(1, "a") && run.has_slices_of(2, "a"));
        (0..3).for_each(|place| run.heal(place));
        run.conclude().await.unwrap();
        assert!(run.has_slices_of(1, "a") && run.has_slices_of(2, "a"));
    });
}

/// The hub goes back to before anybody had joined.
#[test]
fn a_hub_restored_to_its_beginning_is_filled_again() {
    with_time(async {
        for seed in 0..4 {
            let mut run = three(seed).await;
            run.restore_hub().await;
            run.conclude().await.unwrap();
            assert!(run.has_slices_of(1, "a"), "seed {seed}");
        }
    });
}

/// The backup is so young that revisions have passed it again before anybody looks.
#[test]
fn a_hub_restored_from_a_young_backup_hides_nothing() {
    with_time(async {
        for seed in 0..8 {
            let mut run = three(seed).await;
            run.back_up_hub();
            run.wait(ms(12_000)).await.unwrap();
            run.set_address(0, 2).await;
            run.wait(ms(100 + seed * 300)).await.unwrap();
            run.restore_hub().await;
            run.conclude().await.unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
        }
    });
}

/// Who leaves is gone for everybody at once, its lease, too; who comes back is as welcome as before.
#[test]
fn a_cluster_that_leaves_is_forgotten_and_may_come_back() {
    with_time(async {
        let mut run = three(1).await;
        let lease = names::source_lease(&run.world.members[0].config.cluster);
        let lease = Key::new(run.world.members[1].config.namespace.clone(), lease);
        assert_ne!(run.world.members[1].get::<Lease>(&lease).await, Value::Null);
        run.leave(0).await;
        run.converge().await.unwrap();
        assert!(!run.has_slices_of(1, "a") && !run.has_slices_of(2, "a"));
        run.wait(ms(60_000)).await.unwrap();
        assert_eq!(run.world.members[1].get::<Lease>(&lease).await, Value::Null);
        run.come_back(0);
        run.conclude().await.unwrap();
        assert!(run.has_slices_of(1, "a") && run.has_slices_of(2, "a"));
    });
}
