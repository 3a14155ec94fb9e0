//! Sources that die, hubs that are out of reach.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::tombolo::{HEARTBEAT, MANAGED_BY_LABEL, Membership, MembershipSpec, STATEMENT};
use tombolo_testkit::{FaultPlan, Outage, embedded_only, linger, linger_at_least, until, within};

use crate::fleet::{Fleet, make_namespace};

async fn shared_service() -> Fleet {
    let fleet = Fleet::of(3).await;
    for (member, address) in fleet.members[..2].iter().zip(["10.1.0.1", "10.2.0.1"]) {
        member.serve(80, &[address]).await;
        member.export_kep().await;
    }
    let c = &fleet.members[2];
    until("imported", || async { c.imported(None).await.len() == 2 }).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn the_endpoints_of_a_dead_source_go_after_its_lease_and_return_with_it() {
    let mut fleet = shared_service().await;
    fleet.kill(0);
    linger(Duration::from_secs(20)).await;
    assert_eq!(fleet.members[2].imported(Some("a")).await, ["10.1.0.1"], "not before the lease is over");
    let c = &fleet.members[2];
    until("a's endpoints are removed", || async { c.imported(Some("a")).await.is_empty() }).await;
    assert_eq!(c.imported(Some("b")).await, ["10.2.0.1"], "b is not affected");
    assert!(c.kep_import().await.is_some());
    fleet.start(0);
    let c = &fleet.members[2];
    let heartbeat = Duration::from_secs(5);
    within(heartbeat, "a is back", || async { c.imported(Some("a")).await == ["10.1.0.1"] }).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_cluster_that_left_no_lease_stays_and_it_may_come_back() {
    let mut fleet = shared_service().await;
    let statement: Api<Membership> = Api::namespaced(fleet.hub.client(), "tombolo-a");
    fleet.kill(0);
    let [b, c] = &fleet.members[1..] else { unreachable!() };
    until("it is dead", || async { c.imported(Some("a")).await.is_empty() }).await;
    linger(Duration::from_secs(60)).await;
    assert!(c.has_lease_of("a").await, "as long as it is a member, its lease says that it is dead");
    statement.delete(STATEMENT, &Default::default()).await.unwrap();
    for member in [b, c] {
        until("its lease goes", || async { !member.has_lease_of("a").await }).await;
        assert!(member.has_lease_of("b").await && member.has_lease_of("c").await);
    }
    fleet.start(0);
    let c = &fleet.members[2];
    until("it is back", || async { c.imported(Some("a")).await == ["10.1.0.1"] }).await;
    until("with a lease", || async { c.has_lease_of("a").await }).await;

    // One that lived until it left was never said to be dead.
    fleet.kill(0);
    let c = &fleet.members[2];
    statement.delete(STATEMENT, &Default::default()).await.unwrap();
    within(Duration::from_secs(10), "nothing of it is left", || async {
        c.imported(Some("a")).await.is_empty() && !c.has_lease_of("a").await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_cut_off_dies_for_others_but_keeps_serving_itself() {
    let fleet = shared_service().await;
    let [a, b, c] = &fleet.members[..] else { unreachable!() };
    a.hub_link.outage(Outage::Silent);
    for member in [b, c] {
        until("a's endpoints are removed", || async { member.imported(Some("a")).await.is_empty() }).await;
    }
    linger(Duration::from_secs(300)).await;
    assert_eq!(a.imported(None).await, ["10.1.0.1", "10.2.0.1"], "a holds what it has");
    a.hub_link.heal();
    for member in [b, c] {
        until("a is back", || async { member.imported(Some("a")).await == ["10.1.0.1"] }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn losing_the_hub_stops_no_traffic_until_the_hold_is_over() {
    let fleet = shared_service().await;
    for member in &fleet.members {
        member.hub_link.outage(Outage::Refused);
    }
    // Longer than any lease, or nobody would have a reason to let go.
    linger_at_least(Duration::from_secs(600), Duration::from_secs(45)).await;
    for member in &fleet.members {
        assert_eq!(member.imported(None).await, ["10.1.0.1", "10.2.0.1"], "in {}", member.name);
    }
    for member in &fleet.members {
        member.hub_link.heal();
    }
    linger(Duration::from_secs(60)).await;
    for member in &fleet.members {
        assert_eq!(member.imported(None).await, ["10.1.0.1", "10.2.0.1"], "after it, in {}", member.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_or_lost_its_labels_is_whole_again_and_costs_nobody_anything() {
    let fleet = shared_service().await;
    let c = &fleet.members[2];
    let leases: Api<Lease> = Api::namespaced(c.cluster.client(), "tombolo-system");
    let (lease, labels) = ("tombolo-source.a", [SOURCE_CLUSTER_LABEL, MANAGED_BY_LABEL]);
    let is_whole = || async {
        let held = leases.get_opt(lease).await.unwrap();
        held.is_some_and(|held| labels.iter().all(|label| held.labels().contains_key(*label)))
    };
    until("there is one", is_whole).await;
    for label in labels {
        let patch = json!({"metadata": {"labels": {label: null}}});
        leases.patch(lease, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        until("it has its labels again", is_whole).await;
    }
    leases.delete(lease, &Default::default()).await.unwrap();
    until("it is there again", is_whole).await;
    linger(Duration::from_secs(60)).await;
    assert_eq!(c.imported(Some("a")).await, ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn when_nothing_changes_only_heartbeats_are_written() {
    let fleet = shared_service().await;
    linger(Duration::from_secs(60)).await;
    let picture = |fleet: &Fleet| {
        let clients: Vec<_> = fleet.members.iter().map(|member| member.cluster.client()).collect();
        async move {
            let mut all = Vec::new();
            for client in clients {
                for path in [
                    "/api/v1/services",
                    "/apis/discovery.k8s.io/v1/endpointslices",
                    "/apis/multicluster.k8s.io/v1alpha1/importedservices",
                    "/apis/multicluster.k8s.io/v1alpha1/serviceexports",
                ] {
                    let request = http::Request::get(path).body(Vec::new()).unwrap();
                    let list: serde_json::Value = client.request(request).await.unwrap();
                    all.push(list["items"].clone());
                }
            }
            all
        }
    };
    let before = picture(&fleet).await;
    linger(Duration::from_secs(600)).await;
    assert_eq!(picture(&fleet).await, before);
}

/// Members without an agent: somebody states them at the hub, and writes their heartbeats.
async fn others(fleet: &Fleet, count: usize) -> JoinHandle<()> {
    let hub = fleet.hub.client();
    for place in 0..count {
        let namespace = format!("tombolo-other{place}");
        make_namespace(&hub, &namespace).await;
        let spec = MembershipSpec {
            cluster: format!("other{place}"),
            identity: format!("identity-{place}"),
            pod_cidrs: Vec::new(),
            region: None,
        };
        let statements: Api<Membership> = Api::namespaced(hub.clone(), &namespace);
        statements.create(&PostParams::default(), &Membership::new(STATEMENT, spec)).await.unwrap();
    }
    let clock = fleet.members[0].clock().clone();
    tokio::spawn(async move {
        loop {
            for place in 0..count {
                let beats: Api<Lease> = Api::namespaced(hub.clone(), &format!("tombolo-other{place}"));
                let beat = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": HEARTBEAT},
                    "spec": {"holderIdentity": format!("identity-{place}"), "renewTime": MicroTime(clock.now())},
                });
                beats.patch(HEARTBEAT, &PatchParams::apply("test"), &Patch::Apply(beat)).await.unwrap();
            }
            sleep(Duration::from_secs(5)).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn of_many_sources_none_is_let_go_because_the_own_api_server_is_slow() {
    embedded_only!("only there nothing else takes time");
    let fleet = Fleet::of(1).await;
    let a = &fleet.members[0];
    let alive = others(&fleet, 40).await;
    let slowness = Duration::from_millis(2000)..Duration::from_millis(2001);
    let leases: Api<Lease> = Api::namespaced(a.cluster.client(), "tombolo-system");
    let all =
        || async { leases.list(&ListParams::default().labels(SOURCE_CLUSTER_LABEL)).await.unwrap().items };
    until("all have leases", || async { all().await.len() == 41 }).await;
    a.own_link.plan(FaultPlan { latency: slowness, ..FaultPlan::default() });
    for second in 0..180 {
        sleep(Duration::from_secs(1)).await;
        for lease in all().await {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            assert_eq!(holder.as_deref(), Some("a"), "{} after {second} s", lease.name_any());
        }
    }
    alive.abort();
}
