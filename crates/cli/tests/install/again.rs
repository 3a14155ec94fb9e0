//! Joining once more, which is the answer to much, takes nothing away that nobody speaks of.

use serde_json::Value;

use crate::world::World;

const FIRST: &str = "join --name east --context east --hub-context hub --pod-cidr 10.1.0.0/16 --region north \
     --ip-family IPv4,IPv6 --hub-server https://hub.example:6443";
const AGAIN: &str = "join --name east --context east --hub-context hub";

/// What the cluster holds about itself, and what its place at the hub says about it.
fn known(world: &World) -> [Value; 2] {
    let facts = world.json("east", "get configmap -n tombolo-system tombolo-member");
    let place = world.json("hub", "get namespace tombolo-east");
    [facts["data"].clone(), place["metadata"]["annotations"]["tombolo.dev/pod-cidrs"].clone()]
}

#[test]
fn who_joins_again_keeps_what_is_not_said_and_is_told_so() {
    let world = World::start();
    world.tombolo("install --hub --context hub").succeeds();
    world.tombolo("install --member --context east").succeeds();
    world.tombolo(FIRST).succeeds();
    let before = known(&world);
    assert_eq!(before[1], "10.1.0.0/16");

    // A token of which the hub knows nothing is as good as one that ran out.
    let lost =
        "create secret generic -n tombolo-system tombolo-hub --from-literal=token=x --dry-run=client -o yaml";
    let lost = world.at("east").run(lost).succeeds().to_owned();
    world.at("east").feed("replace -f -", &lost).succeeds();
    let said = world.tombolo(AGAIN).succeeds();
    for kept in [
        "# as before: --pod-cidr 10.1.0.0/16\n",
        "# as before: --region north\n",
        "# as before: --ip-family IPv4,IPv6\n",
        "# as before: --hub-server https://hub.example:6443; the kubeconfig has https://",
        "secret/tombolo-hub in tombolo-system configured: a token for the hub\n",
        "agents begin anew\n",
    ] {
        assert!(said.contains(kept), "{kept:?} is not in\n{said}");
    }
    assert_eq!(known(&world), before);
    let said = world.tombolo(AGAIN).succeeds();
    assert!(!said.contains("begin anew") && !said.contains("configured"), "{said}");

    // What is said counts, and what is empty is taken away.
    let less = world.tombolo(&format!("{AGAIN} --region= --pod-cidr= --ip-family=IPv4")).succeeds();
    assert!(less.contains("without --pod-cidr other clusters believe any address"), "{less}");
    let [facts, place] = known(&world);
    assert_eq!(
        (&facts["region"], &facts["pod-cidrs"], &facts["ip-families"], place),
        (&Value::Null, &Value::Null, &"IPv4".into(), Value::Null)
    );
}
