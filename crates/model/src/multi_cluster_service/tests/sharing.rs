//! What is sent where.

use super::*;

#[test]
fn slices_go_from_provision_to_consumption_clusters_and_the_service_to_both() {
    let spec = json!({"serviceProvisionClusters": ["member2"], "serviceConsumptionClusters": ["member3"]});
    let world = World::new(spec).reports("member2", "foo-1", 1).reports("member1", "foo-1", 1);
    check(&world, &[("member2", SERVICE, ""), ("member3", SERVICE, ""), ("member3", SLICE, "member2")]);
}

#[test]
fn a_cluster_does_not_get_its_own_slices_back() {
    let spec = json!({"serviceProvisionClusters": ["member1", "member2"], "serviceConsumptionClusters": ["member2"]});
    let world = World::new(spec).reports("member1", "foo-1", 1).reports("member2", "foo-1", 1);
    check(&world, &[("member1", SERVICE, ""), ("member2", SERVICE, ""), ("member2", SLICE, "member1")]);
}

#[test]
fn empty_lists_mean_all_clusters_also_those_that_join_later() {
    let world = World::new(json!({})).reports("member1", "foo-1", 1);
    assert_eq!(world.sent().len(), 3 + 2);
    assert_eq!(world.with(&["member4"], true).sent().len(), 4 + 3);
}

#[test]
fn both_spellings_are_honoured_and_a_disagreement_changes_nothing() {
    let spec = json!({"providerClusters": [{"name": "member1"}], "consumerClusters": [{"name": "member2"}]});
    let world = World::new(spec).reports("member1", "foo-1", 1);
    check(&world, &[("member1", SERVICE, ""), ("member2", SERVICE, ""), ("member2", SLICE, "member1")]);
    let mut world = world.settled(&[("Applied", Status::True)]);
    world.object.spec.service_provision_clusters = vec!["member3".to_owned()];
    let plan = world.plan();
    assert!(plan.works.is_empty());
    assert_eq!(plan.keep.len(), world.works.len(), "nothing is taken away either");
    for (condition, reason, message) in world.said() {
        assert!(condition.ends_with("=False") && reason.ends_with("Failed"), "{condition} {reason}");
        assert!(message.contains("serviceProvisionClusters and spec.providerClusters"), "{message}");
    }
}

#[test]
fn the_slices_of_a_provision_cluster_that_is_not_ready_are_withdrawn_and_kept_for_its_return() {
    let world = World::new(json!({})).reports("member1", "foo-1", 1).with(&["member1"], false);
    assert!(world.sent().iter().all(|(_, kind, _)| kind == SERVICE));
    assert_eq!(world.plan().keep.len(), 1);
    assert_eq!(world.with(&["member1"], true).sent().len(), 5);
}

#[test]
fn clusters_that_fall_silent_together_keep_each_others_slices_until_those_that_return_have_settled() {
    let world = World::new(json!({})).reports("member1", "foo-1", 1).settled(&[]);
    let in_member2 = |world: &World| {
        let plan = world.plan();
        let kept = plan.keep.iter().any(|(namespace, _)| namespace == "karmada-es-member2");
        (kept, plan.settling)
    };
    let mut world = world.with(&["member1", "member2"], false);
    assert_eq!(in_member2(&world), (true, false));
    assert_eq!(world.plan().keep.len(), 2, "its own report, and not what member3 has");
    world.members.get_mut(&id("member2")).unwrap().ready = true;
    assert_eq!(in_member2(&world), (true, true), "it has only just returned");
    world.members.get_mut(&id("member2")).unwrap().settled = true;
    assert_eq!(in_member2(&world), (false, false));

    let mut world = world.with(&["member2"], false);
    world.object.spec.service_consumption_clusters = vec!["member3".to_owned()];
    assert_eq!(in_member2(&world), (false, false), "it does not consume any more");
}

#[test]
fn a_slice_in_a_consumer_tells_where_it_comes_from_and_points_at_nothing_there() {
    let plan = World::new(json!({})).reports("member1", "foo-1", 7).plan();
    let is_slice = |work: &&Work| work.spec.workload.as_ref().unwrap().manifests[0]["kind"] == SLICE;
    let work = plan.works.values().find(is_slice).unwrap();
    let labels = work.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["endpointslice.karmada.io/name"], "foo");
    assert_eq!(labels["endpointslice.karmada.io/namespace"], "demo");
    let annotations = work.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["endpointslice.karmada.io/work-provision-cluster"], "member1");
    let slice = &work.spec.workload.as_ref().unwrap().manifests[0];
    let annotations = &slice["metadata"]["annotations"];
    assert_eq!(annotations["endpointslice.karmada.io/endpointslice-generation"], "7");
    assert_eq!(annotations["endpointslice.karmada.io/provision-cluster"], "member1");
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "foo");
    assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("import-foo-member1-"));
    assert_eq!(slice["endpoints"], json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]));
}

#[test]
fn the_service_goes_along_without_what_the_hub_gave_it() {
    let plan = World::new(json!({})).plan();
    let work = plan.works.values().next().unwrap();
    let service = &work.spec.workload.as_ref().unwrap().manifests[0];
    let spec = json!({"selector": {"app": "foo"}, "type": "NodePort",
        "ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]});
    assert_eq!(service["spec"], spec);
    assert_eq!(service["metadata"]["labels"], json!({"app": "foo", "karmada.io/managed": "true"}));
    let annotations = service["metadata"]["annotations"].as_object().unwrap();
    let keys: Vec<&str> = annotations.keys().map(String::as_str).collect();
    assert_eq!(keys, ["kept", "work.karmada.io/name", "work.karmada.io/namespace"]);
}

#[test]
fn what_we_noted_on_the_template_for_the_hubs_own_cluster_goes_nowhere_else() {
    let mut world = World::new(json!({}));
    let expected = world.plan();
    let metadata = &mut world.template.as_mut().unwrap().metadata;
    let notes = [
        "tombolo.dev/adopted",
        "tombolo.dev/preserved",
        "tombolo.dev/work-generation",
        "tombolo.dev/set-aside-selector",
        "tombolo.dev/load-balancer",
        "work.karmada.io/name",
        "work.karmada.io/namespace",
        "work.karmada.io/conflict-resolution",
    ];
    let annotations = metadata.annotations.as_mut().unwrap();
    annotations.extend(notes.map(|key| (key.to_owned(), "noted".to_owned())));
    let labels = [
        ("karmada.io/managed", "true"),
        ("app.kubernetes.io/managed-by", "tombolo"),
        ("tombolo.dev/native-import", "foo"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    metadata.labels.as_mut().unwrap().extend(labels);
    let spec = world.template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.selector.as_mut().unwrap().insert("tombolo.dev/selector-set-aside".to_owned(), "true".to_owned());
    assert_eq!(world.plan().works, expected.works);
}

#[test]
fn ports_limit_what_consumers_see_and_nobody_else() {
    let spec = json!({"ports": [{"port": 80}], "serviceProvisionClusters": ["member1"]});
    let plan = World::new(spec).reports("member1", "foo-1", 1).plan();
    for ((namespace, _), work) in &plan.works {
        let manifest = &work.spec.workload.as_ref().unwrap().manifests[0];
        let ports = if manifest["kind"] == SERVICE { &manifest["spec"]["ports"] } else { &manifest["ports"] };
        let expected = if namespace == "karmada-es-member1" { 2 } else { 1 };
        assert_eq!(ports.as_array().unwrap().len(), expected, "{namespace} {manifest}");
    }
    for wrong in [json!({"port": 82}), json!({"name": "http", "port": 81})] {
        let world = World::new(json!({"ports": [wrong]}));
        assert!(world.plan().works.is_empty());
        assert!(world.said()[0].2.contains("which the Service does not have"), "{:?}", world.said());
    }
}

#[test]
fn an_older_generation_does_not_replace_what_was_sent() {
    let newer = World::new(json!({})).reports("member1", "foo-1", 9).settled(&[]);
    let mut restored = World { works: vec![], ..newer };
    let newer = World::new(json!({})).reports("member1", "foo-1", 9).settled(&[]);
    restored.works = newer.works.into_iter().filter(|work| !is_collected(work)).collect();
    let restored = restored.reports("member1", "foo-1", 8);
    assert!(restored.sent().iter().all(|(_, kind, _)| kind == SERVICE), "the older one is not written");
    assert_eq!(restored.plan().keep.len(), 1 + 2, "the newer ones stay");
}
