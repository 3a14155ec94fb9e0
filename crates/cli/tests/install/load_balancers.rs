//! What becomes of load balancers when the balancer is taken out.

use serde_json::json;

use crate::world::World;

#[test]
fn services_lose_their_load_balancers_with_the_balancer_and_can_be_deleted() {
    let world = World::start();
    world.tombolo("install --balancer --context east").succeeds();
    // As a provider leaves it.
    let record = json!({"class": "", "seen": "a", "serves": "b"}).to_string();
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            "annotations": {"tombolo.dev/load-balancer": record},
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let east = world.at("east");
    east.feed("create -f -", &service.to_string()).succeeds();
    let said = world.tombolo("uninstall --balancer --context east").succeeds();
    assert!(said.contains("load balancers taken back: 1\n"), "{said}");
    let held = world.json("east", "get service web")["metadata"]["finalizers"].clone();
    assert!(held.as_array().is_none_or(Vec::is_empty), "{held}");
    east.run("delete service web").succeeds();
    let said = world.tombolo("uninstall --balancer --context east").succeeds();
    assert!(!said.contains("taken back"), "{said}");
}
