//! Load balancers in consumption clusters, and their addresses.

use super::*;

/// What each cluster's Service is, by type.
fn types(world: &World) -> Vec<(String, String)> {
    let works = world.plan().works.into_iter();
    let services = works.filter_map(|((namespace, _), work)| {
        let manifest = work.spec.workload?.manifests.remove(0);
        (manifest["kind"] == "Service")
            .then(|| (namespace, manifest["spec"]["type"].as_str().unwrap().to_owned()))
    });
    services.map(|(place, type_)| (place.trim_start_matches("karmada-es-").to_owned(), type_)).collect()
}

#[test]
fn consumers_get_load_balancers_and_their_addresses_are_gathered() {
    let spec = json!({"types": ["LoadBalancer"], "serviceProvisionClusters": ["member1"],
        "serviceConsumptionClusters": ["member3", "member2", "member9"]});
    let mut world = World::new(spec);
    let type_of = |cluster: &str, type_: &str| (cluster.to_owned(), type_.to_owned());
    let expected = [
        type_of("member1", "NodePort"),
        type_of("member2", "LoadBalancer"),
        type_of("member3", "LoadBalancer"),
    ];
    assert_eq!(types(&world), expected);
    assert_eq!(world.plan().load_balancer, Some(LoadBalancerStatus::default()), "nothing is known yet");

    world = world.settled(&[("Applied", Status::True)]);
    for work in &mut world.works {
        let address = match work.metadata.namespace.as_deref() {
            Some("karmada-es-member1") => json!([{"ip": "192.0.2.1"}]),
            Some("karmada-es-member2") => json!([{"ip": "192.0.2.2"}, {"ip": "anything"}, {}]),
            _ => json!([{"hostname": "lb.example.com"}, {"ip": "192.0.2.2"}, {"hostname": "no name"}]),
        };
        let status = json!({"identifier": {"ordinal": 0, "version": "v1", "kind": "Service",
            "resource": "services", "name": "foo"}, "status": {"loadBalancer": {"ingress": address}}});
        work.status.as_mut().unwrap().manifest_statuses = vec![from_value(status).unwrap()];
    }
    let gathered = |world: &World| {
        let ingress = world.plan().load_balancer.unwrap().ingress.unwrap_or_default();
        ingress.into_iter().map(|one| one.ip.or(one.hostname).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(gathered(&world), ["192.0.2.2", "lb.example.com"]);
    let world = world.with(&["member2"], false);
    assert_eq!(
        gathered(&world),
        ["lb.example.com", "192.0.2.2"],
        "what a silent cluster said does not count"
    );
}

#[test]
fn without_the_type_no_address_shows_and_some_services_cannot_have_one() {
    let plain = World::new(json!({}));
    assert_eq!(plain.plan().load_balancer, Some(LoadBalancerStatus::default()));
    for (change, expected) in [
        (json!({"clusterIP": "None", "ports": []}), "is headless"),
        (json!({"type": "ExternalName", "externalName": "example.com"}), "is an ExternalName"),
    ] {
        let mut world = World::new(json!({"types": ["LoadBalancer"]}));
        world.template.as_mut().unwrap().spec = Some(from_value(change).unwrap());
        assert!(world.plan().works.is_empty());
        assert!(world.said()[0].2.contains(expected), "{:?}", world.said());
        assert_eq!(world.plan().load_balancer, None, "nothing is said anew");
    }
}
