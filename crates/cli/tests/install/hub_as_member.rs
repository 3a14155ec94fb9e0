//! One cluster that is both the hub and a member.

use std::collections::BTreeMap;

use tombolo_testkit::{EDITIONS, eventually, exported_echo};

use crate::world::World;

const READY: &str =
    "wait -n demo serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=100s";

/// A hub that is the member `home`, and the member `east`; both are joined.
fn joined() -> World {
    let world = World::start();
    let said = world.tombolo("install --hub --member --context hub").succeeds();
    for part in ["hub", "agent"] {
        assert!(said.contains(&format!("deployment/tombolo-{part} in tombolo-system created\n")), "{said}");
    }
    world.tombolo("install --member --context east").succeeds();
    for (name, context, range) in [("home", "hub", "10.0.0.0/16"), ("east", "east", "10.1.0.0/16")] {
        world.at(context).run("create namespace demo").succeeds();
        let line = format!("join --name {name} --context {context} --hub-context hub --pod-cidr {range}");
        let said = world.tombolo(&line).succeeds();
        assert!(said.ends_with(&format!("{name} is a member\n")), "{said}");
    }
    world
}

/// What a member publishes at the hub: names, and which object of that name it is.
fn published(world: &World, namespace: &str) -> BTreeMap<String, String> {
    let slices = world.json("hub", &format!("get endpointslices -n {namespace}"));
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let named =
        |slice: &serde_json::Value| (text(&slice["metadata"]["name"]), text(&slice["metadata"]["uid"]));
    slices["items"].as_array().unwrap().iter().map(named).collect()
}

#[test]
fn a_hub_that_was_a_member_leaves_and_keeps_what_others_publish() {
    let world = joined();
    let (home, east) = (world.run_agent("hub"), world.run_agent("east"));
    for agent in [&home, &east] {
        eventually("ready", || agent.is_ready());
    }
    world.at("east").feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    world.at("east").run(READY).succeeds();
    let imported = || {
        let line = "get endpointslices -n demo -l multicluster.kubernetes.io/source-cluster=east -o name";
        world.at("hub").run(line).succeeds().lines().count()
    };
    eventually("imported at the hub", || imported() > 0);
    let before = published(&world, "tombolo-east");
    assert!(!before.is_empty());
    home.was_allowed_everything();

    home.end();
    let said = world.tombolo("leave --name home --context hub --hub-context hub").succeeds();
    assert!(said.ends_with("home is no member any more\n"), "{said}");
    assert_eq!(published(&world, "tombolo-east"), before, "the same objects: nobody had to write them again");
    assert_eq!(imported(), 0);
    world.at("hub").run("get namespace tombolo-home").fails(1, &["NotFound"]);
    world.at("hub").run("get deployment -n tombolo-system tombolo-hub").succeeds();
    world.at("east").run(READY).succeeds();
    east.was_allowed_everything();
}
