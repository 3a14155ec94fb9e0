//! What is said on the object: true when it is so, and what is wrong when it is not.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tombolo_agent::Config;
use tombolo_api::condition;
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::{MEMBER_LABEL, POD_CIDRS_ANNOTATION};
use tombolo_hub::PushMember;
use tombolo_model::names;
use tombolo_testkit::{FaultPlan, Server, linger, relaxed, until, within};

use crate::fleet::{Fleet, Member, NAMESPACE, apply, cluster, template};
use crate::watchman::{Seen, Watchman};

#[tokio::test(start_paused = true)]
async fn without_a_service_the_object_says_so_until_there_is_one() {
    let fleet = Fleet::of(2).await;
    fleet.apply_object(json!({})).await;
    until("it says what is missing", || async {
        let (status, reason, message) = fleet.condition("ServiceApplied").await;
        status == "False" && reason == "ServiceAppliedFailed" && message.contains("Service default/foo")
    })
    .await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let generation = fleet.object().await.unwrap().metadata.generation;
    let conditions = fleet.object().await.unwrap().status.unwrap().conditions;
    assert!(conditions.iter().all(|condition| condition.observed_generation == generation));
    let (_, reason, message) = fleet.condition("ServiceApplied").await;
    assert_eq!(reason, "ServiceAppliedSuccess");
    assert_eq!(message, "Service is propagated to target clusters.");
    Api::<Service>::namespaced(fleet.hub.client(), NAMESPACE)
        .delete("foo", &DeleteParams::default())
        .await
        .unwrap();
    let member2 = &fleet.members[1];
    until("it goes with its template", || async {
        member2.service().await.is_none() && fleet.condition("ServiceApplied").await.0 == "False"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_someone_else_in_the_way_of_a_slice_is_named_and_not_touched() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    let service = tombolo_api::tombolo::ServiceRef { namespace: NAMESPACE.into(), name: "foo".into() };
    let name = names::dispatched_slice(&service, &"member1".parse().unwrap(), "foo-abc");
    let mine = serde_json::from_value(json!({
        "metadata": {"name": name}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.66.0.1"]}],
    }))
    .unwrap();
    let slices = member2.api::<EndpointSlice>();
    let mine = slices.create(&PostParams::default(), &mine).await.unwrap();
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the condition names cluster and object", || async {
        let (status, _, message) = fleet.condition("EndpointSliceApplied").await;
        status == "False"
            && message.contains("member2")
            && message.contains(&name)
            && message.contains("someone else")
    })
    .await;
    assert_eq!(slices.get(&name).await.unwrap(), mine);
    slices.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_generation_does_not_overwrite_a_newer_one_in_the_member() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({"serviceProvisionClusters": ["member1"]})).await;
    let member2 = &fleet.members[1];
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    let member2 = &fleet.members[1];
    until("changed", || async { member2.reached().await == ["10.1.0.2"] }).await;
    // As after a restore from an old backup: the hub sends what was.
    fleet.kill_hub();
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member2");
    // Not the empty one that the stock controller makes.
    let is_slice = |work: &&Work| {
        work.spec.workload.as_ref().unwrap().manifests[0]["endpoints"][0]["addresses"][0] == "10.1.0.2"
    };
    let all = works.list(&Default::default()).await.unwrap().items;
    let mut work = all.iter().find(is_slice).unwrap().clone();
    let manifest = &mut work.spec.workload.as_mut().unwrap().manifests[0];
    manifest["metadata"]["annotations"]["endpointslice.karmada.io/endpointslice-generation"] = json!("1");
    manifest["endpoints"] = json!([{"addresses": ["10.1.0.1"]}]);
    let name = work.metadata.name.clone().unwrap();
    works.replace(&name, &PostParams::default(), &work).await.unwrap();
    until("it is refused", || async {
        let conditions = works.get(&name).await.unwrap().status.unwrap_or_default().conditions;
        conditions
            .iter()
            .any(|one| one.type_ == "Applied" && one.status == "False" && one.message.contains("older"))
    })
    .await;
    assert_eq!(fleet.members[1].reached().await, ["10.1.0.2"]);
    fleet.start_hub();
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(fleet.members[1].reached().await, ["10.1.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn addresses_that_a_member_did_not_declare_go_nowhere() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1", "10.9.9.9"]).await;
    fleet.share(json!({})).await;
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("it is said", || async {
        let (status, _, message) = fleet.condition("EndpointSliceCollected").await;
        status == "True" && message.ends_with("Endpoints are left out of member1 (undeclared).")
    })
    .await;
    let events: Api<Event> = Api::namespaced(fleet.hub.client(), NAMESPACE);
    until("an event follows", || async {
        let events = events.list(&Default::default()).await.unwrap().items;
        events.iter().any(|event| event.reason.as_deref() == Some("EndpointsLeftOut"))
    })
    .await;
    // Even if its report says so.
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member1");
    let all = works.list(&Default::default()).await.unwrap().items;
    let mut forged = all.into_iter().find(|work| work.spec.suspend_dispatching == Some(true)).unwrap();
    forged.metadata.name = Some("forged".to_owned());
    forged.metadata.resource_version = None;
    forged.metadata.uid = None;
    let manifest = &mut forged.spec.workload.as_mut().unwrap().manifests[0];
    manifest["metadata"]["name"] = json!("forged");
    manifest["endpoints"] =
        json!([{"addresses": ["10.1.0.7"]}, {"addresses": ["169.254.169.254"]}, {"addresses": ["10.2.0.1"]}]);
    works.create(&PostParams::default(), &forged).await.unwrap();
    within(Duration::from_secs(5), "its agent removes what it did not report", || async {
        works.get_opt("forged").await.unwrap().is_none() && member2.reached().await == ["10.1.0.1"]
    })
    .await;
    member1.endpoints(&["10.1.0.1"]).await;
    until("nothing is left out any more", || async {
        fleet.condition("EndpointSliceCollected").await.2
            == "EndpointSlices are collected from provision clusters."
    })
    .await;
    // Whoever let the member join knows better where its pods are.
    let known = json!({"metadata": {"labels": {MEMBER_LABEL: "member1"}, "annotations": {POD_CIDRS_ANNOTATION: "10.7.0.0/16"}}});
    let namespaces: Api<Namespace> = Api::all(fleet.hub.client());
    namespaces.patch("tombolo-member1", &PatchParams::default(), &Patch::Merge(&known)).await.unwrap();
    until("not believed any more", || async { member2.reached().await.is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_waits_for_its_namespace() {
    let fleet = Fleet::of(1).await;
    let hub = fleet.hub.client();
    let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
    namespace.metadata.name = Some("team".to_owned());
    Api::all(hub.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    crate::fleet::apply::<Service>(&hub, "team", &crate::fleet::template()).await;
    let object = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "foo"}, "spec": {"types": ["CrossCluster"]}});
    crate::fleet::apply::<tombolo_api::karmada::networking::MultiClusterService>(&hub, "team", &object).await;
    let objects: Api<tombolo_api::karmada::networking::MultiClusterService> = Api::namespaced(hub, "team");
    let message = || async {
        let conditions = objects.get("foo").await.unwrap().status.unwrap_or_default().conditions;
        let found = conditions.into_iter().find(|one| one.type_ == "ServiceApplied");
        found.map(|one| (one.status, one.message)).unwrap_or_default()
    };
    until("it says what is missing", || async { message().await.1.contains("there is no namespace team") })
        .await;
    let member = fleet.members[0].cluster.client();
    Api::all(member).create(&PostParams::default(), &namespace).await.unwrap();
    until("it is applied", || async { message().await.0 == "True" }).await;
}

/// How often a condition came true.
fn came_true(history: &[Seen<MultiClusterService>], type_: &str) -> usize {
    let holds = |seen: &Seen<MultiClusterService>| {
        let status = seen.object().status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, type_))
    };
    let states: Vec<bool> = std::iter::once(false).chain(history.iter().map(holds)).collect();
    states.windows(2).filter(|pair| !pair[0] && pair[1]).count()
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_changes_and_metrics_of_durations() {
    let fleet = Fleet::of(2).await;
    until("both are ready", || async {
        let all = crate::clusters::clusters(&fleet.hub.client()).await;
        all.len() == 2 && all.iter().all(|(_, ready)| ready == "True")
    })
    .await;
    // What the hub wrote comes back to it late.
    fleet.link.plan(FaultPlan { lag: Duration::from_millis(300), ..FaultPlan::default() });
    let watchman =
        Watchman::post(Api::<MultiClusterService>::namespaced(fleet.hub.client(), NAMESPACE)).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    // So every now and then it looks again before it has seen what it said.
    let objects: Api<MultiClusterService> = Api::namespaced(fleet.hub.client(), NAMESPACE);
    for note in 0..40 {
        let patch = json!({"metadata": {"annotations": {"note": note.to_string()}}});
        objects.patch("foo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        linger(Duration::from_millis(350)).await;
    }
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let api: Api<Event> = Api::namespaced(fleet.hub.client(), NAMESPACE);
    let reasons = || async {
        let events = api.list(&Default::default()).await.unwrap().items;
        let mut reasons: Vec<String> = events.into_iter().filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons
    };
    linger(Duration::from_secs(60)).await;
    let before = reasons().await;
    let history = watchman.dismiss();
    for type_ in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
        let told = before.iter().filter(|one| **one == format!("{type_}Success")).count();
        assert_eq!(told, came_true(&history, type_), "{type_} of {before:?}");
        assert!(told > 0, "{before:?}");
    }
    fleet.link.heal();
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    linger(Duration::from_secs(600)).await;
    assert_eq!(reasons().await, before, "no event without a change");
    assert_eq!(measured(&fleet, SERVICES), 2);
    // Where the stock controller is at work there are its empty slices, too.
    let slices = if Server::chosen().is_embedded() {
        2..=2
    } else {
        relaxed("not exactly how many slices were sent");
        2..=6
    };
    assert!(slices.contains(&measured(&fleet, SLICES)), "{}", measured(&fleet, SLICES));
}

/// How many Services were applied, how many of them in half a second, and how many slices were sent.
const SERVICES: &str = "mcs_sync_svc_duration_seconds_count{result=\"success\"}";
const QUICK_SERVICES: &str = "mcs_sync_svc_duration_seconds_bucket{le=\"0.5\",result=\"success\"}";
const SLICES: &str = "mcs_sync_eps_duration_seconds_count{way=\"dispatched\"}";

/// A number among the hub's metrics.
fn measured(fleet: &Fleet, name: &str) -> u64 {
    let (mut registry, mut text) = (Registry::default(), String::new());
    fleet.metrics.register(&mut registry);
    encode(&mut text, &registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn works_looks_and_the_health_of_clusters_are_counted() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let ready = |fleet: &Fleet| measured(fleet, "tombolo_hub_cluster_ready{cluster=\"member1\"}");
    assert_eq!(ready(&fleet), 1);
    assert!(measured(&fleet, "tombolo_hub_reconciles_total{controller=\"services\"}") > 0);
    fleet.rest().await;
    let writes = "tombolo_hub_work_writes_total{operation=\"put\"}";
    let before = measured(&fleet, writes);
    assert!(before > 0);
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    until("it is sent on", || async { fleet.members[1].reached().await == ["10.1.0.2"] }).await;
    assert!(measured(&fleet, writes) > before);
    fleet.kill(0);
    until("its silence shows", || async { ready(&fleet) == 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn how_long_a_change_of_a_service_takes_counts_from_its_writing_and_slices_only_if_they_changed() {
    let mut fleet = Fleet::of(3).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({"serviceConsumptionClusters": ["member1", "member2"]})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.rest().await;
    let before = (measured(&fleet, SERVICES), measured(&fleet, QUICK_SERVICES));
    // From now on no member can confirm anything in half a second.
    let slow = Duration::from_secs(1)..Duration::from_secs(2);
    for member in &fleet.members {
        member.link.plan(FaultPlan { latency: slow.clone(), ..FaultPlan::default() });
    }
    let mut changed = template();
    changed["spec"]["ports"][0]["port"] = json!(81);
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &changed).await;
    until("all have it", || async { measured(&fleet, SERVICES) == before.0 + 3 }).await;
    assert_eq!(measured(&fleet, QUICK_SERVICES), before.1);
    fleet.members.iter().for_each(|member| member.link.heal());
    fleet.rest().await;
    let slices = measured(&fleet, SLICES);
    fleet.apply_object(json!({})).await;
    let member3 = &fleet.members[2];
    until("one more consumer", || async { member3.reached().await == ["10.1.0.1"] }).await;
    assert_eq!(measured(&fleet, SLICES), slices, "no slice has changed");
    fleet.kill_hub();
}

#[tokio::test(start_paused = true)]
async fn a_work_that_is_refused_is_named_and_keeps_nothing_from_being_withdrawn() {
    let mut fleet = Fleet::of(3).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.members[1].endpoints(&["10.2.0.1"]).await;
    fleet.share(json!({})).await;
    let member3 = &fleet.members[2];
    until("shared", || async { member3.reached().await.len() == 2 }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let not_stored = Some(("/karmada-es-member2/works", 403));
    fleet.link.plan(FaultPlan { not_stored, ..FaultPlan::default() });
    let mut changed = template();
    changed["spec"]["ports"][0]["port"] = json!(81);
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &changed).await;
    until("it is named", || async {
        let (status, _, message) = fleet.condition("ServiceApplied").await;
        let expected = "Failed to write the Work of Service default/foo for member2: exceeded quota";
        status == "False" && message.contains(expected)
    })
    .await;
    fleet.kill(0);
    let [_, member2, member3] = &fleet.members[..] else { unreachable!() };
    let withdrawn =
        || async { member2.reached().await == ["10.2.0.1"] && member3.reached().await == ["10.2.0.1"] };
    within(Duration::from_secs(45), "the dead cluster is withdrawn", withdrawn).await;
    until("which is told, too", || async {
        fleet.condition("EndpointSliceCollected").await.2.contains("member1: the cluster is not ready")
    })
    .await;
    fleet.link.heal();
    fleet.start(0);
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_refused_keeps_no_other_from_being_written_or_withdrawn() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.named_endpoints("foo-a", &["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let not_stored = Some(("/karmada-es-member1/works/foo-b", 403));
    member1.link.plan(FaultPlan { not_stored, ..FaultPlan::default() });
    member1.named_endpoints("foo-b", &["10.1.0.2"]).await;
    member1.named_endpoints("foo-c", &["10.1.0.3"]).await;
    member1.api::<EndpointSlice>().delete("foo-a", &DeleteParams::default()).await.unwrap();
    until("the others are as they should be", || async { member2.reached().await == ["10.1.0.3"] }).await;
    until("it is said", || async {
        let (status, _, message) = fleet.condition("EndpointSliceCollected").await;
        status == "False" && message.contains("member1") && message.contains("exceeded quota")
    })
    .await;
    member1.link.heal();
    until("it is taken", || async { member2.reached().await == ["10.1.0.2", "10.1.0.3"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_a_slice_caused_counts_as_the_time_it_took_to_report_it() {
    let mut fleet = Fleet::of(0).await;
    let member = Member::of(cluster("pushed", 77), Config::new("pushed".parse().unwrap(), "pushed"));
    fleet.push.push(PushMember {
        cluster: "pushed".parse().unwrap(),
        client: member.cluster.client(),
        create_namespaces: false,
    });
    fleet.kill_hub();
    fleet.start_hub();
    let reported = |metrics: &tombolo_hub::Metrics| {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        let name = "mcs_sync_eps_duration_seconds_count{way=\"collected\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        (count.unwrap_or_default(), text)
    };
    member.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let (before, text) = reported(&fleet.metrics);
    if Server::chosen().is_embedded() {
        assert_eq!(before, 0, "the slice was there before: {text}");
    } else {
        relaxed("not exactly how many slices were reported");
    }
    member.endpoints(&["10.1.0.2"]).await;
    until("its change counts", || async { reported(&fleet.metrics).0 == before + 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn the_load_balancer_addresses_of_members_show_in_their_works() {
    let fleet = Fleet::of(1).await;
    let mut balanced = crate::fleet::template();
    balanced["spec"]["type"] = json!("LoadBalancer");
    crate::fleet::apply::<Service>(&fleet.hub.client(), NAMESPACE, &balanced).await;
    fleet.apply_object(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let services = fleet.members[0].api::<Service>();
    let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    services.patch_status("foo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("the Work shows it", || async {
        let works = fleet.works().await;
        let statuses = works[0].status.clone().unwrap_or_default().manifest_statuses;
        statuses.iter().any(|one| {
            one.status
                .as_ref()
                .is_some_and(|status| status["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.1")
        })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_the_type_load_balancer_consumers_have_one_and_the_object_shows_their_addresses() {
    let fleet = Fleet::of(3).await;
    let [member1, member2, member3] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet
        .share(json!({"types": ["LoadBalancer"], "serviceProvisionClusters": ["member1"],
            "serviceConsumptionClusters": ["member2", "member3"]}))
        .await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    for (member, expected) in [(member1, "ClusterIP"), (member2, "LoadBalancer"), (member3, "LoadBalancer")] {
        assert_eq!(member.service().await.unwrap().spec.unwrap().type_.as_deref(), Some(expected));
    }
    assert_eq!(member2.reached().await, ["10.1.0.1"], "LoadBalancer implies CrossCluster");
    let balance = async |member: &crate::fleet::Member, addresses: serde_json::Value| {
        let patch = json!({"status": {"loadBalancer": {"ingress": addresses}}});
        let services = member.api::<Service>();
        services.patch_status("foo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    };
    let shown = || async {
        let status = fleet.object().await.unwrap().status.unwrap().load_balancer.unwrap_or_default();
        let ingress = status.ingress.unwrap_or_default().into_iter();
        ingress.filter_map(|one| one.ip).collect::<Vec<_>>()
    };
    assert_eq!(shown().await, Vec::<String>::new());
    balance(member3, json!([{"ip": "192.0.2.3"}])).await;
    until("one address", || async { shown().await == ["192.0.2.3"] }).await;
    balance(member2, json!([{"ip": "192.0.2.2"}])).await;
    until("two addresses", || async { shown().await == ["192.0.2.2", "192.0.2.3"] }).await;
    balance(member3, json!([])).await;
    until("one again", || async { shown().await == ["192.0.2.2"] }).await;
    assert!(fleet.all_true().await);
}
