//! What holds whatever the clusters are.

use super::*;

fn clusters() -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(vec!["member1", "member2", "member3", "gone"], 0..=4)
        .prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

proptest! {
    /// Whatever the lists say and whoever is alive.
    #[test]
    fn slices_go_only_from_live_providers_to_other_consumers_and_a_settled_plan_stays_as_it_is(
        provision in clusters(), consumption in clusters(), dead in clusters(),
        slices in prop::collection::vec((0usize..3, 0usize..3), 0..6),
    ) {
        let names = ["member1", "member2", "member3"];
        let spec = json!({"serviceProvisionClusters": provision, "serviceConsumptionClusters": consumption});
        let mut world = World::new(spec);
        for (place, slice) in slices.into_iter().collect::<BTreeSet<_>>() {
            world = world.reports(names[place], &format!("foo-{slice}"), 1);
        }
        let dead: Vec<&str> = dead.iter().map(String::as_str).filter(|name| names.contains(name)).collect();
        let world = world.with(&dead, false);
        let within = |list: &[String], name: &String| list.is_empty() || list.contains(name);
        for (consumer, kind, source) in world.sent() {
            if kind == SLICE {
                prop_assert!(consumer != source && !dead.contains(&source.as_str()));
                prop_assert!(within(&provision, &source) && within(&consumption, &consumer));
            } else {
                prop_assert!(within(&provision, &consumer) || within(&consumption, &consumer));
            }
        }
        let before = world.plan();
        let after = world.settled(&[]).plan();
        prop_assert_eq!(before.works, after.works);
        prop_assert_eq!(before.keep, after.keep);
    }
}
