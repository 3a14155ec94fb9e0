//! Beside Karmada: what it has at the same hub and in the same members is its own, and its definitions will do.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tombolo_agent::retire;
use tombolo_api::karmada::networking::PROVISION_LABEL;
use tombolo_api::karmada::work::Work;
use tombolo_testkit::{embedded_only, linger, until};

use crate::fleet::{Fleet, NAMESPACE, apply};

/// The marks of what Karmada has propagated into `member2`.
fn propagated(name: &str) -> serde_json::Value {
    json!({
        "name": name, "labels": {"karmada.io/managed": "true"},
        "annotations": {"work.karmada.io/namespace": "karmada-es-member2",
            "work.karmada.io/name": format!("{name}-6d7f8c9b5")},
    })
}

#[tokio::test(start_paused = true)]
async fn what_karmada_propagated_survives_the_agent_and_the_leave() {
    let mut fleet = Fleet::of(2).await;
    let client = fleet.members[1].cluster.client();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": propagated("bar"),
        "spec": {"ports": [{"port": 80}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": propagated("bar-xyz"), "addressType": "IPv4", "endpoints": []});
    apply::<Service>(&client, NAMESPACE, &service).await;
    apply::<EndpointSlice>(&client, NAMESPACE, &slice).await;
    let theirs = || async {
        let (services, slices) = (fleet.members[1].api::<Service>(), fleet.members[1].api::<EndpointSlice>());
        (services.get_opt("bar").await.unwrap(), slices.get_opt("bar-xyz").await.unwrap())
    };
    let before = theirs().await;
    assert!(before.0.is_some() && before.1.is_some());
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(theirs().await, before, "no Work of ours made them");
    fleet.kill(1);
    retire(&client, &"member2".parse().unwrap(), "tombolo-system").await.unwrap();
    let member2 = &fleet.members[1];
    until("ours are gone", || async {
        member2.service().await.is_none() && member2.imported().await.is_empty()
    })
    .await;
    let services = member2.api::<Service>();
    assert_eq!(services.get_opt("bar").await.unwrap(), before.0);
    assert_eq!(member2.api::<EndpointSlice>().get_opt("bar-xyz").await.unwrap(), before.1);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_takes_nothing_along_that_was_made_for_a_cluster_of_another_name() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.kill(1);
    let member2 = &fleet.members[1];
    retire(&member2.cluster.client(), &"another".parse().unwrap(), "tombolo-system").await.unwrap();
    assert!(member2.service().await.is_some() && !member2.imported().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn works_of_others_are_neither_executed_nor_spoken_of() {
    let fleet = Fleet::of(1).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member1");
    let manifests = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bar", "namespace": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bar", "namespace": NAMESPACE},
            "spec": {"ports": [{"port": 80}]}}),
    ];
    let mut theirs = Vec::new();
    for (number, manifest) in manifests.iter().enumerate() {
        let work = json!({"metadata": {"name": format!("bar-{number}")},
            "spec": {"workload": {"manifests": [manifest]}}});
        let mut work: Work = serde_json::from_value(work).unwrap();
        work.metadata.namespace = Some("karmada-es-member1".to_owned());
        theirs.push(works.create(&PostParams::default(), &work).await.unwrap());
    }
    linger(Duration::from_secs(10)).await;
    for work in theirs {
        assert_eq!(works.get(&work.name_any()).await.unwrap(), work);
    }
    assert_eq!(fleet.members[0].api::<Service>().get_opt("bar").await.unwrap(), None);
}

/// Karmada's definition of a Work says nothing of how conditions are merged, so whoever applies one replaces them all.
async fn with_karmadas_work(fleet: &Fleet) {
    let definitions: Api<CustomResourceDefinition> = Api::all(fleet.hub.client());
    let mut work = definitions.get("works.work.karmada.io").await.unwrap();
    let schema = work.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    let status = schema.properties.as_mut().unwrap().get_mut("status").unwrap();
    let conditions = status.properties.as_mut().unwrap().get_mut("conditions").unwrap();
    assert_eq!(conditions.x_kubernetes_list_type.take().as_deref(), Some("map"));
    conditions.x_kubernetes_list_map_keys = None;
    definitions.replace("works.work.karmada.io", &PostParams::default(), &work).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_karmadas_definition_of_a_work_its_conditions_stand_side_by_side() {
    embedded_only!("the definitions of a real server are lent to the next test");
    let fleet = Fleet::of(2).await;
    with_karmadas_work(&fleet).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let told = || async {
        let works: Api<Work> = Api::namespaced(fleet.hub.client(), "karmada-es-member1");
        let works = works.list(&Default::default()).await.unwrap().items;
        let service = works.into_iter().find(|work| work.labels().contains_key(PROVISION_LABEL));
        let status = service.and_then(|work| Some((work.resource_version()?, work.status?)));
        status.map(|(version, status)| (version, status.conditions.len()))
    };
    until("both are told", || async { told().await.is_some_and(|(_, count)| count == 2) }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    linger(Duration::from_secs(10)).await;
    let before = told().await;
    linger(Duration::from_secs(60)).await;
    assert_eq!(told().await, before, "nobody writes over the other one");
    assert!(fleet.all_true().await);
}
