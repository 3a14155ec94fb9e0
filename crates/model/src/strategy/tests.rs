//! Plans for all strategies.

use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use tombolo_api::mcs::ServiceImport;
use tombolo_api::service::{IpFamily, STOCK_SLICE_CONTROLLER};
use tombolo_api::tombolo::Dialect;

use super::*;
use crate::address::Declared;
use crate::import::{Contribution, Import};
use crate::merge::merge;
use crate::policy::Policy;
use crate::testing::{echo, offer, ports};

const ASIDE: &str = "tombolo.dev/selector-set-aside";

/// An import that a user wrote as in Karmada's native naming proposal, with this annotation.
fn import(strategy: Option<&str>) -> ServiceImport {
    let annotations = strategy.map(|word| json!({ "discovery.karmada.io/strategy": word }));
    from_value(json!({
        "metadata": {"name": "echo", "namespace": "demo", "uid": "i", "generation": 4, "annotations": annotations},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]},
    }))
    .unwrap()
}

fn derived(strategy: Option<&str>) -> ServiceImport {
    let mut import = import(strategy);
    import.metadata.labels = Some([("app.kubernetes.io/managed-by".to_owned(), "tombolo".to_owned())].into());
    import
}

/// A Service of somebody, as a server stores it.
fn local(selector: Value) -> Service {
    from_value(json!({
        "metadata": {"name": "echo", "namespace": "demo", "uid": "s", "labels": {"team": "red"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "selector": selector,
            "ports": [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    }))
    .unwrap()
}

fn slice(name: &str, labels: Value, addresses: &[&str]) -> EndpointSlice {
    let endpoints: Vec<Value> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    from_value(json!({
        "metadata": {"name": name, "namespace": "demo", "labels": labels},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }))
    .unwrap()
}

/// A slice that the stock controller made of local pods.
fn stock(addresses: &[&str]) -> EndpointSlice {
    let labels = json!({
        "kubernetes.io/service-name": "echo", "endpointslice.kubernetes.io/managed-by": STOCK_SLICE_CONTROLLER,
    });
    slice("echo-x1", labels, addresses)
}

/// One that somebody wrote by hand.
fn by_hand() -> EndpointSlice {
    slice("by-hand", json!({"kubernetes.io/service-name": "echo"}), &["192.0.2.7"])
}

/// What the clusters a and b offer: port http:80.
fn offered() -> Import {
    let offers = [offer(Dialect::Mcs, "a"), offer(Dialect::Mcs, "b")];
    merge(&Policy::MCS, &echo(), &offers).import.unwrap()
}

#[derive(Default)]
struct World {
    import: Option<ServiceImport>,
    present: Option<Service>,
    slices: Vec<EndpointSlice>,
    /// Endpoints of a and b.
    remote: [Vec<&'static str>; 2],
    exported: bool,
}

impl World {
    fn plan(&self) -> Plan {
        self.plan_with(&offered().clusters)
    }

    fn plan_with(&self, parts: &[Contribution]) -> Plan {
        let published: Vec<EndpointSlice> =
            self.remote.iter().map(|addresses| slice("hub", json!({}), addresses)).collect();
        let has_any = |slice: &EndpointSlice| slice.endpoints.iter().flatten().next().is_some();
        let sources = parts.iter().zip(&published).filter(|(_, slice)| has_any(slice));
        let sources = sources.map(|(part, slice)| Source {
            part,
            declared: &Declared::Nothing,
            slices: vec![slice],
            left_out: 0,
        });
        plan(&Situation {
            service: &echo(),
            import: self.import.as_ref(),
            present: self.present.as_ref(),
            slices: self.slices.iter().collect(),
            sources: sources.collect(),
            exported: self.exported,
            supported: &[IpFamily::V4],
        })
    }
}

/// The addresses behind the Service, and the names of its ports.
fn behind(plan: &Plan) -> (Vec<String>, BTreeSet<String>) {
    let endpoints = plan.slices.values().flat_map(|slice| slice.endpoints.iter().flatten());
    let ports = plan.slices.values().flat_map(|slice| slice.ports.iter().flatten());
    let mut addresses: Vec<String> = endpoints.flat_map(|endpoint| endpoint.addresses.clone()).collect();
    addresses.sort();
    (addresses, ports.map(|port| port.name.clone().unwrap_or_default()).collect())
}

/// Status and reason of the strategy's condition.
fn said(plan: &Plan) -> Option<(&str, &str)> {
    let condition = plan.conditions.as_ref()?.iter().find(|one| one.type_ == "StrategyApplied")?;
    Some((condition.status.as_str(), condition.reason.as_str()))
}

fn remote() -> [Vec<&'static str>; 2] {
    [vec!["10.1.0.1"], vec!["10.2.0.1"]]
}

#[test]
fn without_a_service_one_is_made_under_the_own_name_and_remote_endpoints_stand_behind_it() {
    for strategy in [None, Some("LocalAndRemote"), Some("RemoteOnly"), Some("LocalOnly")] {
        let plan = World { import: Some(import(strategy)), remote: remote(), ..World::default() }.plan();
        let Step::Create(made) = &plan.service else { panic!("{strategy:?}: {:?}", plan.service) };
        assert_eq!(made.metadata.name.as_deref(), Some("echo"));
        assert_eq!(made.metadata.owner_references, None, "it may become a user's");
        let spec = made.spec.as_ref().unwrap();
        assert_eq!((spec.selector.as_ref(), spec.ports.as_ref().unwrap()[0].port), (None, 80));
        assert_eq!(behind(&plan), (vec!["10.1.0.1".into(), "10.2.0.1".into()], [String::new()].into()));
        assert_eq!(said(&plan), Some(("True", "Applied")));
        for (name, slice) in &plan.slices {
            let labels = slice.metadata.labels.as_ref().unwrap();
            assert!(name.starts_with("import-echo-"), "{name}");
            assert_eq!(labels["kubernetes.io/service-name"], "echo");
            assert_eq!(labels.get("multicluster.kubernetes.io/service-name"), None, "not a clusterset slice");
        }
        let again = World {
            present: Some(stored(made)),
            import: Some(import(strategy)),
            remote: remote(),
            ..World::default()
        };
        assert_eq!(again.plan().service, Step::Leave);
        let gone = World { import: None, ..again };
        assert_eq!((gone.plan().service, gone.plan().slices.len()), (Step::Remove, 0));
    }
}

/// What a server makes of a Service.
fn stored(service: &Service) -> Service {
    let mut stored = service.clone();
    stored.metadata.resource_version = Some("1".into());
    stored.spec.as_mut().unwrap().cluster_ip.get_or_insert("10.96.0.1".into());
    stored
}

#[test]
fn a_local_service_is_never_touched_and_remote_ports_get_its_names() {
    let world = |strategy| World {
        import: Some(import(strategy)),
        present: Some(local(json!({"app": "echo"}))),
        slices: vec![stock(&["10.9.0.1"])],
        remote: remote(),
        ..World::default()
    };
    for strategy in [None, Some("LocalAndRemote")] {
        let plan = world(strategy).plan();
        assert_eq!((&plan.service, plan.evicted.len(), plan.finalizer), (&Step::Leave, 0, false));
        assert_eq!(behind(&plan).1, [String::from("web")].into());
        assert_eq!(behind(&plan).0.len(), 2);
    }
    let plan = world(Some("LocalOnly")).plan();
    assert_eq!((&plan.service, plan.slices.len()), (&Step::Leave, 0));
    assert_eq!(said(&plan), Some(("True", "LocalServicePresent")));
}

#[test]
fn remote_only_puts_the_selector_aside_and_evicts_what_the_stock_controller_made() {
    let mut world = World {
        import: Some(import(Some("RemoteOnly"))),
        present: Some(local(json!({"app": "echo"}))),
        slices: vec![stock(&["10.9.0.1"])],
        remote: remote(),
        exported: true,
    };
    let plan = world.plan();
    let expected = json!({
        "metadata": {"annotations": {"tombolo.dev/set-aside-selector": "{\"app\":\"echo\"}"}},
        "spec": {"selector": {ASIDE: "true"}},
    });
    assert_eq!(plan.service, Step::Change(expected));
    assert_eq!((plan.evicted.as_slice(), plan.finalizer), (&["echo-x1".to_owned()][..], true));
    assert_eq!(said(&plan), Some(("True", "Applied")));
    let message = &plan.conditions.unwrap()[0].message;
    assert!(message.contains("a, b") && message.contains("exports the Service"), "{message}");

    let mut aside = local(json!({"app": "echo", ASIDE: "true"}));
    aside.metadata.annotations =
        Some([("tombolo.dev/set-aside-selector".to_owned(), "{\"app\":\"echo\"}".to_owned())].into());
    (world.present, world.slices) = (Some(aside), vec![stock(&[])]);
    assert_eq!((world.plan().service, world.plan().evicted.len()), (Step::Leave, 0));
    let back = json!({"metadata": {"annotations": {"tombolo.dev/set-aside-selector": null}}, "spec": {"selector": {ASIDE: null}}});
    let endings = [
        Some(import(None)),
        Some(import(Some("LocalOnly"))),
        Some(import(Some("remoteonly"))),
        Some(derived(None)),
        None,
    ];
    for ending in endings {
        world.import = ending;
        assert_eq!(
            (world.plan().service, world.plan().finalizer),
            (Step::Change(back.clone()), false),
            "{:?}",
            world.import
        );
    }
}

#[test]
fn remote_only_without_remote_endpoints_fails_closed_and_says_so() {
    let world = World {
        import: Some(import(Some("RemoteOnly"))),
        present: Some(local(json!({"app": "echo"}))),
        slices: vec![stock(&["10.9.0.1"])],
        ..World::default()
    };
    let plan = world.plan();
    assert!(matches!(plan.service, Step::Change(_)));
    assert_eq!(plan.evicted, ["echo-x1"]);
    assert_eq!(said(&plan), Some(("False", "NoRemoteEndpoints")));
    assert!(plan.conditions.unwrap()[0].message.contains("no connection is possible"));
}

#[test]
fn slices_that_somebody_wrote_are_not_removed_but_told_of() {
    for selector in [Value::Null, json!({"app": "echo"})] {
        let world = World {
            import: Some(import(Some("RemoteOnly"))),
            present: Some(local(selector)),
            slices: vec![by_hand()],
            remote: remote(),
            ..World::default()
        };
        let plan = world.plan();
        assert_eq!((plan.evicted.len(), said(&plan)), (0, Some(("False", "LocalEndpointsRemain"))));
        assert!(plan.conditions.unwrap()[0].message.contains("by-hand"));
    }
}

#[test]
fn an_unknown_strategy_is_refused_and_nothing_is_imported() {
    for word in ["", "localonly", "LocalFirst", "RemoteAndLocal", "RemoteOnly "] {
        for present in [None, Some(local(json!({"app": "echo"})))] {
            for import in [import(Some(word)), derived(Some(word))] {
                let world = World {
                    import: Some(import),
                    present: present.clone(),
                    remote: remote(),
                    ..World::default()
                };
                let plan = world.plan();
                assert_eq!(
                    (&plan.service, plan.slices.len(), plan.finalizer),
                    (&Step::Leave, 0, false),
                    "{word:?}"
                );
                assert_eq!(said(&plan), Some(("False", "UnknownStrategy")));
            }
        }
    }
}

#[test]
fn a_derived_import_has_a_native_name_only_when_somebody_asks_for_it() {
    let mut world = World { import: Some(derived(None)), remote: remote(), ..World::default() };
    assert_eq!(world.plan(), Plan { conditions: Some(Vec::new()), ..Plan::default() });
    world.import = Some(derived(Some("LocalAndRemote")));
    assert!(matches!(world.plan().service, Step::Create(_)));
    assert_eq!(world.plan().conditions.unwrap().len(), 1, "Ready is said by whoever derived it");
    let mut applied = derived(None);
    applied.metadata.annotations =
        Some([("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into())].into());
    world.import = Some(applied);
    assert!(matches!(world.plan().service, Step::Create(_)), "a user applied over it");
}

#[test]
fn a_service_that_a_user_wrote_over_ours_is_theirs() {
    let mut ours = local(Value::Null);
    ours.metadata.labels = Some(
        [("app.kubernetes.io/managed-by", "tombolo"), ("tombolo.dev/native-import", "echo")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    let mut selecting = ours.clone();
    selecting.spec.as_mut().unwrap().selector = Some([("app".to_owned(), "echo".to_owned())].into());
    let mut applied = ours.clone();
    applied.metadata.annotations =
        Some([("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into())].into());
    for theirs in [selecting, applied] {
        for import in [None, Some(import(None)), Some(import(Some("LocalOnly")))] {
            let world = World { import, present: Some(theirs.clone()), ..World::default() };
            let labels = json!({"app.kubernetes.io/managed-by": null, "tombolo.dev/native-import": null});
            assert_eq!(world.plan().service, Step::Change(json!({"metadata": {"labels": labels}})));
        }
    }
    let gone = World { present: Some(ours), ..World::default() };
    assert_eq!(gone.plan().service, Step::Remove);
}

#[test]
fn remote_endpoints_serve_a_port_of_the_same_number_whatever_its_name() {
    let mut parts = offered().clusters;
    parts[0].ports = ports(&["admin:81", "http:80"]);
    parts[1].ports = ports(&["http:8080"]);
    let world = World {
        import: Some(import(None)),
        present: Some(local(Value::Null)),
        remote: remote(),
        ..World::default()
    };
    let plan = world.plan_with(&parts);
    assert_eq!(behind(&plan), (vec!["10.1.0.1".into()], ["web".to_owned()].into()));
    parts[0].ports = ports(&["http:81"]);
    let plan = world.plan_with(&parts);
    assert_eq!(said(&plan), Some(("False", "NoRemoteEndpoints")));
    assert!(plan.conditions.unwrap()[0].message.contains("the ports of a, b are others"));
}

#[test]
fn what_cannot_have_endpoints_is_refused() {
    let mut external = local(Value::Null);
    external.spec.as_mut().unwrap().type_ = Some("ExternalName".into());
    let mut portless = import(None);
    portless.spec.ports.clear();
    let mut v6 = import(None);
    v6.spec.ip_families = vec!["IPv6".into()];
    for (import, present) in [(import(None), Some(external)), (portless, None), (v6, None)] {
        let plan = World { import: Some(import), present, remote: remote(), ..World::default() }.plan();
        assert_eq!((&plan.service, plan.slices.len()), (&Step::Leave, 0));
        assert_eq!(said(&plan), Some(("False", "ServiceNotUsable")));
    }
}

#[test]
fn a_service_that_was_made_stays_when_its_import_makes_no_sense_any_more() {
    let mut world = World { import: Some(import(None)), remote: remote(), ..World::default() };
    let Step::Create(made) = world.plan().service else { panic!("nothing is made") };
    world.present = Some(stored(&made));
    let before = world.plan();
    let mut portless = import(None);
    portless.spec.ports.clear();
    let mut v6 = import(None);
    v6.spec.ip_families = vec!["IPv6".into()];
    let cases = [
        (import(Some("Remoteonly")), "UnknownStrategy"),
        (derived(Some("")), "UnknownStrategy"),
        (portless, "ServiceNotUsable"),
        (v6, "ServiceNotUsable"),
    ];
    for (import, reason) in cases {
        world.import = Some(import);
        let plan = world.plan();
        assert_eq!((&plan.service, &plan.slices), (&Step::Leave, &before.slices), "{reason}");
        assert_eq!(said(&plan), Some(("False", reason)));
    }
    world.remote = Default::default();
    assert!(world.plan().slices.is_empty(), "they follow their sources");
    world.import = None;
    assert_eq!(world.plan().service, Step::Remove);
}

#[test]
fn slices_that_could_not_be_written_are_no_success() {
    let world = World { import: Some(import(None)), remote: remote(), ..World::default() };
    let (import, plan) = (world.import.as_ref().unwrap(), world.plan());
    let planned = plan.conditions.clone().unwrap();
    let told = refused(import, planned.clone(), "exceeded quota");
    assert_eq!(told.len(), planned.len());
    let told = Plan { conditions: Some(told), ..plan };
    assert_eq!(said(&told), Some(("False", "SlicesRefused")));
    for condition in told.conditions.as_ref().unwrap() {
        assert_eq!(condition.status.as_str(), "False");
        assert!(condition.message.contains("exceeded quota"), "{}", condition.message);
    }
    let nothing = World { import: world.import.clone(), ..World::default() }.plan().conditions.unwrap();
    assert_eq!(refused(import, nothing.clone(), "exceeded quota"), nothing, "that is said already");
}

#[test]
fn a_headless_import_makes_a_headless_service_and_a_change_of_type_makes_it_anew() {
    let mut headless = import(None);
    headless.spec.type_ = tombolo_api::mcs::ServiceImportType::Headless;
    headless.spec.ports.clear();
    let mut world = World { import: Some(headless), remote: remote(), ..World::default() };
    let Step::Create(made) = world.plan().service else { panic!("nothing is made") };
    let spec = made.spec.as_ref().unwrap();
    assert_eq!((spec.cluster_ip.as_deref(), spec.ports.as_ref()), (Some("None"), None));
    assert_eq!(behind(&world.plan()).0.len(), 2, "names need no ports");
    world.present = Some(stored(&made));
    assert_eq!(world.plan().service, Step::Leave);
    world.import = Some(import(None));
    assert_eq!(world.plan().service, Step::Remove);
}

#[test]
fn a_service_of_ours_follows_the_import() {
    let mut world = World { import: Some(import(None)), remote: remote(), ..World::default() };
    let Step::Create(made) = world.plan().service else { panic!("nothing is made") };
    world.present = Some(stored(&made));
    let import = world.import.as_mut().unwrap();
    import.spec.ports[0].port = 81;
    import.spec.session_affinity = Some("ClientIP".into());
    let Step::Change(patch) = world.plan().service else { panic!("nothing changes") };
    assert_eq!(patch["spec"]["ports"][0]["port"], 81);
    assert_eq!(patch["spec"]["sessionAffinity"], "ClientIP");
    assert_eq!(patch["spec"].as_object().unwrap().len(), 3, "{patch}");
}

#[test]
fn each_ready_endpoint_counts_once() {
    let mut one = slice("x", json!({}), &["10.1.0.1", "10.1.0.2"]);
    one.endpoints.as_mut().unwrap()[1].conditions.as_mut().unwrap().ready = Some(false);
    let mut other = slice("y", json!({}), &["10.1.0.1", "10.1.0.3"]);
    other.endpoints.as_mut().unwrap()[1].conditions = None;
    assert_eq!(ready_endpoints([&one, &other]), 2);
    assert_eq!(ready_endpoints([]), 0);
}

#[test]
fn a_multi_cluster_service_has_two_strategies() {
    let read = |word: Option<&str>| {
        let annotations = word.map(|word| (STRATEGY_ANNOTATION.to_owned(), word.to_owned()));
        of_multi_cluster_service(&annotations.into_iter().collect()).ok()
    };
    use MultiClusterStrategy::{LocalFirst, RemoteAndLocal};
    assert_eq!(read(None), Some(RemoteAndLocal));
    assert_eq!(
        (read(Some("RemoteAndLocal")), read(Some("LocalFirst"))),
        (Some(RemoteAndLocal), Some(LocalFirst))
    );
    assert_eq!((read(Some("")), read(Some("LocalOnly"))), (None, None));
}

fn any_present() -> impl Strategy<Value = Option<Service>> {
    prop_oneof![
        Just(None),
        Just(Some(local(Value::Null))),
        Just(Some(local(json!({"app": "echo"})))),
        Just(Some(local(json!({"app": "echo", ASIDE: "true"})))),
    ]
}

proptest! {
    #[test]
    fn no_remote_slice_holds_a_local_endpoint_and_somebody_elses_service_keeps_all_but_our_key(
        word in prop::option::of(prop_oneof![Just("LocalOnly"), Just("LocalAndRemote"), Just("RemoteOnly"), Just("x")]),
        by_user in any::<bool>(),
        is_there in any::<bool>(),
        present in any_present(),
        a in prop::collection::btree_set(prop_oneof![Just("10.1.0.1"), Just("10.1.0.2")], 0..3),
    ) {
        let import = if by_user { import(word) } else { derived(word) };
        let world = World {
            import: is_there.then_some(import),
            present: present.clone(),
            slices: vec![stock(&["10.9.0.1"]), by_hand()],
            remote: [a.into_iter().collect(), Vec::new()],
            exported: false,
        };
        let plan = world.plan();
        prop_assert!(!behind(&plan).0.iter().any(|address| address == "10.9.0.1" || address == "192.0.2.7"));
        prop_assert!(present.is_none() || !matches!(plan.service, Step::Create(_) | Step::Remove));
        if let Step::Change(patch) = &plan.service {
            let selector = patch["spec"]["selector"].as_object().unwrap();
            prop_assert_eq!(selector.keys().collect::<Vec<_>>(), [ASIDE]);
            prop_assert!(patch.as_object().unwrap().keys().all(|key| key == "spec" || key == "metadata"));
        }
    }
}
