//! Which slices a Service gets, case by case.

use serde_json::{Value, from_value, json};

use super::*;

fn service(extra: Value) -> Service {
    let mut value = json!({
        "metadata": {"namespace": "a", "name": "web", "uid": "s", "labels": {"team": "x"}},
        "spec": {
            "clusterIP": "10.0.0.9",
            "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    });
    json_patch::merge(&mut value, &extra);
    from_value(value).unwrap()
}

fn pod(name: &str, address: &str, extra: Value) -> Pod {
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    let mut value = json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": ports}]},
        "status": {"phase": "Running", "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    json_patch::merge(&mut value, &extra);
    from_value(value).unwrap()
}

fn node(name: &str) -> Option<Arc<Node>> {
    let labels = json!({"topology.kubernetes.io/zone": "z"});
    (name == "n").then(|| Arc::new(from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()))
}

/// Does what the plan says, as a server would.
fn apply(slices: &mut Vec<EndpointSlice>, actions: Vec<Action>) {
    for action in actions {
        match action {
            Action::Create(mut slice) => {
                let name = format!("web-{}", slices.len());
                slice.metadata.uid = Some(name.clone());
                slice.metadata.name = Some(name);
                slices.push(*slice);
            }
            Action::Update(next) => {
                let place =
                    slices.iter().position(|slice| slice.metadata.name == next.metadata.name).unwrap();
                slices[place] = *next;
            }
            Action::Delete { name, .. } => slices.retain(|slice| slice.metadata.name.as_ref() != Some(&name)),
        }
    }
}

/// The slices of `service` from nothing; planning once more must change nothing.
fn settled(service: &Service, pods: &[Pod], mut slices: Vec<EndpointSlice>) -> Vec<EndpointSlice> {
    let actions = plan(service, pods, node, &slices);
    apply(&mut slices, actions);
    assert_eq!(plan(service, pods, node, &slices), []);
    slices
}

fn conditions(slice: &EndpointSlice) -> Vec<[bool; 3]> {
    let endpoints = slice.endpoints.iter().flatten().filter_map(|endpoint| endpoint.conditions.clone());
    endpoints.map(|found| [found.ready, found.serving, found.terminating].map(Option::unwrap)).collect()
}

#[test]
fn a_ready_pod_becomes_an_endpoint_with_all_that_is_known() {
    let slices = settled(&service(json!({})), &[pod("p", "10.1.0.1", json!({}))], vec![]);
    let [slice] = slices.as_slice() else { panic!("{slices:?}") };
    let value = serde_json::to_value(slice).unwrap();
    assert_eq!(value["addressType"], "IPv4");
    assert_eq!(value["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(
        value["endpoints"],
        json!([{
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n",
            "targetRef": {"kind": "Pod", "namespace": "a", "name": "p", "uid": "p"},
            "zone": "z",
        }])
    );
    let labels = json!({SERVICE_NAME: "web", MANAGED_BY: MANAGER, "team": "x"});
    assert_eq!(value["metadata"]["labels"], labels);
    assert_eq!(
        value["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s", "controller": true,
            "blockOwnerDeletion": true}])
    );
    assert_eq!(value["metadata"]["generateName"], "web-");
}

#[test]
fn readiness_and_termination_show_in_the_conditions() {
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let unready = json!({"spec": {"publishNotReadyAddresses": true}});
    let cases = [
        (json!({}), json!({}), Some([true, true, false])),
        (json!({}), not_ready.clone(), Some([false, false, false])),
        (json!({}), going, Some([false, true, true])),
        (unready.clone(), not_ready, Some([true, false, false])),
        (json!({}), json!({"status": {"phase": "Succeeded"}}), None),
        (json!({}), json!({"status": {"podIPs": null}}), None),
        (json!({}), json!({"metadata": {"labels": {"app": "other"}}}), None),
        (json!({}), json!({"spec": {"nodeName": "unknown"}}), None),
        (unready, json!({"spec": {"nodeName": "unknown"}}), Some([true, true, false])),
    ];
    for (place, (extra, state, expected)) in cases.into_iter().enumerate() {
        let slices = settled(&service(extra), &[pod("p", "10.1.0.1", state)], vec![]);
        assert_eq!(slices.len(), 1, "case {place}");
        assert_eq!(conditions(&slices[0]).first().copied(), expected, "case {place}");
    }
}

#[test]
fn a_service_without_pods_has_one_empty_slice_which_is_then_filled() {
    let empty = settled(&service(json!({})), &[], vec![]);
    assert_eq!((empty.len(), &empty[0].endpoints, &empty[0].ports), (1, &None, &None));
    let filled = settled(&service(json!({})), &[pod("p", "10.1.0.1", json!({}))], empty.clone());
    assert_eq!((filled.len(), &filled[0].metadata.name), (1, &empty[0].metadata.name));
    let again = settled(&service(json!({})), &[], filled);
    assert_eq!((again.len(), &again[0].endpoints), (1, &None));
}

#[test]
fn services_without_selector_and_external_names_get_nothing() {
    let pods = [pod("p", "10.1.0.1", json!({}))];
    for extra in [json!({"spec": {"selector": null}}), json!({"spec": {"type": "ExternalName"}})] {
        assert_eq!(settled(&service(extra), &pods, vec![]), []);
    }
}

#[test]
fn slices_of_others_are_not_touched() {
    let foreign: EndpointSlice = from_value(json!({
        "metadata": {"name": "imported", "labels": {SERVICE_NAME: "web", MANAGED_BY: "somebody.else"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.0.1"]}],
    }))
    .unwrap();
    let slices = settled(&service(json!({})), &[], vec![foreign.clone()]);
    assert_eq!((slices.len(), &slices[0]), (2, &foreign));
}

#[test]
fn each_family_has_its_own_slices() {
    let dual = json!({"status": {"podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]}});
    let pods = [pod("p", "", dual)];
    let both = service(json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}));
    let slices = settled(&both, &pods, vec![]);
    let mut found: Vec<(&str, &str)> = slices
        .iter()
        .map(|slice| {
            (slice.address_type.as_str(), slice.endpoints.as_ref().unwrap()[0].addresses[0].as_str())
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, [("IPv4", "10.1.0.1"), ("IPv6", "fd00::1")]);
    let single = settled(&service(json!({})), &pods, slices);
    assert_eq!(single.iter().map(|slice| slice.address_type.as_str()).collect::<Vec<_>>(), ["IPv4"]);
}

#[test]
fn pods_with_different_numbers_for_a_named_port_are_kept_apart() {
    let ports = json!([{"name": "c", "ports": [{"name": "http", "containerPort": 9090}]}]);
    let none = json!({"spec": {"containers": [{"name": "c"}]}});
    let pods = [
        pod("p", "10.1.0.1", json!({})),
        pod("q", "10.1.0.2", json!({"spec": {"containers": ports}})),
        pod("r", "10.1.0.3", none),
    ];
    let slices = settled(&service(json!({})), &pods, vec![]);
    let found: Vec<Option<i32>> = slices
        .iter()
        .map(|slice| slice.ports.as_ref().and_then(|ports| ports.first()).and_then(|port| port.port))
        .collect();
    assert_eq!(found, [Some(8080), Some(9090), None]);
}

#[test]
fn headless_services_and_hostnames_are_marked() {
    let headless = service(json!({"spec": {"clusterIP": "None"}}));
    let named = json!({"spec": {"hostname": "first", "subdomain": "web"}});
    let elsewhere = json!({"spec": {"hostname": "second", "subdomain": "other"}});
    let pods = [pod("p", "10.1.0.1", named), pod("q", "10.1.0.2", elsewhere)];
    let slices = settled(&headless, &pods, vec![]);
    assert_eq!(slices[0].labels().get(HEADLESS).map(String::as_str), Some(""));
    let names: Vec<Option<&str>> =
        slices[0].endpoints.iter().flatten().map(|endpoint| endpoint.hostname.as_deref()).collect();
    assert_eq!(names, [Some("first"), None]);
    let slices = settled(&service(json!({})), &pods, slices);
    assert_eq!(slices[0].labels().get(HEADLESS), None);
}

#[test]
fn one_pod_more_rewrites_one_slice_of_many() {
    let many = |count: u32| -> Vec<Pod> {
        (0..count)
            .map(|number| {
                pod(
                    &format!("p{number:03}"),
                    &format!("10.1.{}.{}", number / 250, number % 250 + 1),
                    json!({}),
                )
            })
            .collect()
    };
    let slices = settled(&service(json!({})), &many(230), vec![]);
    assert_eq!(slices.len(), 3);
    let actions = plan(&service(json!({})), &many(231), node, &slices);
    let [Action::Update(changed)] = actions.as_slice() else { panic!("{} actions", actions.len()) };
    assert_eq!(changed.endpoints.as_ref().unwrap().len(), 31);
}
