//! The Services that Works put into members: whose they are, and that they stay as they should be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;
use tombolo_testkit::{FaultPlan, linger, until};

use crate::fleet::{Fleet, NAMESPACE, apply, template};

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
