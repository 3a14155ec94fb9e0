//! What provision clusters tell of their slices.

use super::*;

#[test]
fn slices_of_the_cluster_itself_are_reported_and_those_from_elsewhere_are_not() {
    let cases = [
        (json!({}), true),
        (json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}), true),
        (json!({"karmada.io/managed": "true"}), true),
        (json!({"kubernetes.io/service-name": "bar"}), false),
        (
            json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io"}),
            false,
        ),
        (json!({"endpointslice.kubernetes.io/managed-by": "agent.tombolo.dev"}), false),
        (json!({"multicluster.kubernetes.io/source-cluster": "b"}), false),
    ];
    for (labels, expected) in cases {
        let mut slice = slice_of("foo-1", 1);
        let more: BTreeMap<String, String> = from_value(labels.clone()).unwrap();
        slice.metadata.labels.get_or_insert_default().extend(more);
        assert_eq!(is_collectable(&slice, &service("demo", "foo")), expected, "{labels}");
    }
    let names = EndpointSlice { address_type: "FQDN".into(), ..slice_of("foo-1", 1) };
    assert!(!is_collectable(&names, &service("demo", "foo")), "names are no addresses");
}

#[test]
fn what_is_left_out_of_a_report_is_told_with_its_reason() {
    let mut world = World::new(json!({})).reports("member1", "foo-a", 1).reports("member1", "foo-b", 1);
    assert_eq!(world.plan().left_out, BTreeMap::new());
    let declared = Declared::read(&["10.9.0.0/16".to_owned()]).0;
    world.members.insert(id("member1"), Member { ready: true, settled: true, declared });
    assert_eq!(world.plan().left_out, BTreeMap::from([(id("member1"), [Dropped::Undeclared].into())]));
    let works: Vec<&Work> = world.works.iter().collect();
    let limits = Limits { slices: 1, ..Limits::default() };
    let (object, template) = (&world.object, world.template.as_ref());
    let (members, unwritten) = (&world.members, &world.unwritten);
    let view = View { object, template, members, works: &works, limits: &limits, unwritten };
    let both = [Dropped::Undeclared, Dropped::TooMany].into();
    assert_eq!(plan(&view).left_out, BTreeMap::from([(id("member1"), both)]));
}

#[test]
fn of_too_many_slices_those_that_were_reported_last_are_left_out() {
    let mut world = World::new(json!({})).reports("member1", "foo-a", 1).reports("member1", "foo-b", 1);
    for (age, work) in world.works.iter_mut().enumerate() {
        work.metadata.creation_timestamp = Some(at(9 - i64::try_from(age).unwrap()));
    }
    let works: Vec<&Work> = world.works.iter().collect();
    let limits = Limits { slices: 1, ..Limits::default() };
    let (object, template) = (&world.object, world.template.as_ref());
    let (members, unwritten) = (&world.members, &world.unwritten);
    let plan = plan(&View { object, template, members, works: &works, limits: &limits, unwritten });
    let names: Vec<&String> = plan.works.keys().map(|(_, name)| name).collect();
    assert!(names.iter().any(|name| name.contains("member1-foo-b")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("member1-foo-a")), "{names:?}");
}

#[test]
fn endpoints_without_an_exposed_port_are_told_and_not_sent() {
    let mut world = World::new(json!({"ports": [{"port": 80}]})).reports("member1", "foo-a", 1);
    assert_eq!(world.plan().left_out, BTreeMap::new(), "its port is the one that is exposed");
    for work in &mut world.works {
        let manifests = &mut work.spec.workload.as_mut().unwrap().manifests;
        manifests[0]["ports"] = json!([{"name": "another", "port": 9, "protocol": "TCP"}]);
    }
    assert_eq!(world.plan().left_out, BTreeMap::from([(id("member1"), [Dropped::NotExposed].into())]));
    let slices: Vec<Value> = world
        .plan()
        .works
        .values()
        .filter_map(|work| {
            let manifest = work.spec.workload.as_ref()?.manifests.first()?.clone();
            (manifest["kind"] == "EndpointSlice").then_some(manifest)
        })
        .collect();
    assert!(!slices.is_empty());
    assert!(slices.iter().all(|slice| slice["endpoints"] == json!([])), "{slices:?}");
}
