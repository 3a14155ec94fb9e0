//! Joining, leaving, and coming back as somebody else.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tombolo_agent::{Agent, Config};
use tombolo_api::karmada::cluster::Cluster;
use tombolo_api::karmada::work::Work;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::Membership;
use tombolo_apiserver::User;
use tombolo_hub::PushMember;
use tombolo_testkit::{Faults, Outage, linger, until, within};

use crate::fleet::{EPOCH, Fleet, NAMESPACE, cluster, is_filled};
use crate::watchman::{Seen, Watchman};

/// The status of a cluster's `Ready`.
pub(crate) fn ready(cluster: &Cluster) -> String {
    let conditions = cluster.status.clone().unwrap_or_default().conditions;
    conditions.into_iter().find(|one| one.type_ == "Ready").map(|one| one.status).unwrap_or_default()
}

/// The clusters, each with the status of its `Ready`.
pub(crate) async fn clusters(client: &Client) -> Vec<(String, String)> {
    let all = Api::<Cluster>::all(client.clone()).list(&Default::default()).await.unwrap();
    all.items.iter().map(|one| (one.metadata.name.clone().unwrap(), ready(one))).collect()
}

async fn has_namespace(client: &Client, name: &str) -> bool {
    Api::<Namespace>::all(client.clone()).get_opt(name).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_statement_was_lost_states_it_again() {
    let fleet = Fleet::of(1).await;
    let statements: Api<Membership> = Api::namespaced(fleet.hub.client(), "tombolo-member1");
    let stated = async || statements.list(&Default::default()).await.unwrap().items.pop();
    until("it is stated", async || stated().await.is_some()).await;
    let lost = stated().await.unwrap().metadata;
    statements.delete(&lost.name.unwrap(), &Default::default()).await.unwrap();
    until("it is stated again", async || stated().await.is_some_and(|now| now.metadata.uid != lost.uid))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_rights_in_its_execution_namespace_were_lost_gets_them_again() {
    let fleet = Fleet::of(1).await;
    let bindings: Api<RoleBinding> = Api::namespaced(fleet.hub.client(), "karmada-es-member1");
    let binding = async || bindings.get_opt("tombolo-member-works").await.unwrap();
    until("it may work there", async || binding().await.is_some()).await;
    bindings.delete("tombolo-member-works", &DeleteParams::default()).await.unwrap();
    within(Duration::from_secs(90), "it may again", async || binding().await.is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_later_gets_what_is_for_all() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let member2 = &fleet.members[1];
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    let place = fleet.join().await;
    let late = &fleet.members[place];
    until("it has it, too", || async { late.reached().await == ["10.1.0.1"] }).await;
    late.endpoints(&["10.3.0.1"]).await;
    let member2 = &fleet.members[1];
    until("and gives", || async { member2.reached().await == ["10.1.0.1", "10.3.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let hub = fleet.hub.client();
    assert!(has_namespace(&hub, "karmada-es-member3").await);
    let all = clusters(&hub).await;
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|(_, ready)| ready == "True"), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_forced_leave_of_a_dead_cluster_finishes_by_itself_and_disturbs_nobody() {
    let mut fleet = Fleet::of(3).await;
    for (place, address) in ["10.1.0.1", "10.2.0.1"].into_iter().enumerate() {
        fleet.members[place].endpoints(&[address]).await;
    }
    fleet.share(json!({})).await;
    let member3 = &fleet.members[2];
    until("shared", || async { member3.reached().await.len() == 2 }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    let hub = fleet.hub.client();
    let of_clusters = Watchman::<Cluster>::post(Api::all(hub.clone())).await;
    let mut inside = Vec::new();
    for member in &fleet.members[1..] {
        inside.push((
            Watchman::post(member.api::<EndpointSlice>()).await,
            Watchman::post(member.api::<Service>()).await,
        ));
    }
    fleet.kill(0);
    linger(Duration::from_secs(60)).await;
    Api::<Cluster>::all(hub.clone()).delete("member1", &DeleteParams::default()).await.unwrap();
    until("it has left", || async {
        clusters(&hub).await.len() == 2 && !has_namespace(&hub, "karmada-es-member1").await
    })
    .await;
    let statements: Api<Membership> = Api::namespaced(hub.clone(), "tombolo-member1");
    assert!(statements.get_opt("member").await.unwrap().is_none(), "its name is free");
    until("the conditions are true without it", || async { fleet.all_true().await }).await;
    assert_eq!(fleet.members[2].reached().await, ["10.2.0.1"]);
    for seen in of_clusters.dismiss() {
        let cluster = seen.object();
        assert!(ready(cluster) == "True" || cluster.name_any() == "member1", "{cluster:?}");
    }
    let source = |slice: &EndpointSlice| slice.labels().get(SOURCE_CLUSTER_LABEL).cloned();
    for (of_slices, of_services) in inside {
        let others = |seen: &Seen<EndpointSlice>| source(seen.object()).is_some_and(|from| from != "member1");
        let disturbed: Vec<_> = of_slices.dismiss().into_iter().filter(others).collect();
        assert!(disturbed.is_empty(), "{disturbed:?}");
        let disturbed = of_services.dismiss();
        assert!(disturbed.is_empty(), "{disturbed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_alive_is_cleaned_up() {
    let fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let [member1, member2] = &fleet.members[..] else { unreachable!() };
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    let hub = fleet.hub.client();
    Api::<Cluster>::all(hub.clone()).delete("member2", &DeleteParams::default()).await.unwrap();
    until("nothing is left in it", || async {
        member2.slices().await.is_empty() && member2.service().await.is_none()
    })
    .await;
    until("nor at the hub", || async { !has_namespace(&hub, "karmada-es-member2").await }).await;
    assert!(member1.service().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_returns_with_another_identity_is_a_new_cluster() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let member2 = &fleet.members[1];
    until("shared", || async { member2.reached().await == ["10.1.0.1"] }).await;
    let hub = fleet.hub.client();
    let api: Api<Cluster> = Api::all(hub.clone());
    let before = api.get("member1").await.unwrap();
    fleet.kill(0);
    let statements: Api<Membership> = Api::namespaced(hub.clone(), "tombolo-member1");
    statements.delete("member", &DeleteParams::default()).await.unwrap();
    fleet.restart(0, |config| config.identity = "somebody-else".to_owned());
    until("there is a new Cluster", || async {
        let now = api.get_opt("member1").await.unwrap();
        now.is_some_and(|now| {
            now.metadata.uid != before.metadata.uid && now.spec.id.as_deref() == Some("somebody-else")
        })
    })
    .await;
    let member2 = &fleet.members[1];
    until("and it takes part", || async { member2.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

#[tokio::test(start_paused = true)]
async fn the_old_owner_of_a_name_stops_when_the_name_has_a_new_one() {
    let mut fleet = Fleet::of(1).await;
    let hub = fleet.hub.client();
    let api: Api<Cluster> = Api::all(hub.clone());
    until("it has joined", || async { clusters(&hub).await == [("member1".to_owned(), "True".to_owned())] })
        .await;
    fleet.members[0].link.outage(Outage::Refused);
    api.delete("member1", &DeleteParams::default()).await.unwrap();
    until("it has left", || async { clusters(&hub).await.is_empty() }).await;
    let successor = cluster("successor", 55);
    let config = Config {
        clock: successor.clock(EPOCH),
        ..Config::new("member1".parse().unwrap(), "somebody-else".to_owned())
    };
    let agent = Agent::new(config, successor.client(), hub.clone());
    let running = tokio::spawn(agent.run(std::future::pending()));
    until("the name has a new owner", || async {
        let now = api.get_opt("member1").await.unwrap();
        now.is_some_and(|now| now.spec.id.as_deref() == Some("somebody-else") && ready(&now) == "True")
    })
    .await;
    let of_clusters = Watchman::<Cluster>::post(api.clone()).await;
    let of_beats = Watchman::<Lease>::post(Api::namespaced(hub.clone(), "tombolo-member1")).await;
    fleet.members[0].link.heal();
    let old = &fleet.members[0];
    until("the old owner stops", || async { old.has_stopped() }).await;
    // Long enough for several heartbeats, on any server.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    let beats = of_beats.dismiss();
    assert!(beats.iter().all(|beat| holder(beat.object()).as_deref() == Some("somebody-else")), "{beats:?}");
    assert!(beats.len() > 3, "{beats:?}");
    let seen = of_clusters.dismiss();
    assert!(seen.iter().all(|seen| ready(seen.object()) == "True"), "{seen:?}");
    running.abort();
    // Nothing of it is left to be ended.
    fleet.kill(0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_somebody_else_is_neither_judged_nor_sent_to_nor_cleaned_up() {
    let fleet = Fleet::of(2).await;
    let hub = fleet.hub.client();
    let api: Api<Cluster> = Api::all(hub.clone());
    let namespace = serde_json::from_value(json!({
        "metadata": {"name": "karmada-es-foreign", "labels": {"karmada.io/system": "true"}},
    }))
    .unwrap();
    Api::<Namespace>::all(hub.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let foreign = serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "foreign", "finalizers": ["karmada.io/cluster-controller"]},
        "spec": {"syncMode": "Push", "id": "f"},
    }))
    .unwrap();
    api.create(&PostParams::default(), &foreign).await.unwrap();
    let ready = json!({"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
        "lastTransitionTime": EPOCH});
    let status = json!({"status": {"conditions": [ready]}});
    let foreign = api.patch_status("foreign", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true without it", || async { fleet.all_true().await }).await;
    linger(Duration::from_secs(90)).await;
    assert_eq!(api.get("foreign").await.unwrap(), foreign);
    let works = fleet.works().await;
    assert!(works.iter().all(|work| work.metadata.namespace.as_deref() != Some("karmada-es-foreign")));
    api.delete("foreign", &DeleteParams::default()).await.unwrap();
    linger(Duration::from_secs(30)).await;
    assert!(has_namespace(&hub, "karmada-es-foreign").await);
    let left = api.get("foreign").await.unwrap().metadata.finalizers.unwrap();
    assert_eq!(left, ["karmada.io/cluster-controller"], "whose it is has to do it");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_from_before_there_was_a_mark_of_our_own_gets_it_and_misses_nothing() {
    let mut fleet = Fleet::of(2).await;
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
    fleet.kill_hub();
    let api: Api<Cluster> = Api::all(fleet.hub.client());
    let before = json!({"metadata": {
        "labels": {"tombolo.dev/member": null}, "finalizers": ["karmada.io/cluster-controller"],
    }});
    for name in ["member1", "member2"] {
        api.patch(name, &PatchParams::default(), &Patch::Merge(&before)).await.unwrap();
    }
    let works = Watchman::<Work>::post(Api::all(fleet.hub.client())).await;
    fleet.start_hub();
    until("both are marked", || async {
        let all = api.list(&Default::default()).await.unwrap().items;
        all.iter().all(|one| {
            one.finalizers() == ["tombolo.dev/cluster"] && one.labels().contains_key("tombolo.dev/member")
        })
    })
    .await;
    linger(Duration::from_secs(30)).await;
    let seen = works.dismiss();
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Gone(_))), "{seen:?}");
    api.delete("member2", &DeleteParams::default()).await.unwrap();
    fleet.kill(1);
    until("it leaves", || async { api.get_opt("member2").await.unwrap().is_none() }).await;
}

fn pushed_member(name: &str, client: Client) -> PushMember {
    PushMember { cluster: name.parse().unwrap(), client, create_namespaces: false }
}

#[tokio::test(start_paused = true)]
async fn a_member_may_be_given_an_agent_and_lose_it_again() {
    let mut fleet = Fleet::of(1).await;
    let changing = cluster("member2", 77);
    let identity = Api::<Namespace>::all(changing.client()).get("kube-system").await.unwrap().uid().unwrap();
    let hub = fleet.hub.client();
    let api: Api<Cluster> = Api::all(hub.clone());
    let is = async |mode: &str| {
        let now = api.get_opt("member2").await.unwrap();
        now.is_some_and(|now| now.spec.sync_mode.as_str() == mode && ready(&now) == "True")
    };
    fleet.kill_hub();
    fleet.push.push(pushed_member("member2", changing.client()));
    fleet.start_hub();
    until("it is reached into", async || is("Push").await).await;
    fleet.share(json!({})).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;

    fleet.kill_hub();
    let pushed = fleet.push.pop().unwrap();
    let place = fleet.admit_as(changing, identity).await;
    fleet.start_hub();
    until("its agent comes", async || is("Pull").await).await;
    let bindings: Api<RoleBinding> = Api::namespaced(hub.clone(), "karmada-es-member2");
    until("and is let in", || async { bindings.get_opt("tombolo-member-works").await.unwrap().is_some() })
        .await;
    fleet.members[place].endpoints(&["10.2.0.1"]).await;
    let member1 = &fleet.members[0];
    until("it gives", || async { member1.reached().await == ["10.2.0.1"] }).await;

    fleet.kill(place);
    fleet.kill_hub();
    fleet.push.push(pushed);
    fleet.start_hub();
    until("it is reached into again", async || is("Push").await).await;
    linger(Duration::from_secs(60)).await;
    assert!(is("Push").await, "and stays ready");
    fleet.members[place].endpoints(&["10.2.0.2"]).await;
    let member1 = &fleet.members[0];
    until("it gives as before", || async { member1.reached().await == ["10.2.0.2"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

/// Makes a slice in a member without an agent, and waits until the first of the others has it.
async fn give(fleet: &Fleet, slices: &Api<EndpointSlice>) {
    let own = serde_json::from_value(json!({
        "metadata": {"name": "foo-xyz", "labels": {"kubernetes.io/service-name": "foo"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.0.1"]}], "ports": [{"port": 8080}],
    }))
    .unwrap();
    slices.create(&PostParams::default(), &own).await.unwrap();
    let member1 = &fleet.members[0];
    until("it gives", || async { member1.reached().await == ["10.1.0.1", "10.9.0.1"] }).await;
    until("the conditions are true", || async { fleet.all_true().await }).await;
}

/// A member with an agent that gets from and gives to one without, which is behind the faults.
async fn with_a_pushed_member(link: &Faults) -> (Fleet, Api<EndpointSlice>) {
    let mut fleet = Fleet::of(1).await;
    let pushed = cluster("pushed", 77);
    fleet.kill_hub();
    fleet.push.push(pushed_member("pushed", link.client(&pushed, User::admin())));
    fleet.start_hub();
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let slices: Api<EndpointSlice> = Api::namespaced(pushed.client(), NAMESPACE);
    give(&fleet, &slices).await;
    (fleet, slices)
}

#[tokio::test(start_paused = true)]
async fn a_member_without_an_agent_that_falls_silent_is_withdrawn_and_returns_at_once() {
    let link = Faults::seeded(3);
    let (fleet, _) = with_a_pushed_member(&link).await;
    let member1 = &fleet.members[0];
    for outage in [Outage::Silent, Outage::Refused] {
        link.outage(outage);
        linger(Duration::from_secs(20)).await;
        assert_eq!(member1.reached().await.len(), 2, "not before its lease is over");
        within(Duration::from_secs(20), "it is withdrawn", || async {
            member1.reached().await == ["10.1.0.1"]
        })
        .await;
        let all = clusters(&fleet.hub.client()).await;
        assert!(all.contains(&("pushed".to_owned(), "False".to_owned())), "{all:?}");
        assert!(all.contains(&("member1".to_owned(), "True".to_owned())), "{all:?}");
        link.heal();
        within(Duration::from_secs(10), "it is back", || async { member1.reached().await.len() == 2 }).await;
        until("the conditions are true", || async { fleet.all_true().await }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_without_an_agent_leaves_when_it_is_not_named_any_more_and_joins_again_while_it_is() {
    let link = Faults::seeded(3);
    let (mut fleet, slices) = with_a_pushed_member(&link).await;
    let hub = fleet.hub.client();
    let api: Api<Cluster> = Api::all(hub.clone());
    let before = api.get("pushed").await.unwrap().uid();
    api.delete("pushed", &DeleteParams::default()).await.unwrap();
    until("it joins again", || async {
        let now = api.get_opt("pushed").await.unwrap();
        now.is_some_and(|now| now.uid() != before && ready(&now) == "True")
    })
    .await;
    let member1 = &fleet.members[0];
    until("and gives", || async { member1.reached().await == ["10.1.0.1", "10.9.0.1"] }).await;
    let imported = || async {
        let all = slices.list(&Default::default()).await.unwrap().items;
        // The stock controller's own slice of member1, which is empty, comes along.
        all.iter().filter(|slice| slice.name_any().starts_with("import-") && is_filled(slice)).count()
    };
    until("and gets", || async { imported().await == 1 }).await;
    fleet.push.clear();
    fleet.kill_hub();
    fleet.start_hub();
    api.delete("pushed", &DeleteParams::default()).await.unwrap();
    until("it leaves", || async {
        clusters(&hub).await.len() == 1 && !has_namespace(&hub, "karmada-es-pushed").await
    })
    .await;
    let member1 = &fleet.members[0];
    until("and is withdrawn", || async { member1.reached().await == ["10.1.0.1"] }).await;
    until("the conditions are true without it", || async { fleet.all_true().await }).await;
    linger(Duration::from_secs(60)).await;
    assert_eq!(clusters(&hub).await.len(), 1, "it stays away");
}

#[tokio::test(start_paused = true)]
async fn the_hub_reaches_into_members_that_have_no_agent() {
    let mut fleet = Fleet::of(1).await;
    let pushed = cluster("pushed", 77);
    fleet.push.push(PushMember {
        cluster: "pushed".parse().unwrap(),
        client: pushed.client(),
        create_namespaces: false,
    });
    fleet.kill_hub();
    fleet.start_hub();
    fleet.members[0].endpoints(&["10.1.0.1"]).await;
    fleet.share(json!({})).await;
    let slices: Api<k8s_openapi::api::discovery::v1::EndpointSlice> =
        Api::namespaced(pushed.client(), NAMESPACE);
    until("it gets", || async {
        let all = slices.list(&Default::default()).await.unwrap().items;
        all.iter().any(|slice| slice.metadata.name.as_deref().unwrap().starts_with("import-foo-member1"))
    })
    .await;
    give(&fleet, &slices).await;
    let all = clusters(&fleet.hub.client()).await;
    assert!(all.contains(&("pushed".to_owned(), "True".to_owned())), "{all:?}");
}
