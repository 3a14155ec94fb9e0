//! Files in a repository give the same as the commands.

use crate::world::World;

const NAMES: &str = "--context west --hub-context hub --pod-cidr 10.2.0.0/16";

#[test]
fn what_is_printed_and_applied_by_others_is_what_the_commands_apply() {
    let world = World::start();
    for (context, parts) in [("hub", "--hub"), ("west", "--member --dns --proxy --balancer")] {
        let printed = world.tombolo(&format!("install {parts} --dry-run -o yaml")).succeeds();
        world.at(context).feed("apply --server-side -f -", &printed).succeeds();
        let said = world.tombolo(&format!("install {parts} --context {context}")).succeeds();
        // Whose fields they are is new; nothing else is.
        assert!(!said.contains(" created"), "{said}");
        world.at(context).feed("diff --server-side --force-conflicts -f -", &printed).succeeds();
    }
}

#[test]
fn a_cluster_joins_by_files_and_a_token_that_kubectl_makes() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context west").succeeds();
    for (context, side) in [("hub", "hub"), ("west", "member")] {
        let printed =
            world.tombolo(&format!("join --name west {NAMES} --dry-run -o yaml --side {side}")).succeeds();
        assert!(!printed.contains("kind: Secret"), "{printed}");
        world.at(context).feed("apply --server-side -f -", &printed).succeeds();
    }
    let token =
        world.at("hub").run("create token agent -n tombolo-west --duration=168h").succeeds().to_owned();
    let create = "create secret generic tombolo-hub -n tombolo-system --from-file=token=/dev/stdin";
    world.at("west").feed(create, &token).succeeds();
    let agent = world.run_agent("west");
    tombolo_testkit::eventually("ready", || agent.is_ready());
    agent.was_allowed_everything();
    let said = world.tombolo(&format!("join --name west {NAMES}")).succeeds();
    assert!(!said.contains(" created"), "{said}");
    assert!(said.contains("secret/tombolo-hub in tombolo-system unchanged: its token is good\n"), "{said}");
}
