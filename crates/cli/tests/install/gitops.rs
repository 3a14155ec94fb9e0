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
    let hub = world.json("hub", "get namespace kube-system")["metadata"]["uid"].clone();
    let secret = world.json("west", "get secret -n tombolo-system tombolo-hub");
    assert_eq!(secret["metadata"]["annotations"]["tombolo.dev/hub"], hub, "now it is known whose it is");
}

#[test]
fn an_agent_whose_membership_changes_begins_anew_with_it() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context west").succeeds();
    world.tombolo(&format!("join --name west {NAMES}")).succeeds();
    let agent = world.run_agent("west");
    tombolo_testkit::eventually("ready", || agent.is_ready());
    let patch = r#"{"data":{"region":"north"}}"#;
    let edit = format!("patch configmap -n tombolo-system tombolo-member --type=merge -p {patch}");
    world.at("west").run(&edit).succeeds();
    world.mount("west");
    agent.ends();
    let agent = world.run_agent("west");
    tombolo_testkit::eventually("ready", || agent.is_ready());
    let told = world.json("hub", "get memberships -n tombolo-west member");
    assert_eq!(told["spec"]["region"], "north");
}

#[test]
fn files_for_a_cluster_that_could_not_join_are_not_printed() {
    let world = World::start();
    let print = |line: &str| world.tombolo(&format!("join --hub-context hub --dry-run {line}"));
    print("--name west --pod-cidr 10.2").fails("--pod-cidr 10.2 is no range of addresses");
    print("--name system --pod-cidr 10.2.0.0/16").fails("which is taken: choose another name");
    let printed = print("--name west").succeeds();
    for doubt in ["leads a pod to itself", "without --pod-cidr"] {
        let is_said = |line: &str| line.starts_with("# ") && line.contains(doubt);
        assert!(printed.lines().take(2).any(is_said), "{doubt}: {printed}");
    }
    let printed = print("--name west -o json").succeeds();
    assert!(serde_json::from_str::<serde_json::Value>(&printed).is_ok(), "{printed}");
}

#[test]
fn who_joined_by_files_is_a_member_for_everybody_who_asks() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
    }
    for (context, side) in [("hub", "hub"), ("west", "member")] {
        let printed =
            world.tombolo(&format!("join --name west {NAMES} --dry-run -o yaml --side {side}")).succeeds();
        assert!(
            !printed.contains("\nkind: ClusterRole\n"),
            "what is everybody's is in nobody's files: {printed}"
        );
        world.at(context).feed("apply --server-side -f -", &printed).succeeds();
    }
    let create = "create secret generic tombolo-hub -n tombolo-system --from-literal=token=x";
    world.at("west").run(create).succeeds();
    world
        .tombolo("join --name east --context east --hub-context hub --pod-cidr 10.2.128.0/17")
        .fails("10.2.128.0/17 overlaps 10.2.0.0/16 of west");
    world.tombolo("uninstall --hub --kinds --context hub").fails("this hub has members, west");
    world.tombolo("uninstall --member --kinds --context west").fails("the cluster is a member, west");
}

#[test]
fn the_token_of_another_member_is_replaced() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
        world.tombolo(&format!("join --name {member} --context {member} --hub-context hub")).succeeds();
    }
    let token = |member: &str| {
        world.json(member, "get secret -n tombolo-system tombolo-hub")["data"]["token"].clone()
    };
    let patch = serde_json::json!({"data": {"token": token("east")}}).to_string();
    world
        .at("west")
        .run(&format!("patch secret -n tombolo-system tombolo-hub --type=merge -p {patch}"))
        .succeeds();
    let said = world.tombolo("join --name west --context west --hub-context hub").succeeds();
    assert!(
        said.contains("secret/tombolo-hub in tombolo-system configured: a token for the hub\n"),
        "{said}"
    );
    assert_ne!(token("west"), token("east"));
    let said = world.tombolo("join --name west --context west --hub-context hub").succeeds();
    assert!(said.contains("unchanged: its token is good\n"), "{said}");
}
