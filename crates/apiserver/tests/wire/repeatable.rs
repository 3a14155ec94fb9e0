//! The same seed and the same requests give the same bytes.

use serde_json::json;

use crate::client::*;

/// Runs a fixed story and returns every byte of what lists and watches showed.
async fn story() -> Vec<Vec<u8>> {
    let wire = Wire::new();
    let start = wire.revision().await;
    wire.create(DEFINITIONS, &widgets()).await;
    let watch = wire
        .watch(&format!("{SERVICES}?resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=200"))
        .await;
    let custom = wire.watch(&format!("{WIDGETS}?allowWatchBookmarks=true&timeoutSeconds=100")).await;
    for place in 0..5 {
        let mut object = service("x");
        object["metadata"] = json!({"generateName": "svc-"});
        object["spec"]["type"] = json!(if place % 2 == 0 { "LoadBalancer" } else { "ClusterIP" });
        wire.create(SERVICES, &object).await;
        wire.apply(&format!("{WIDGETS}/w{place}"), "me", &widget(&format!("w{place}"))).await.ok(201);
        tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    }
    wire.patch(&format!("{WIDGETS}/w1/status"), MERGE, &json!({"status": {"replicas": 1}})).await.ok(200);
    wire.delete(&format!("{WIDGETS}/w2")).await.ok(200);
    let mut seen = Vec::new();
    for path in [
        SERVICES,
        WIDGETS,
        NAMESPACES,
        DEFINITIONS,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/openapi/v3",
    ] {
        seen.push(wire.get(path).await.body.to_vec());
        seen.push(wire.get_as(TABLE, path).await.body.to_vec());
    }
    for events in [watch.rest().await, custom.rest().await] {
        seen.push(serde_json::to_vec(&events).expect("JSON"));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn two_clusters_with_one_seed_and_a_paused_clock_are_byte_identical() {
    let first = story().await;
    let second = story().await;
    assert!(first.iter().all(|bytes| bytes.len() > 20));
    for (one, two) in first.iter().zip(&second) {
        assert_eq!(String::from_utf8_lossy(one), String::from_utf8_lossy(two));
    }
}
