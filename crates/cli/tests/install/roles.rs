//! What members may do at the hub is said once, there, and stays for as long as there are any.

use serde_json::{Value, json};
use tombolo_testkit::eventually;

use crate::world::World;

const ROLES: [&str; 3] = ["tombolo-member-reader", "tombolo-member-writer", "tombolo-member-works"];
const VERSION: &str = "app.kubernetes.io/version";
const EAST: &str = "join --name east --context east --hub-context hub";

/// Whether the account of a member may do something at the hub.
fn may(world: &World, words: &str) -> bool {
    let line = format!("auth can-i {words} --as=system:serviceaccount:tombolo-east:agent");
    world.at("hub").run(&line).code() == Some(0)
}

fn joined() -> World {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo(EAST).succeeds();
    world
}

#[test]
fn members_keep_their_rights_when_the_hubs_own_part_is_taken_out() {
    let world = joined();
    let said = world.tombolo("uninstall --hub --context hub").succeeds();
    assert!(said.contains("deployment/tombolo-hub deleted\n"), "{said}");
    for role in ROLES {
        assert!(said.contains(&format!("clusterrole/{role} stays: members need it, east\n")), "{said}");
        world.at("hub").run(&format!("get clusterrole {role}")).succeeds();
    }
    assert!(may(&world, "list serviceoffers.tombolo.dev -A"));
    assert!(may(&world, "patch serviceoffers.tombolo.dev -n tombolo-east"));
    assert!(!may(&world, "patch serviceoffers.tombolo.dev -n default"));
    // Without members nobody needs them.
    world.tombolo("leave --name east --context east --hub-context hub").succeeds();
    world.tombolo("uninstall --hub --context hub").succeeds();
    for role in ROLES {
        world.at("hub").run(&format!("get clusterrole {role}")).fails(1, &["NotFound"]);
    }
}

#[test]
fn an_update_of_the_hub_reaches_members_that_joined_before() {
    let world = joined();
    // As an earlier version had it.
    let mut earlier = world.json("hub", "get clusterrole tombolo-member-writer");
    earlier["metadata"]["labels"][VERSION] = json!("0.0.1");
    let offers = |rule: &Value| rule["resources"].to_string().contains("serviceoffers");
    earlier["rules"].as_array_mut().unwrap().retain(|rule| !offers(rule));
    world.at("hub").feed("replace -f -", &earlier.to_string()).succeeds();
    // Rules are heard of a moment after they are written.
    eventually("not allowed", || !may(&world, "create serviceoffers.tombolo.dev -n tombolo-east"));
    world.tombolo("install --hub --context hub").succeeds();
    eventually("allowed", || may(&world, "create serviceoffers.tombolo.dev -n tombolo-east"));
}

#[test]
fn helm_is_left_the_roles_that_it_keeps() {
    let world = joined();
    let role = "clusterrole tombolo-member-writer";
    let found = world.json("hub", &format!("get {role}"));
    assert_eq!(found["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let by = "app.kubernetes.io/managed-by";
    world.at("hub").run(&format!("label {role} --overwrite {by}=Helm")).succeeds();
    for version in [env!("CARGO_PKG_VERSION"), "0.0.1"] {
        world.at("hub").run(&format!("label {role} --overwrite {VERSION}={version}")).succeeds();
        world.tombolo(EAST).succeeds();
        let labels = world.json("hub", &format!("get {role}"))["metadata"]["labels"].clone();
        assert_eq!((&labels[by], &labels[VERSION]), (&json!("Helm"), &json!(env!("CARGO_PKG_VERSION"))));
    }
}

/// What a member of an earlier version had in its namespace, so that no update of the hub reached it.
const FORMER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: tombolo-member-writer
  namespace: tombolo-east
  labels: {app.kubernetes.io/managed-by: tombolo-install, app.kubernetes.io/version: 0.0.1}
rules:
- {apiGroups: [tombolo.dev], resources: [serviceoffers], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: tombolo-member-writer
  namespace: tombolo-east
  labels: {app.kubernetes.io/managed-by: tombolo-install, app.kubernetes.io/version: 0.0.1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tombolo-member-writer}
subjects:
- {kind: ServiceAccount, name: agent, namespace: tombolo-east}
"#;

#[test]
fn a_member_of_an_earlier_version_that_joins_again_has_the_role_of_all_and_no_copy_of_its_own() {
    let world = joined();
    world.at("hub").run("delete rolebinding -n tombolo-east tombolo-member").succeeds();
    world.at("hub").feed("apply -f -", FORMER).succeeds();
    let former = "update serviceoffers.tombolo.dev -n tombolo-east";
    let today = "patch serviceoffers.tombolo.dev -n tombolo-east";
    eventually("as it was", || may(&world, former) && !may(&world, today));
    let said = world.tombolo(EAST).succeeds();
    for kind in ["role", "rolebinding"] {
        let gone = format!(
            "{kind}/tombolo-member-writer in tombolo-east deleted: the role of all members counts now\n"
        );
        assert!(said.contains(&gone), "{said}");
        world
            .at("hub")
            .run(&format!("get {kind} -n tombolo-east tombolo-member-writer"))
            .fails(1, &["NotFound"]);
    }
    eventually("as all have it", || !may(&world, former) && may(&world, today));
    let said = world.tombolo(EAST).succeeds();
    assert!(!said.contains("deleted"), "{said}");
}
