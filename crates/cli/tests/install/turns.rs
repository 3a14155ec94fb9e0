//! Joins at the same time: one after the other looks at the members, so that each sees those before it.

use std::io::{BufRead as _, BufReader};
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use tombolo_apiserver::Options;
use tombolo_install::{Turn, TurnError};
use tombolo_model::ClusterId;
use tombolo_testkit::Cluster;

use crate::world::{World, finish};

/// A hub, and two clusters that could join it.
fn prepared() -> World {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
    }
    world
}

/// Says at the hub that it is the turn of somebody of whom nothing more will be heard.
fn give_turn(world: &World, holder: &str, seconds: u32) {
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "tombolo-join", "namespace": "default"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
    });
    world.at("hub").feed("apply -f -", &lease.to_string()).succeeds();
}

#[track_caller]
fn is_nobodys_turn(world: &World) {
    world.at("hub").run("get lease -n default tombolo-join").fails(1, &["NotFound"]);
}

#[test]
fn of_two_clusters_that_join_at_the_same_time_and_do_not_go_together_one_is_admitted() {
    let world = prepared();
    let same_name = ["--name twin --pod-cidr 10.1.0.0/16", "--name twin --pod-cidr 10.2.0.0/16"];
    let same_addresses = ["--name east --pod-cidr 10.1.0.0/16", "--name west --pod-cidr 10.1.128.0/17"];
    let rounds = [(same_name, "another cluster is twin at this hub"), (same_addresses, " overlaps ")];
    for (round, (who, why)) in rounds.iter().cycle().take(6).enumerate() {
        let clusters = ["east", "west"].into_iter().zip(who);
        let joins = clusters.clone().map(|(context, who)| {
            world.start_tombolo(&format!("join {who} --context {context} --hub-context hub"))
        });
        let said: Vec<_> = joins.collect::<Vec<_>>().into_iter().map(finish).collect();
        let admitted: Vec<_> = clusters
            .zip(&said)
            .filter(|(_, said)| said.code == Some(0))
            .map(|(cluster, _)| cluster)
            .collect();
        let [(context, who)] = admitted[..] else { panic!("round {round}: {said:?}") };
        let refused = said.iter().find(|said| said.code != Some(0)).unwrap();
        assert!(refused.err.contains(why), "round {round}: {refused:?}");
        let places =
            world.at("hub").run("get namespaces -l tombolo.dev/member -o name").succeeds().to_owned();
        assert_eq!(places.lines().count(), 1, "round {round}: {places}");
        is_nobodys_turn(&world);

        let name = who.split_whitespace().nth(1).unwrap();
        world.tombolo(&format!("leave --name {name} --context {context} --hub-context hub")).succeeds();
    }
}

#[test]
fn a_join_looks_at_the_members_when_its_turn_has_come() {
    let world = prepared();
    give_turn(&world, "west", 3600);
    let east = "join --name east --context east --hub-context hub --pod-cidr 10.1.0.0/16";
    let mut joining = world.start_tombolo(east);
    let mut lines = BufReader::new(joining.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.starts_with("# west is joining at this hub: waiting for it"), "{line}");

    // What the other one does in its turn.
    let west = "join --name west --hub-context hub --pod-cidr 10.1.128.0/17 --dry-run --side hub";
    let place = world.tombolo(west).succeeds();
    world.at("hub").feed("apply --server-side -f -", &place).succeeds();
    world.at("hub").run("delete lease -n default tombolo-join").succeeds();
    finish(joining).fails("10.1.0.0/16 overlaps 10.1.128.0/17 of west");
    is_nobodys_turn(&world);
}

#[test]
fn a_join_that_died_holds_up_no_other_for_long() {
    let world = prepared();
    give_turn(&world, "west", 1);
    let said = world.tombolo("join --name east --context east --hub-context hub").succeeds();
    assert!(said.contains("# west is joining at this hub: waiting for it, 1 s if it is dead\n"), "{said}");
    assert!(said.ends_with("east is a member\n"), "{said}");
    is_nobodys_turn(&world);
}

#[test]
fn what_a_join_left_that_died_goes_when_its_cluster_leaves() {
    let world = prepared();
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
    give_turn(&world, "west", 3600);
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    world.at("hub").run("get lease -n default tombolo-join").succeeds();
    world.tombolo("leave --name west --context west --hub-context hub").succeeds();
    is_nobodys_turn(&world);
}

fn name(text: &str) -> ClusterId {
    text.parse().unwrap()
}

#[tokio::test]
async fn turns_are_one_after_the_other() {
    let hub = Cluster::new(Options::named("hub"));
    let at_work = AtomicUsize::new(0);
    let join = async |place: usize| {
        let mut turn = Turn::take(&hub.client(), &name(&format!("c{place}")), |_, _| {}).await.unwrap();
        let work = async {
            assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "another one is at work");
            tokio::task::yield_now().await;
            at_work.fetch_sub(1, Ordering::SeqCst);
        };
        turn.write(work).await.unwrap();
        turn.end().await.unwrap();
    };
    tokio::join!(join(1), join(2), join(3), join(4), join(5));
}

#[tokio::test]
async fn whoever_is_held_up_for_too_long_writes_nothing_and_ends_nobody_elses_turn() {
    let hub = Cluster::new(Options::named("hub"));
    let client = hub.client();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let take = async |who: &str| Turn::take(&client, &name(who), |_, _| {}).await.unwrap();

    let mut east = take("east").await;
    leases.delete("tombolo-join", &DeleteParams::default()).await.unwrap();
    let late = east.write(async { panic!("it is not its turn") }).await;
    assert!(matches!(late, Err(TurnError::Lost)), "nobody's: {late:?}");
    let mut west = take("west").await;
    let late = east.write(async { panic!("it is not its turn") }).await;
    assert!(matches!(late, Err(TurnError::Lost)), "another's: {late:?}");
    east.end().await.unwrap();

    let holder = leases.get("tombolo-join").await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(holder.as_deref(), Some("west"));
    west.write(async {}).await.unwrap();
    west.end().await.unwrap();
    assert!(leases.get_opt("tombolo-join").await.unwrap().is_none());
}
