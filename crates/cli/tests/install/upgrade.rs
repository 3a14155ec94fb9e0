//! Versions that follow each other, and run side by side meanwhile.

use serde_json::{Value, json};
use tombolo_testkit::{EDITIONS, eventually, exported_echo};

use crate::world::World;

const LABEL: &str = "tombolo.dev/schema-revision";

fn definition(world: &World, context: &str, name: &str) -> Value {
    world.json(context, &format!("get crd {name}"))
}

/// Makes a definition what a later version would have it be: with a field that this one does not know.
fn make_later(world: &World, context: &str, name: &str, section: &str) {
    let mut later = definition(world, context, name);
    later["metadata"]["labels"][LABEL] = json!("1000");
    for version in later["spec"]["versions"].as_array_mut().unwrap() {
        let properties = &mut version["schema"]["openAPIV3Schema"]["properties"][section]["properties"];
        properties["later"] = json!({"type": "string"});
    }
    world.at(context).feed("replace -f -", &later.to_string()).succeeds();
}

#[test]
fn an_installation_never_takes_a_later_definition_back_and_replaces_an_earlier_one() {
    let world = World::start();
    let name = "serviceexports.multicluster.x-k8s.io";
    world.tombolo("install --member --context east").succeeds();
    let ours = definition(&world, "east", name);
    make_later(&world, "east", name, "spec");
    let said = world.tombolo("install --member --context east").succeeds();
    assert!(
        said.contains(&format!("customresourcedefinition/{name} kept: revision 1000 is later than ")),
        "{said}"
    );
    let kept = definition(&world, "east", name);
    assert!(kept.to_string().contains("\"later\""), "{kept}");

    let mut earlier = ours.clone();
    earlier["metadata"]["labels"][LABEL] = json!("0");
    earlier["spec"]["names"]["shortNames"] = json!(["old"]);
    earlier["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    world.at("east").feed("replace -f -", &earlier.to_string()).succeeds();
    world.tombolo("install --member --context east").succeeds();
    let now = definition(&world, "east", name);
    assert_eq!(now["metadata"]["labels"][LABEL], ours["metadata"]["labels"][LABEL]);
    assert_eq!(now["spec"]["names"], ours["spec"]["names"]);
}

#[test]
fn a_definition_of_somebody_else_stays_if_it_serves_what_is_needed_and_is_refused_otherwise() {
    let world = World::start();
    let name = "serviceimports.multicluster.x-k8s.io";
    world.tombolo("install --member --context east").succeeds();
    let mut foreign = definition(&world, "east", name);
    foreign["metadata"]["labels"].as_object_mut().unwrap().remove(LABEL);
    foreign["spec"]["names"]["shortNames"] = json!(["theirs"]);
    foreign["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    world.at("east").feed("replace -f -", &foreign.to_string()).succeeds();
    let said = world.tombolo("install --member --context east").succeeds();
    assert!(said.contains(&format!("customresourcedefinition/{name} kept: it is somebody else's")), "{said}");

    let mut versions = foreign["spec"]["versions"].as_array().unwrap().clone();
    versions.retain(|version| version["storage"] == true);
    foreign["spec"]["versions"] = json!(versions);
    world.at("east").feed("replace -f -", &foreign.to_string()).succeeds();
    world.tombolo("install --member --context east").fails(&format!("definition {name} is of no use"));
}

const VERSION: &str = "app.kubernetes.io/version";

#[test]
fn an_earlier_program_does_not_replace_what_a_later_one_installed() {
    let world = World::start();
    world.tombolo("install --member --context east").succeeds();
    let agents = "deployment -n tombolo-system tombolo-agent";
    world.at("east").run(&format!("label {agents} --overwrite {VERSION}=99.0.0")).succeeds();
    let before = world.json("east", &format!("get {agents}"))["metadata"]["generation"].clone();
    let said = world.tombolo("install --member --dns --replicas 3 --context east");
    let said = said.fails("nothing was changed: deployment/tombolo-agent is of version 99.0.0");
    assert!(said.err.contains("`tombolo uninstall` these parts first"), "{}", said.err);
    assert_eq!(world.json("east", &format!("get {agents}"))["metadata"]["generation"], before);
    world.at("east").run("get deployment -n tombolo-system tombolo-dns").fails(1, &["NotFound"]);
    // Parts that the later one did not install are none of its business.
    world.tombolo("install --dns --context east").succeeds();
    world.tombolo("uninstall --member --context east").succeeds();
    world.tombolo("install --member --context east").succeeds();
}

#[test]
fn who_joins_with_an_earlier_program_takes_no_rights_from_later_members() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    let role = "clusterrole tombolo-member-reader";
    let mut later = world.json("hub", &format!("get {role}"));
    later["metadata"]["labels"][VERSION] = json!("99.0.0");
    later["rules"].as_array_mut().unwrap().push(json!({
        "apiGroups": ["tombolo.dev"], "resources": ["serviceoffers/later"], "verbs": ["get"],
    }));
    world.at("hub").feed("replace -f -", &later.to_string()).succeeds();
    let rules = || world.json("hub", &format!("get {role}"))["rules"].clone();
    let said = world.tombolo("join --name east --context east --hub-context hub").succeeds();
    assert!(said.contains("clusterrole/tombolo-member-reader kept: version 99.0.0 made it"), "{said}");
    assert_eq!(rules(), later["rules"]);
    world.tombolo("install --hub --context hub").succeeds();
    assert_eq!(rules(), later["rules"]);
    // What an earlier one made is brought up to date.
    later["metadata"]["labels"][VERSION] = json!("0.0.1");
    later["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    world.at("hub").feed("replace -f -", &later.to_string()).succeeds();
    world.tombolo("join --name east --context east --hub-context hub").succeeds();
    assert_ne!(rules(), later["rules"]);
}

#[test]
fn an_agent_works_beside_later_ones_and_keeps_the_fields_it_does_not_know() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    for (member, range) in [("east", "10.1.0.0/16"), ("west", "10.2.0.0/16")] {
        world.tombolo(&format!("install --member --context {member}")).succeeds();
        world.at(member).run("create namespace demo").succeeds();
        world
            .tombolo(&format!("join --name {member} --context {member} --hub-context hub --pod-cidr {range}"))
            .succeeds();
        make_later(&world, member, "serviceexports.multicluster.x-k8s.io", "spec");
        make_later(&world, member, "serviceimports.multicluster.x-k8s.io", "spec");
    }
    for kind in ["memberships.tombolo.dev", "serviceoffers.tombolo.dev"] {
        make_later(&world, "hub", kind, "spec");
    }
    let (east, west) = (world.run_agent("east"), world.run_agent("west"));
    world.at("east").feed("apply -f -", &exported_echo(&EDITIONS)).succeeds();
    let export = "serviceexports.multicluster.x-k8s.io -n demo echo";
    let patch = r#"{"spec":{"later":"kept"}}"#;
    world.at("east").run(&format!("patch {export} --type=merge -p {patch}")).succeeds();
    // What a later agent of the same supercluster says is read as far as it is understood.
    let offers = "serviceoffers -n tombolo-east";
    let has_offer = || !world.at("hub").run(&format!("get {offers} -o name")).succeeds().is_empty();
    eventually("offered", has_offer);
    let ready = "wait -n demo serviceexports.multicluster.x-k8s.io/echo --for=condition=Ready --timeout=100s";
    world.at("east").run(ready).succeeds();
    let slices = "get endpointslices -n demo -l multicluster.kubernetes.io/source-cluster=east -o name";
    eventually("imported", || world.at("west").run(slices).succeeds().lines().count() == 2);

    // What else agents write gets a field of a later version, too, and then something to write.
    let import = "serviceimports.multicluster.x-k8s.io -n demo echo";
    let statement = "memberships -n tombolo-west member";
    world.at("west").run(&format!("patch {import} --type=merge -p {patch}")).succeeds();
    world.at("hub").run(&format!("patch {statement} --type=merge -p {patch}")).succeeds();
    for offer in world.at("hub").run(&format!("get {offers} -o name")).succeeds().lines() {
        world.at("hub").run(&format!("patch -n tombolo-east {offer} --type=merge -p {patch}")).succeeds();
    }
    let port = r#"{"spec":{"ports":[{"name":"added","port":81,"protocol":"TCP"}]}}"#;
    world.at("east").run(&format!("patch service -n demo echo --type=strategic -p {port}")).succeeds();
    let ports = |import: &Value| import["spec"]["ports"].to_string();
    eventually("written again", || {
        ports(&world.json("west", &format!("get {import}"))).contains("\"added\"")
    });
    west.end();
    world
        .tombolo("join --name west --context west --hub-context hub --pod-cidr 10.2.0.0/16 --region north")
        .succeeds();
    let west = world.run_agent("west");
    eventually("stated again", || {
        world.json("hub", &format!("get {statement}"))["spec"]["region"] == "north"
    });

    let mut held = vec![
        world.json("east", &format!("get {export}")),
        world.json("west", &format!("get {import}")),
        world.json("hub", &format!("get {statement}")),
    ];
    let offered = world.json("hub", &format!("get {offers}"));
    held.extend(offered["items"].as_array().unwrap().iter().cloned());
    assert_eq!(held.len(), 5, "an offer for each edition: {held:?}");
    for object in held {
        assert_eq!(
            object["spec"]["later"], "kept",
            "an agent wrote what is its own, and nothing else: {object}"
        );
    }
    east.end();
    west.end();
}
