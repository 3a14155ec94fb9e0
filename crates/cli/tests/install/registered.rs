//! Members that the hub's own part had registered, and that leave when it is not there any more.

use serde_json::{Value, json};
use tombolo_testkit::eventually;

use crate::world::World;

/// What the hub's own part has of a member, or somebody else's, of the same name.
fn register(world: &World, member: &str, is_ours: bool) {
    let (maker, labels, finalizer) = match is_ours {
        true => ("tombolo", json!({"tombolo.dev/member": "true"}), "tombolo.dev/cluster"),
        false => ("karmada", json!({}), "karmada.io/cluster-controller"),
    };
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": format!("karmada-es-{member}"), "labels": {"app.kubernetes.io/managed-by": maker},
        },
    });
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": member, "labels": labels, "finalizers": [finalizer]},
        "spec": {"syncMode": "Pull"},
    });
    for object in [namespace, cluster] {
        world.at("hub").feed("apply -f -", &object.to_string()).succeeds();
    }
}

fn cluster(world: &World, member: &str) -> Value {
    world.json("hub", &format!("get clusters.cluster.karmada.io {member}"))["metadata"].clone()
}

#[test]
fn who_leaves_a_hub_without_its_own_part_does_what_that_would_have_done() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
        world.tombolo(&format!("join --name {member} --context {member} --hub-context hub")).succeeds();
        register(&world, member, true);
    }
    let leave = |member: &str| {
        world.tombolo(&format!("leave --name {member} --context {member} --hub-context hub")).succeeds();
    };
    let is_gone = |member: &str| {
        world.at("hub").run(&format!("get clusters.cluster.karmada.io {member}")).fails(1, &["NotFound"]);
        let namespace = || world.at("hub").run(&format!("get namespace karmada-es-{member}")).code();
        eventually("its execution namespace goes", || namespace() == Some(1));
    };

    leave("west");
    let west = cluster(&world, "west");
    assert!(west["deletionTimestamp"].is_string(), "the hub's own part is told: {west}");
    assert_eq!(west["finalizers"], json!(["tombolo.dev/cluster"]), "and has to do the rest");
    world.at("hub").run("get namespace karmada-es-west").succeeds();

    world.tombolo("uninstall --hub --context hub").succeeds();
    leave("east");
    is_gone("east");
    // Who left before that waits for nobody any more, either.
    world.tombolo("leave --force --name west --hub-context hub").succeeds();
    is_gone("west");
    world.tombolo("leave --force --name west --hub-context hub").fails("there is no west at this hub");
}

#[test]
fn a_cluster_of_somebody_else_with_the_name_of_a_member_stays_when_that_leaves() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
    register(&world, "east", false);
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    let foreign = cluster(&world, "east");
    assert!(foreign["deletionTimestamp"].is_null(), "{foreign}");
    world.at("hub").run("get namespace karmada-es-east").succeeds();
}
