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
fn a_resolution_of_conflicts_that_nobody_knows_is_refused_and_the_former_one_goes_on() {
    let key = "work.karmada.io/conflict-resolution".to_owned();
    let mut world = World::new(json!({}));
    let annotate = |world: &mut World, word: &str| {
        world.object.metadata.annotations = Some(BTreeMap::from([(key.clone(), word.to_owned())]));
    };
    for (word, accepted) in [("overwrite", true), ("abort", true), ("Overwrite", false), ("", false)] {
        annotate(&mut world, word);
        assert_eq!(!world.plan().works.is_empty(), accepted, "{word:?}");
        assert_eq!(world.said()[0].2.contains("unknown ConflictResolution"), !accepted);
    }
    for former in [Some("overwrite"), None] {
        world.object.metadata.annotations = None;
        former.iter().for_each(|word| annotate(&mut world, word));
        world = world.settled(&[]);
        annotate(&mut world, "Overwrite");
        let works = world.plan().works;
        assert_eq!(works.len(), 3);
        for work in works.values() {
            let manifest = &work.spec.workload.as_ref().unwrap().manifests[0];
            assert_eq!(manifest["metadata"]["annotations"][&key].as_str(), former);
        }
        assert!(world.said().iter().all(|(status, ..)| status.ends_with("=False")), "{:?}", world.said());
    }
}

#[test]
fn a_port_that_is_gone_keeps_no_endpoints_of_the_others_from_being_followed() {
    let spec = json!({"ports": [{"port": 80}, {"port": 81}], "serviceProvisionClusters": ["member1"]});
    let world = World::new(spec.clone()).reports("member1", "foo-1", 1);
    let mut new = World::new(spec);
    new.template.as_mut().unwrap().spec.as_mut().unwrap().ports.as_mut().unwrap().pop();
    assert!(new.plan().works.is_empty(), "one that is not shared yet is not shared");
    let mut world = World { template: new.template, ..world.settled(&[]) };
    world.works.retain(|work| !is_collected(work));
    let world = world.reports("member1", "foo-1", 2);
    let plan = world.plan();
    assert_eq!(plan.works.len(), 3 + 2);
    for work in plan.works.values() {
        let manifest = &work.spec.workload.as_ref().unwrap().manifests[0];
        let ports = if manifest["kind"] == SERVICE { &manifest["spec"]["ports"] } else { &manifest["ports"] };
        assert_eq!(ports.as_array().unwrap().len(), 1, "{manifest}");
        assert_eq!(ports[0]["name"], "http");
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
