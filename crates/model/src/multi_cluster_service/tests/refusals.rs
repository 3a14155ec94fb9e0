//! What is asked for and cannot be, and what happens to what was shared before.

use super::*;

#[test]
fn a_strategy_nobody_knows_is_refused_and_a_known_one_goes_along() {
    for (word, accepted) in
        [("LocalFirst", true), ("RemoteAndLocal", true), ("", false), ("LocalOnly", false)]
    {
        let mut world = World::new(json!({}));
        let strategy = ("discovery.karmada.io/strategy".to_owned(), word.to_owned());
        world.object.metadata.annotations = Some(BTreeMap::from([strategy.clone()]));
        let plan = world.plan();
        assert_eq!(!plan.works.is_empty(), accepted, "{word}");
        for work in plan.works.values() {
            assert_eq!(work.metadata.annotations.as_ref().unwrap()[&strategy.0], word);
        }
        assert_eq!(world.said()[0].2.contains("unknown MultiClusterStrategy"), !accepted);
    }
}

#[test]
fn a_threshold_that_is_none_is_refused_whatever_the_strategy() {
    for (text, accepted) in [("1", true), ("20", true), ("", false), ("0", false), ("many", false)] {
        let mut world = World::new(json!({}));
        let threshold = ("tombolo.dev/local-first-min-ready".to_owned(), text.to_owned());
        world.object.metadata.annotations = Some(BTreeMap::from([threshold]));
        assert_eq!(!world.plan().works.is_empty(), accepted, "{text:?}");
        assert_eq!(world.said()[2].2.contains("expected a number of endpoints"), !accepted);
    }
}

#[test]
fn a_service_that_is_shared_goes_on_with_the_words_it_had_when_new_ones_are_refused() {
    let key = "discovery.karmada.io/strategy".to_owned();
    let mut world = World::new(json!({})).reports("member1", "foo-1", 1);
    world.object.metadata.annotations = Some(BTreeMap::from([(key.clone(), "LocalFirst".to_owned())]));
    let mut world = world.settled(&[]);
    world.object.metadata.annotations = Some(BTreeMap::from([(key.clone(), "Sometimes".to_owned())]));
    let world = world.reports("member2", "foo-2", 1);
    let plan = world.plan();
    assert_eq!(plan.works.len(), 3 + 2 * 2, "what is new is sent, too");
    for work in plan.works.values() {
        assert_eq!(work.metadata.annotations.as_ref().unwrap()[&key], "LocalFirst");
    }
    assert!(world.said().iter().all(|(status, ..)| status.ends_with("=False")), "{:?}", world.said());
}

#[test]
fn what_is_refused_stays_as_it_is_but_for_clusters_that_die() {
    let mut world = World::new(json!({})).reports("member1", "foo-1", 1).settled(&[]);
    world.object.spec.service_provision_clusters = vec!["member1".to_owned()];
    world.object.spec.provider_clusters = vec![from_value(json!({"name": "member2"})).unwrap()];
    let plan = world.plan();
    assert!(plan.works.is_empty());
    assert_eq!(plan.keep.len(), world.works.len());
    let world = world.with(&["member1"], false);
    let slices = world.works.len() - world.plan().keep.len();
    assert_eq!(slices, 2, "the slices of the dead cluster go from both consumers");
}
