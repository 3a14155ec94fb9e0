//! A hub that is gone for good holds nothing up in those that were its members.

use serde_json::json;
use tombolo_testkit::{EDITIONS, eventually, exported_echo};

use crate::world::World;

const EXPORT: &str = "serviceexports.multicluster.x-k8s.io -n demo echo";

#[test]
fn a_member_takes_everything_back_without_its_hub() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for (member, range) in [("east", "10.1.0.0/16"), ("west", "10.2.0.0/16")] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
        world.at(member).run("create namespace demo").succeeds();
        let line = format!("join --name {member} --context {member} --hub-context hub --pod-cidr {range}");
        let said = world.tombolo(&line).succeeds();
        assert!(said.contains("leads a pod to itself"), "the hub of the test is on this computer: {said}");
    }
    let (east, west) = (world.run_agent("east"), world.run_agent("west"));
    for member in ["east", "west"] {
        world.at(member).feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    }
    let has_finalizer = || world.json("east", &format!("get {EXPORT}"))["metadata"]["finalizers"].is_array();
    eventually("exported", has_finalizer);
    let imported = "get endpointslices -n demo -l multicluster.kubernetes.io/source-cluster=west -o name";
    eventually("imported", || !world.at("east").run(imported).succeeds().is_empty());
    east.end();
    west.end();

    // Nobody tells where the hub is: it could not be asked.
    world.at("east").run("config delete-context hub").succeeds();
    world.tombolo("leave --name east --context east --hub-context hub").fails("there is no way to the hub");
    world
        .tombolo("leave --hub-gone --name west --context east")
        .fails("the cluster calls itself east, not west");
    // Whoever merely did not name the hub does not mean that it is gone.
    let unclear = world.tombolo("leave --force --name east --context east");
    assert!(unclear.code == Some(2) && unclear.err.contains("--hub-kubeconfig"), "{unclear:?}");
    world.at("east").run("get secret -n tombolo-system tombolo-hub").succeeds();
    world.at("east").run(&format!("delete {EXPORT} --wait=false")).succeeds();
    let said = world.tombolo("leave --hub-gone --name east --context east").succeeds();
    assert!(said.contains("east is no member any more; nobody told the hub"), "{said}");
    world.at("east").run(&format!("get {EXPORT}")).fails(1, &["NotFound"]);
    let other = world.json("east", "get serviceexports.multicluster.k8s.io -n demo echo");
    assert_eq!(
        (&other["metadata"]["finalizers"], &other["status"]["conditions"]),
        (&json!(null), &json!([])),
        "what a user wrote stays, and waits for nobody"
    );
    assert_eq!(world.at("east").run(imported).succeeds(), "");
    for gone in
        ["configmap tombolo-member", "secret tombolo-hub", "clusterproperty cluster.clusterset.k8s.io"]
    {
        world.at("east").run(&format!("get -n tombolo-system {gone}")).fails(1, &["NotFound"]);
    }
    world
        .tombolo("leave --hub-gone --name east --context east")
        .fails("nothing was changed: the cluster is nobody's member");
}

#[test]
fn a_cluster_that_lost_its_property_leaves_under_the_name_that_its_agent_reads() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
    world.at("east").run("delete clusterproperties --all").succeeds();
    let leave = |line: &str| world.tombolo(&format!("leave --hub-gone --context east {line}"));
    leave("--name west").fails("the cluster calls itself east, not west");
    world.at("east").run("delete configmap -n tombolo-system tombolo-member").succeeds();
    for name in ["west", "east"] {
        leave(&format!("--name {name}")).fails(&format!("the cluster does not say that it is {name}"));
    }
    world.at("east").run("get secret -n tombolo-system tombolo-hub").succeeds();
    let say = "create configmap -n tombolo-system tombolo-member --from-literal=cluster-id=east";
    world.at("east").run(say).succeeds();
    leave("--force --name east").succeeds();
    world.at("east").run("get secret -n tombolo-system tombolo-hub").fails(1, &["NotFound"]);
}
