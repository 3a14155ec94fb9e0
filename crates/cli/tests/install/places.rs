//! Namespaces at the hub that look like a member's: only the member's own is used, and only that is taken away.

use crate::world::World;

fn uid(world: &World, namespace: &str) -> String {
    world
        .at("hub")
        .run(&format!("get namespace {namespace} -o jsonpath={{.metadata.uid}}"))
        .succeeds()
        .to_owned()
}

#[test]
fn nobody_joins_or_leaves_in_a_namespace_that_is_not_the_members() {
    let world = World::start();
    world.tombolo("install --hub --namespace tombolo-central --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.at("hub").run("create namespace tombolo-theirs").succeeds();
    world.at("hub").run("create namespace tombolo-system").succeeds();
    for name in ["central", "theirs"] {
        let namespace = format!("tombolo-{name}");
        let before = uid(&world, &namespace);
        let said = world.tombolo(&format!("join --name {name} --context east --hub-context hub"));
        said.fails(&format!("namespace {namespace} at the hub is taken, and not by {name}"));
        let labels = world.json("hub", &format!("get namespace {namespace}"))["metadata"]["labels"].clone();
        assert!(labels["tombolo.dev/member"].is_null(), "{labels}");
        let said = world.tombolo(&format!("leave --force --name {name} --hub-context hub"));
        said.fails(&format!("namespace {namespace} at the hub is not the place of {name}"));
        assert_eq!(uid(&world, &namespace), before);
    }
    let before = uid(&world, "tombolo-system");
    world.tombolo("leave --force --name system --hub-context hub").fails("is not the place of system");
    assert_eq!(uid(&world, "tombolo-system"), before);
    world.at("hub").run("get deployment -n tombolo-central tombolo-hub").succeeds();

    // Whoever says that it was made for the member may use it.
    world.at("hub").run("label namespace tombolo-theirs tombolo.dev/member=theirs").succeeds();
    world.tombolo("join --name theirs --context east --hub-context hub").succeeds();
    world.tombolo("leave --force --name theirs --hub-context hub").succeeds();
    world.at("hub").run("get namespace tombolo-theirs").fails(1, &["NotFound"]);
    world.tombolo("leave --force --name theirs --hub-context hub").fails("there is no theirs at this hub");
}
