//! Plans of MultiClusterServices: who gets what, and what is said about it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use tombolo_api::condition::{Desired, Status, Stored as _};
use tombolo_api::karmada::networking::{COLLECTED_CONDITION, MultiClusterService};
use tombolo_api::karmada::work::{Work, WorkStatus};

use super::*;
use crate::testing::{at, id, service};

/// A MultiClusterService demo/foo, the Service, and what members have reported and confirmed.
struct World {
    object: MultiClusterService,
    template: Option<Service>,
    members: BTreeMap<ClusterId, Member>,
    works: Vec<Work>,
    unwritten: Unwritten,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut full = json!({"types": ["CrossCluster"]});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "foo", "namespace": "demo", "generation": 3}, "spec": full,
        }));
        let template = from_value(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "foo", "namespace": "demo", "labels": {"app": "foo"}, "uid": "u", "annotations":
                {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}},
            "spec": {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "selector": {"app": "foo"}, "type": "NodePort",
                "ports": [{"name": "http", "port": 80, "nodePort": 30000}, {"name": "admin", "port": 81}]},
        }));
        let world = Self {
            object: object.unwrap(),
            template: template.unwrap(),
            members: BTreeMap::new(),
            works: vec![],
            unwritten: Unwritten::new(),
        };
        world.with(&["member1", "member2", "member3"], true)
    }

    fn with(mut self, names: &[&str], ready: bool) -> Self {
        for name in names {
            self.members.insert(id(name), Member { ready, declared: Declared::Nothing });
        }
        self
    }

    /// What a cluster reports of one of its slices.
    fn reports(mut self, cluster: &str, slice: &str, generation: i64) -> Self {
        let slice = slice_of(slice, generation);
        let (cluster, service) = (id(cluster), service("demo", "foo"));
        let collection = Collection { cluster: &cluster, service: &service, declared: &Declared::Nothing };
        self.works.push(collect(&collection, &slice).unwrap().0);
        self
    }

    fn plan(&self) -> Plan {
        let works: Vec<&Work> = self.works.iter().collect();
        plan(&View {
            object: &self.object,
            template: self.template.as_ref(),
            members: &self.members,
            works: &works,
            limits: &Limits::default(),
            unwritten: &self.unwritten,
        })
    }

    /// Writes what is planned, as a hub and its members would, each with these conditions.
    fn settled(mut self, conditions: &[(&str, Status)]) -> Self {
        let plan = self.plan();
        self.works.retain(|work| plan.keep.contains(&place(work)));
        for mut work in plan.works.into_values() {
            work.metadata.generation = Some(1);
            let said = conditions.iter().map(|(type_, status)| {
                let desired = Desired::new(type_, *status, "Reason", "out of order.").observed(Some(1));
                Condition::build(desired, at(1))
            });
            work.status = Some(WorkStatus { conditions: said.collect(), ..WorkStatus::default() });
            self.works.push(work);
        }
        self
    }

    /// (cluster, kind, source) of everything planned.
    fn sent(&self) -> BTreeSet<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = self.plan().works.into_iter().map(|((namespace, _), work)| {
            let manifest = work.spec.workload.unwrap().manifests.remove(0);
            let source = &manifest["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"];
            (namespace.trim_start_matches("karmada-es-").to_owned(), text(&manifest["kind"]), text(source))
        });
        all.collect()
    }

    fn said(&self) -> Vec<(String, String, String)> {
        let all = self.plan().conditions.into_iter();
        all.map(|one| (format!("{}={}", one.type_, one.status), one.reason, one.message)).collect()
    }
}

fn slice_of(name: &str, generation: i64) -> EndpointSlice {
    from_value(json!({
        "metadata": {"name": name, "namespace": "demo", "generation": generation, "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"kubernetes.io/service-name": "foo"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "n", "conditions": {"ready": true},
            "hints": {"forZones": [{"name": "z"}]}, "targetRef": {"kind": "Pod", "name": "p"}}],
        "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 8081}],
    }))
    .unwrap()
}

fn check(world: &World, expected: &[(&str, &str, &str)]) {
    let expected: BTreeSet<_> =
        expected.iter().map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())).collect();
    assert_eq!(world.sent(), expected);
}

const SERVICE: &str = "Service";
const SLICE: &str = "EndpointSlice";

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
    world.members.insert(id("member1"), Member { ready: true, declared });
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
