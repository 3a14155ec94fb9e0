//! The Services that Works put into members: whose they are, and that they stay as they should be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use tokio::task::JoinHandle;
use tombolo_api::mcs::ServiceImport;
use tombolo_runtime::{Cache, Change, follow};
use tombolo_testkit::{FaultPlan, linger, until};

use crate::fleet::{Fleet, Member, NAMESPACE, apply, template};

type Selector = BTreeMap<String, String>;

/// How long everything takes that the agent asks of its own API server.
const SLOW: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_service_that_a_user_makes_while_the_agent_makes_one_stays_the_users() {
    let fleet = Fleet::of(1).await;
    let member = &fleet.members[0];
    until("the cluster has joined", || async {
        crate::clusters::clusters(&fleet.hub.client()).await.iter().any(|(_, ready)| ready == "True")
    })
    .await;
    member.own_link.plan(FaultPlan { latency: SLOW..SLOW + Duration::from_millis(1), ..Default::default() });
    fleet.share(json!({})).await;
    until("the Work is there", || async { !fleet.works().await.is_empty() }).await;
    // The agent has asked and found nothing, and what it writes then is still on its way.
    linger(SLOW + SLOW / 2).await;
    let mut own = template();
    own["spec"]["selector"] = json!({"app": "mine"});
    let own = serde_json::from_value(own).unwrap();
    let own = member.api::<Service>().create(&PostParams::default(), &own).await.unwrap();
    until("the conditions are true", || async { fleet.all_true().await }).await;
    assert_eq!(member.service().await.unwrap(), own);
}

#[tokio::test(start_paused = true)]
async fn what_the_template_loses_goes_from_the_members_too() {
    let fleet = Fleet::of(1).await;
    let member = &fleet.members[0];
    let mut labelled = template();
    labelled["metadata"]["labels"] = json!({"team": "a"});
    labelled["spec"]["sessionAffinity"] = json!("ClientIP");
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &labelled).await;
    fleet.apply_object(json!({})).await;
    until("it is there", || async {
        member.service().await.is_some_and(|service| service.labels().contains_key("team"))
    })
    .await;
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &template()).await;
    until("it is as the template is now", || async {
        let service = member.service().await.unwrap();
        !service.labels().contains_key("team")
            && service.spec.unwrap().session_affinity.as_deref() == Some("None")
    })
    .await;
}

/// Every selector that `foo` has in a member from now on.
fn selectors(member: &Member) -> (Arc<Mutex<Vec<Selector>>>, JoinHandle<()>) {
    let (seen, services) = (Arc::new(Mutex::new(Vec::new())), Cache::<Service>::new());
    let note = seen.clone();
    services.listen_to_changes(move |change| {
        if let Change::Put { new, .. } = change
            && new.name_any() == "foo"
        {
            note.lock().unwrap().push(new.spec.clone().unwrap().selector.unwrap_or_default());
        }
    });
    let task = tokio::spawn(follow(services, member.api(), watcher::Config::default()));
    (seen, task)
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_remote_only_put_aside_stays_there_when_the_template_changes() {
    let fleet = Fleet::of(1).await;
    let member = &fleet.members[0];
    fleet.share(json!({})).await;
    until("shared", || async { member.service().await.is_some() }).await;
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": {"name": "foo", "annotations": {"discovery.karmada.io/strategy": "RemoteOnly"}},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]},
    });
    apply::<ServiceImport>(&member.cluster.client(), NAMESPACE, &import).await;
    let is_aside = |selector: &Selector| selector.contains_key("tombolo.dev/selector-set-aside");
    until("put aside", || async {
        is_aside(&member.service().await.unwrap().spec.unwrap().selector.unwrap())
    })
    .await;
    let (seen, watching) = selectors(member);
    until("somebody watches", || async { !seen.lock().unwrap().is_empty() }).await;
    let mut changed = template();
    changed["spec"]["selector"] = json!({"app": "other"});
    apply::<Service>(&fleet.hub.client(), NAMESPACE, &changed).await;
    until("the change arrives", || async {
        seen.lock().unwrap().last().is_some_and(|last| last["app"] == "other")
    })
    .await;
    linger(Duration::from_secs(10)).await;
    watching.abort();
    for selector in seen.lock().unwrap().iter() {
        assert!(is_aside(selector), "a local endpoint may have been reached: {selector:?}");
    }
    member.api::<ServiceImport>().delete("foo", &DeleteParams::default()).await.unwrap();
    until("what was written comes back", || async {
        member.service().await.unwrap().spec.unwrap().selector
            == Some([("app".into(), "other".into())].into())
    })
    .await;
}
