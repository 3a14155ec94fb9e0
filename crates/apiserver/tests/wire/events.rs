//! Events: two views of the same objects, kept for an hour.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const MODERN: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event(name: &str) -> Value {
    json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "it runs", "type": "Normal",
    })
}

#[tokio::test(start_paused = true)]
async fn both_apis_show_the_same_event() {
    let wire = Wire::new();
    wire.create(EVENTS, &event("a")).await;
    let modern = wire.get(&format!("{MODERN}/a")).await.ok(200);
    assert_eq!(modern["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&modern["note"], &modern["regarding"]["name"]), (&json!("it runs"), &json!("p")));
    wire.delete(&format!("{MODERN}/a")).await.ok(200);
    assert_eq!(wire.get(&format!("{EVENTS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_forgotten_after_an_hour() {
    let wire = Wire::new();
    wire.create(EVENTS, &event("old")).await;
    tokio::time::advance(Duration::from_secs(59 * 60)).await;
    wire.create(EVENTS, &event("young")).await;
    wire.get(&format!("{EVENTS}/old")).await.ok(200);
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    wire.create(EVENTS, &event("new")).await;
    assert_eq!(wire.get(&format!("{EVENTS}/old")).await.code, 404);
    wire.get(&format!("{EVENTS}/young")).await.ok(200);
}
