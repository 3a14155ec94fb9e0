//! The user stories and examples of Karmada's MultiClusterService proposal.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, CustomResourceExt as _, ResourceExt};
use serde_json::{Value, json};
use tombolo_api::karmada::networking::MultiClusterService;
use tombolo_testkit::{embedded_only, linger, until};

use crate::fleet::{Fleet, NAMESPACE, apply, template};

/// Applies manifests as kubectl would.
async fn apply_text(client: &Client, text: &str) {
    for document in text.split("---\n") {
        let value: Value = serde_saphyr::from_str(document).unwrap();
        let (group, version) = value["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = value["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply("kubectl"), &Patch::Apply(&value)).await.unwrap();
    }
}

const FIRST_EXAMPLE: &str = include_str!("../examples/multi-cluster-service-first.yaml");

const SECOND_EXAMPLE: &str = include_str!("../examples/multi-cluster-service-second.yaml");

#[tokio::test(start_paused = true)]
async fn the_first_example_brings_member2_to_member3_and_to_nobody_else() {
    let fleet = Fleet::of(3).await;
    let [member1, member2, member3] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    member2.endpoints(&["10.2.0.1"]).await;
    apply_text(&fleet.hub.client(), FIRST_EXAMPLE).await;
    until("member3 reaches member2", || async { member3.reached().await == ["10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert!(member2.service().await.is_some() && member3.service().await.is_some());
    assert!(member1.service().await.is_none(), "member1 has no part in it");
    assert_eq!(member2.reached().await, ["10.2.0.1"]);
    let slice = member3.filled().await.remove(0);
    let annotations = slice.annotations();
    assert_eq!(annotations["endpointslice.karmada.io/provision-cluster"], "member2");
    assert_eq!(annotations["endpointslice.karmada.io/endpointslice-generation"], "1");
    assert_eq!(slice.endpoints.unwrap()[0].node_name, None);
}

#[tokio::test(start_paused = true)]
async fn in_the_second_example_a_cluster_gets_the_others_slices_but_not_its_own() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    member2.endpoints(&["10.2.0.1"]).await;
    apply_text(&fleet.hub.client(), SECOND_EXAMPLE).await;
    until("both are reached", || async { member2.reached().await == ["10.1.0.1", "10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(member1.reached().await, ["10.1.0.1"]);
    assert_eq!(member2.filled().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn story_1_a_service_of_another_cluster_is_used_by_its_own_name() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    apply::<Service>(&member1.cluster.client(), NAMESPACE, &template()).await;
    member1.endpoints(&["10.1.0.1"]).await;
    let before = member1.service().await.unwrap();
    fleet
        .share(json!({"serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"]}))
        .await;
    until("foo is there", || async { member2.service().await.is_some() }).await;
    until("and reached", || async { member2.reached().await == ["10.1.0.1"] }).await;
    assert_eq!(member1.service().await.unwrap(), before, "the Service that was there is not touched");
}

#[tokio::test(start_paused = true)]
async fn story_2_a_service_that_is_there_is_joined_and_stays_as_it_was() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    let mut own = template();
    own["spec"]["selector"] = json!({"app": "mine"});
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &own).await;
    member1.endpoints(&["10.1.0.1"]).await;
    member2.endpoints(&["10.2.0.1"]).await;
    let before = (member2.service().await.unwrap(), member2.slices().await);
    fleet
        .share(json!({"serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"]}))
        .await;
    until("both are reached", || async { member2.reached().await == ["10.1.0.1", "10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.delete_object().await;
    until("everything is taken back", || async {
        fleet.object().await.is_none()
            && fleet.works().await.is_empty()
            && member2.imported().await.is_empty()
    })
    .await;
    assert_eq!((member2.service().await.unwrap(), member2.slices().await), before, "byte for byte");
    until("the Service in member1 goes", || async { member1.service().await.is_none() }).await;
    assert_eq!(member1.reached().await, ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_is_taken_over_only_when_an_annotation_says_so() {
    let fleet = Fleet::of(2).await;
    let member2 = &fleet.members[1];
    let mut own = template();
    own["spec"]["ports"][0]["targetPort"] = json!(9999);
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &own).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let target = |service: Service| service.spec.unwrap().ports.unwrap()[0].target_port.clone().unwrap();
    assert_eq!(serde_json::to_value(target(member2.service().await.unwrap())).unwrap(), 9999);
    let mut adopting = json!({
        "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "foo", "annotations": {"work.karmada.io/conflict-resolution": "overwrite"}},
        "spec": {"types": ["CrossCluster"]},
    });
    apply::<MultiClusterService>(&fleet.hub.client(), NAMESPACE, &adopting).await;
    until("it is taken over", || async {
        serde_json::to_value(target(member2.service().await.unwrap())).unwrap() == 8080
    })
    .await;
    let is_released = || async {
        let service = member2.service().await.unwrap();
        let is_mark = |key: &String| key.contains("karmada.io/") || key.starts_with("tombolo.dev/");
        !service.labels().keys().chain(service.annotations().keys()).any(is_mark)
    };
    assert!(!is_released().await);
    adopting["metadata"]["annotations"] = json!({});
    apply::<MultiClusterService>(&fleet.hub.client(), NAMESPACE, &adopting).await;
    until("left to its owner", is_released).await;
    apply::<Service>(&member2.cluster.client(), NAMESPACE, &own).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(serde_json::to_value(target(member2.service().await.unwrap())).unwrap(), 9999);
    adopting["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    apply::<MultiClusterService>(&fleet.hub.client(), NAMESPACE, &adopting).await;
    until("taken over once more", || async { !is_released().await }).await;
    fleet.delete_object().await;
    until("left to its owner again", is_released).await;
    assert_eq!(fleet.works().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn where_the_hub_is_a_member_its_template_is_taken_over_once_and_that_is_nobody_elses_matter() {
    let mut fleet = Fleet::of(1).await;
    let hub = fleet.hub.clone();
    fleet.admit_as(hub, "identity-hub".to_owned()).await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &template()).await;
    let overwrite = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    fleet.apply_annotated(overwrite, json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let [member, hub] = &fleet.members[..] else { unreachable!() };
    let is_adopted = |service: &Service| service.annotations().contains_key("tombolo.dev/adopted");
    until("the template is taken over", || async { is_adopted(&hub.service().await.unwrap()) }).await;
    fleet.rest().await;
    let picture = async || (fleet.works().await, member.service().await, hub.service().await);
    let before = picture().await;
    linger(Duration::from_secs(60)).await;
    assert_eq!(picture().await, before, "everything has come to rest");
    assert!(!is_adopted(&member.service().await.unwrap()), "it was made there");
    fleet.delete_object().await;
    until("what was made goes", || async { member.service().await.is_none() }).await;
    until("the template is left alone", || async { !is_adopted(&hub.service().await.unwrap()) }).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_by_hand_is_put_right_and_what_is_deleted_comes_back() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("reached", || async { member2.reached().await == ["10.1.0.1"] }).await;
    let name = member2.imported().await[0].name_any();
    let patch = json!({"endpoints": [{"addresses": ["10.66.0.1"]}]});
    let slices = member2.api::<k8s_openapi::api::discovery::v1::EndpointSlice>();
    slices.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("put right", || async { member2.reached().await == ["10.1.0.1"] }).await;
    slices.delete(&name, &DeleteParams::default()).await.unwrap();
    until("back", || async { member2.reached().await == ["10.1.0.1"] }).await;
    let services = member2.api::<Service>();
    services.delete("foo", &DeleteParams::default()).await.unwrap();
    until("the Service is back", || async { member2.service().await.is_some() }).await;
    let patch = json!({"spec": {"selector": {"tier": "web"}}});
    services.patch("foo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("it selects what it should", || async {
        member2.service().await.unwrap().spec.unwrap().selector == Some([("app".into(), "foo".into())].into())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_their_source_with_few_writes() {
    let fleet = Fleet::of(3).await;
    let [member1, member2, member3] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let before = fleet.works().await;
    let versions = |works: &[tombolo_api::karmada::work::Work]| -> Vec<String> {
        works.iter().filter_map(ResourceExt::resource_version).collect()
    };
    member1.endpoints(&["10.1.0.7", "10.1.0.8"]).await;
    for member in [member2, member3] {
        until("the new endpoints", || async { member.reached().await == ["10.1.0.7", "10.1.0.8"] }).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let after = fleet.works().await;
    let old = versions(&before);
    let moved = after.iter().filter(|work| !old.contains(&work.resource_version().unwrap()));
    let moved: Vec<_> = moved.collect();
    assert_eq!(moved.len(), 3, "the report and one Work for each of two consumers");
    for work in moved {
        assert!(work.metadata.generation <= Some(2), "each was written once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_service_is_no_reason_to_look_at_the_others() {
    let fleet = Fleet::of(3).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    for number in 0..20 {
        let name = format!("other-{number}");
        let mut service = template();
        service["metadata"]["name"] = json!(name);
        apply::<Service>(&fleet.hub.client(), NAMESPACE, &service).await;
        let object = json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": name}, "spec": {"types": ["CrossCluster"]},
        });
        apply::<MultiClusterService>(&fleet.hub.client(), NAMESPACE, &object).await;
    }
    // Where the stock controller is at work there are more, because of its empty slices.
    until("all Works are there", || async { fleet.works().await.len() >= 21 * 3 + 1 + 2 }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.rest().await;
    let before = fleet.metrics.service_reconciles();
    fleet.members[0].endpoints(&["10.1.0.2"]).await;
    let member3 = &fleet.members[2];
    until("the new endpoint", || async { member3.reached().await == ["10.1.0.2"] }).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let looks = fleet.metrics.service_reconciles() - before;
    // The report, and the return of the two Works that follow from it.
    assert!((1..=3).contains(&looks), "{looks} looks");
}

#[tokio::test(start_paused = true)]
async fn the_newer_spellings_name_the_clusters_as_the_older_ones_do() {
    let fleet = Fleet::of(3).await;
    let [member1, member2, member3] = &fleet.members[..] else { unreachable!() };
    member1.endpoints(&["10.1.0.1"]).await;
    member2.endpoints(&["10.2.0.1"]).await;
    let named = |name: &str| json!([{ "name": name }]);
    fleet.share(json!({"providerClusters": named("member2"), "consumerClusters": named("member3")})).await;
    until("member3 reaches member2", || async { member3.reached().await == ["10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert!(member1.service().await.is_none(), "member1 has no part in it");
    fleet
        .apply_object(json!({
            "providerClusters": named("member2"), "consumerClusters": named("member1"),
            "serviceProvisionClusters": ["member2"],
        }))
        .await;
    until("member1 instead", || async {
        member1.reached().await == ["10.1.0.1", "10.2.0.1"] && member3.service().await.is_none()
    })
    .await;
}

/// Takes the rules that refuse some MultiClusterServices from their definition, as a Karmada control plane has it.
async fn refuse_nothing(client: &Client) {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let (api, name) =
        (Api::<CustomResourceDefinition>::all(client.clone()), MultiClusterService::crd().name_any());
    let mut definition = serde_json::to_value(api.get(&name).await.unwrap()).unwrap();
    strip(&mut definition);
    let definition = serde_json::from_value(definition).unwrap();
    api.replace(&name, &PostParams::default(), &definition).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lists_that_disagree_are_refused_and_only_who_dies_is_withdrawn() {
    embedded_only!("the definitions of a real server are for all tests");
    let mut fleet = Fleet::of(3).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.members[1].endpoints(&["10.2.0.1"]).await;
    fleet.share(json!({"serviceProvisionClusters": ["member1", "member2"]})).await;
    let member3 = &fleet.members[2];
    until("shared", || async { member3.reached().await == ["10.1.0.1", "10.2.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let differing = json!({"spec": {
        "serviceProvisionClusters": ["member3"], "providerClusters": [{"name": "member2"}],
        "serviceConsumptionClusters": ["member3"], "consumerClusters": [{"name": "member2"}],
    }});
    let objects: Api<MultiClusterService> = Api::namespaced(fleet.hub.client(), NAMESPACE);
    let params = PatchParams::default();
    let refused = objects.patch("foo", &params, &Patch::Merge(&differing)).await.unwrap_err();
    assert!(refused.to_string().contains("two spellings of one list"), "{refused}");

    refuse_nothing(&fleet.hub.client()).await;
    objects.patch("foo", &params, &Patch::Merge(&differing)).await.unwrap();
    for type_ in ["ServiceApplied", "EndpointSliceCollected", "EndpointSliceApplied"] {
        until("it is refused", || async {
            let (status, reason, message) = fleet.condition(type_).await;
            let lists = "serviceProvisionClusters and spec.providerClusters";
            status == "False" && reason == format!("{type_}Failed") && message.contains(lists)
        })
        .await;
    }
    linger(Duration::from_secs(60)).await;
    assert_eq!(fleet.members[2].reached().await, ["10.1.0.1", "10.2.0.1"], "nothing is taken away");
    // One that neither of the lists names.
    fleet.kill(0);
    let member3 = &fleet.members[2];
    until("who dies is withdrawn", || async { member3.reached().await == ["10.2.0.1"] }).await;
    fleet.start(0);
    fleet.apply_object(json!({"serviceProvisionClusters": ["member1", "member2"]})).await;
    let agreeing =
        json!({"spec": {"providerClusters": [], "consumerClusters": [], "serviceConsumptionClusters": []}});
    objects.patch("foo", &params, &Patch::Merge(&agreeing)).await.unwrap();
    until("all is well again", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn ports_limit_what_consumers_see() {
    let fleet = Fleet::of(2).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    let mut service = template();
    service["spec"]["ports"] = json!([
        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "admin", "port": 81, "targetPort": 8081},
    ]);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "foo-abc", "labels": {"kubernetes.io/service-name": "foo"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.1"]}],
        "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 8081}],
    });
    apply::<EndpointSlice>(&member1.cluster.client(), NAMESPACE, &slice).await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &service).await;
    let mut spec = json!({
        "serviceProvisionClusters": ["member1"], "serviceConsumptionClusters": ["member2"],
        "ports": [{"name": "http", "port": 80}],
    });
    fleet.apply_object(spec.clone()).await;
    until("reached", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let of_service = |service: Service| -> Vec<String> {
        service.spec.unwrap().ports.unwrap().into_iter().filter_map(|port| port.name).collect()
    };
    let of_slice = |slice: EndpointSlice| -> Vec<String> {
        slice.ports.unwrap().into_iter().filter_map(|port| port.name).collect()
    };
    assert_eq!(of_service(member2.service().await.unwrap()), ["http"]);
    assert_eq!(of_slice(member2.filled().await.remove(0)), ["http"]);
    assert_eq!(of_service(member1.service().await.unwrap()), ["http", "admin"], "who provides has all");
    spec["ports"] = json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 82}]);
    fleet.apply_object(spec).await;
    until("a port that the Service does not have is refused", || async {
        let (status, _, message) = fleet.condition("ServiceApplied").await;
        status == "False" && message.contains("metrics")
    })
    .await;
    assert_eq!(of_service(member2.service().await.unwrap()), ["http"], "and nothing is changed");
}
