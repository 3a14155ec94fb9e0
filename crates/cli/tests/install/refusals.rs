//! What cannot work is said before anything is changed.

use tombolo_testkit::eventually;

use crate::world::World;

#[test]
fn a_cluster_that_does_not_fit_is_refused_and_leaves_no_trace() {
    let world = World::start();
    let join = |line: &str| world.tombolo(&format!("join --hub-context hub {line}"));
    join("--name east --context east").fails("`tombolo install --hub` there first");
    world.tombolo("install --hub --context hub").succeeds();
    join("--name east --context east").fails("`tombolo install --member` there first");
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
    }
    join("--name east --context east --pod-cidr 10.1.0.0/16").succeeds();
    let agent = world.run_agent("east");
    eventually("ready", || agent.is_ready());

    let west = "--context west";
    join(&format!("--name west {west} --pod-cidr 10.1.128.0/17"))
        .fails("10.1.128.0/17 overlaps 10.1.0.0/16 of east");
    join(&format!("--name west {west} --pod-cidr 10.2")).fails("--pod-cidr 10.2 is no range of addresses");
    join(&format!("--name east {west}")).fails("another cluster is east at this hub");
    join(&format!("--name system {west}")).fails("which is taken: choose another name");
    join("--name other --context east").fails("the cluster calls itself east");
    for trace in ["tombolo-west", "tombolo-other"] {
        world.at("hub").run(&format!("get namespace {trace}")).fails(1, &["NotFound"]);
    }
    world.at("west").run("get clusterproperties").shows(&[]);
    world.at("west").run("get secret -n tombolo-system tombolo-hub").fails(1, &["NotFound"]);

    // An agent that nobody can end keeps its cluster from leaving.
    assert!(agent.is_ready());
}

/// Only the hub still knows what the cluster is called.
fn forget_name(world: &World, context: &str) {
    world.at(context).run("delete clusterproperties --all").succeeds();
    world.at(context).run("delete configmap -n tombolo-system tombolo-member").succeeds();
}

#[test]
fn who_joined_counts_before_its_agent_has_said_anything() {
    let world = World::start();
    let join = |line: &str| world.tombolo(&format!("join --hub-context hub {line}"));
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
    }
    join("--name east --context east --pod-cidr 10.1.0.0/16").succeeds();
    assert_eq!(world.at("hub").run("get memberships -A -o name").succeeds(), "");
    join("--name west --context west --pod-cidr 10.1.128.0/17")
        .fails("10.1.128.0/17 overlaps 10.1.0.0/16 of east");
    join("--name east --context west").fails("another cluster is east at this hub");
    forget_name(&world, "east");
    join("--name other --context east").fails("the cluster is a member already, as east");
    // The same cluster may say something else about itself, and then that counts.
    join("--name east --context east --pod-cidr 10.3.0.0/16").succeeds();
    join("--name west --context west --pod-cidr 10.1.128.0/17").succeeds();
}

#[test]
fn a_cluster_leaves_under_its_own_name_only() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for member in ["east", "west"] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
        world.tombolo(&format!("join --name {member} --context {member} --hub-context hub")).succeeds();
    }
    let leave = |name: &str, context: &str| {
        world.tombolo(&format!("leave --name {name} --context {context} --hub-context hub"))
    };
    leave("est", "east").fails("the cluster calls itself east, not est: leave with `--name east`");
    leave("west", "east").fails("nothing was changed");
    forget_name(&world, "east");
    leave("est", "east").fails("the cluster is east at this hub, not est");
    leave("west", "east").fails("west at this hub is another cluster");
    // Another hub, which knows nobody.
    world.tombolo("install --hub --context west").succeeds();
    world
        .tombolo("leave --name east --context east --hub-context west")
        .fails("the cluster is a member at another hub: choose that with --hub-context");
    for member in ["east", "west"] {
        world.at("hub").run(&format!("get namespace tombolo-{member}")).succeeds();
        world.at(member).run("get -n tombolo-system secret tombolo-hub").succeeds();
        let agents = world.json(member, "get deployment -n tombolo-system tombolo-agent");
        assert_eq!(agents["spec"]["replicas"], 2, "{member}");
    }
    leave("east", "east").succeeds();
    world.at("hub").run("get namespace tombolo-east").fails(1, &["NotFound"]);
}

#[test]
fn parts_that_are_too_far_from_this_version_are_updated_before_anybody_joins() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    let label = |context: &str, part: &str, version: &str| {
        let line = format!("label deployment -n tombolo-system tombolo-{part} --overwrite");
        world.at(context).run(&format!("{line} app.kubernetes.io/version={version}")).succeeds();
    };
    for (context, part) in [("hub", "hub"), ("east", "agent")] {
        label(context, part, "0.9.0");
        world
            .tombolo("join --name east --context east --hub-context hub")
            .fails(&format!("tombolo-{part} in tombolo-system of the"));
        label(context, part, env!("CARGO_PKG_VERSION"));
    }
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
}

#[test]
fn pods_that_could_not_run_are_not_installed() {
    let world = World::start();
    for (amounts, why) in [
        ("--request hub:memory=2Gi", "would ask for 2Gi of memory and may use 1Gi"),
        ("--limit member:memory=4Gi", "member:memory=4Gi is for a part that is not chosen"),
    ] {
        world.tombolo(&format!("install --hub --context hub {amounts}")).fails(why);
    }
    world.at("hub").run("get namespace tombolo-system").fails(1, &["NotFound"]);
}

#[test]
fn kinds_are_not_taken_from_members() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
    let said = world
        .tombolo("uninstall --hub --kinds --context hub")
        .fails("nothing was changed: this hub has members, east");
    assert!(said.err.contains("with --hub-context for this hub"), "{}", said.err);
    world
        .tombolo("uninstall --member --kinds --context east")
        .fails("nothing was changed: the cluster is a member, east");
    world.at("hub").run("get clusterrole tombolo-member-reader").succeeds();
    world.at("east").run("get deployment -n tombolo-system tombolo-agent").succeeds();
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    for (part, context) in [("member", "east"), ("hub", "hub")] {
        world.tombolo(&format!("uninstall --{part} --kinds --context {context}")).succeeds();
    }
    world.at("hub").run("get crd memberships.tombolo.dev").fails(1, &["NotFound"]);
}

#[test]
fn the_command_line_wants_a_part_and_a_name() {
    let world = World::start();
    for line in [
        "install",
        "install --context hub",
        "join --hub-context hub",
        "leave --name a",
        "leave --force --name a",
        "leave --hub-gone --name a --hub-context hub",
        "install --hub --limit kitchen:memory=1Gi",
        "install --hub --limit hub:memory=lots",
        "install --hub --monitor-label release=prometheus",
        "join --name A_B --hub-context hub",
    ] {
        let said = world.tombolo(line);
        assert_eq!(said.code, Some(2), "{line}: {}{}", said.out, said.err);
    }
}
