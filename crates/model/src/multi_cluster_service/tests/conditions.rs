//! What the object says, and when.

use super::*;

#[test]
fn conditions_are_true_only_when_everybody_has_confirmed() {
    let confirmed = [("Applied", Status::True), (COLLECTED_CONDITION, Status::True)];
    let failed = [("Applied", Status::False), (COLLECTED_CONDITION, Status::False)];
    let world =
        || World::new(json!({"serviceProvisionClusters": ["member1"]})).reports("member1", "foo-1", 1);
    let expected = [
        ("ServiceApplied=True", "ServiceAppliedSuccess", "Service is propagated to target clusters."),
        (
            "EndpointSliceCollected=True",
            "EndpointSliceCollectedSuccess",
            "EndpointSlices are collected from provision clusters.",
        ),
        (
            "EndpointSliceApplied=True",
            "EndpointSliceAppliedSuccess",
            "EndpointSlices are propagated to target clusters.",
        ),
    ];
    let said = world().settled(&confirmed).said();
    let said: Vec<_> = said.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(said, expected);
    for (conditions, words) in [(&[][..], "Waiting for "), (&failed[..], "Failed to ")] {
        for (condition, reason, message) in world().settled(conditions).said() {
            assert!(condition.ends_with("=False") && reason.ends_with("Failed"), "{condition} {reason}");
            assert!(
                message.starts_with(words)
                    && message.contains("member")
                    && message.contains("foo") | message.contains("list&watch"),
                "{message}"
            );
        }
    }
}

#[test]
fn a_service_that_changed_must_be_confirmed_again() {
    let mut world = World::new(json!({})).settled(&[("Applied", Status::True)]);
    world.works[1].metadata.generation = Some(2);
    assert_eq!(world.said()[0].0, "ServiceApplied=False");
    assert_eq!(world.said()[0].2, "Waiting for Service demo/foo in member2.");
}

#[test]
fn a_work_that_could_not_be_written_or_removed_is_named_with_cluster_and_object() {
    let confirmed = [("Applied", Status::True), (COLLECTED_CONDITION, Status::True)];
    let spec = json!({"serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"]});
    let mut world = World::new(spec).reports("member1", "foo-1", 1).settled(&confirmed);
    let full = || Some("exceeded quota.".to_owned());
    world.unwritten = world.works.iter().map(|work| (place(work), full())).collect();
    let slice = names::dispatched_slice(&service("demo", "foo"), &id("member1"), "foo-1");
    let expected = [
        "Failed to write the Work of Service demo/foo for member1: exceeded quota; Failed to write the Work of Service \
         demo/foo for member2: exceeded quota."
            .to_owned(),
        format!("Failed to write the Work of EndpointSlice demo/{slice} for member2: exceeded quota."),
    ];
    let said = world.said();
    assert_eq!([&said[0].2, &said[2].2], expected.each_ref());
    assert_eq!(
        (said[0].0.as_str(), said[2].0.as_str()),
        ("ServiceApplied=False", "EndpointSliceApplied=False")
    );
    for why in world.unwritten.values_mut() {
        *why = None;
    }
    assert!(world.said()[0].2.starts_with("Waiting for Service demo/foo in member1"), "it may pass");
    world.unwritten.values_mut().for_each(|why| *why = full());
    let world = world.with(&["member1"], false);
    let said =
        format!("Failed to remove the Work of EndpointSlice demo/{slice} for member2: exceeded quota.");
    assert_eq!(world.said()[2].2, said);
}

#[test]
fn every_cluster_concerns_an_object_of_which_nobody_knows_whom_it_means() {
    let mut object = World::new(json!({
        "serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"],
    }))
    .object;
    let concerned = |object: &MultiClusterService| {
        ["member1", "member2", "member3"].map(|cluster| concerns(object, cluster))
    };
    assert_eq!(concerned(&object), [true, true, false]);
    object.spec.provider_clusters = vec![];
    object.spec.service_provision_clusters = vec!["member2".to_owned()];
    assert_eq!(concerned(&object), [false, true, false]);
    let differing = from_value(json!([{"name": "member3"}])).unwrap();
    object.spec.provider_clusters = differing;
    assert_eq!(concerned(&object), [true, true, true], "the lists disagree");
}

#[test]
fn a_slice_that_may_be_held_back_counts_only_while_the_strategy_allows_it() {
    let confirmed = [("Applied", Status::True), (COLLECTED_CONDITION, Status::True)];
    let spec = json!({"serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"]});
    let mut world = World::new(spec).reports("member1", "foo-1", 1).settled(&confirmed);
    for reason in ["HeldBack", "Attached"] {
        let conditions = world.works.iter_mut().filter_map(|work| work.status.as_mut());
        conditions.flat_map(|status| &mut status.conditions).for_each(|one| one.reason = reason.to_owned());
        for (strategy, expected) in [("LocalFirst", "True"), ("RemoteAndLocal", "False")] {
            let annotation = ("discovery.karmada.io/strategy".to_owned(), strategy.to_owned());
            world.object.metadata.annotations = Some(BTreeMap::from([annotation]));
            let applied = format!("EndpointSliceApplied={expected}");
            assert_eq!(world.said()[2].0, applied, "{reason}, {strategy}");
        }
    }
}

#[test]
fn clusters_that_are_missing_or_silent_are_named() {
    let confirmed = [("Applied", Status::True), (COLLECTED_CONDITION, Status::True)];
    let spec = json!({"serviceProvisionClusters": ["member1", "nowhere"], "serviceConsumptionClusters": ["member3"]});
    let world = World::new(spec).reports("member1", "foo-1", 1).settled(&confirmed).with(&["member3"], false);
    let messages: Vec<String> = world.said().into_iter().map(|(_, _, message)| message).collect();
    assert_eq!(
        messages,
        [
            "Failed to apply Service demo/foo in nowhere: there is no such cluster.",
            "Failed to list&watch EndpointSlice in nowhere: there is no such cluster.",
            "Failed to apply EndpointSlices in member3: the cluster is not ready.",
        ]
    );
}

#[test]
fn without_a_service_or_with_a_deletion_nothing_is_wanted() {
    let mut world = World::new(json!({})).reports("member1", "foo-1", 1).settled(&[]);
    world.template = None;
    assert_eq!((world.plan().works.len(), world.plan().keep.len()), (0, 0));
    assert!(world.said()[0].2.contains("there is no such Service at the hub"));
    world.object.metadata.deletion_timestamp = Some(at(5));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn events_tell_of_changes_only() {
    let world = World::new(json!({}));
    let pending = world.plan().conditions;
    assert!(events(&[], &pending).is_empty(), "waiting for the first time is nothing to report");
    let before: Vec<Condition> = pending.iter().map(|one| Condition::build(one.clone(), at(1))).collect();
    let done =
        world.settled(&[("Applied", Status::True), (COLLECTED_CONDITION, Status::True)]).plan().conditions;
    assert_eq!(events(&before, &done).len(), 3);
    let before: Vec<Condition> = done.iter().map(|one| Condition::build(one.clone(), at(1))).collect();
    assert!(events(&before, &done).is_empty());
    assert_eq!(events(&before, &pending).len(), 3);
}
