//! What a real server does and nobody would expect: clients see it all the same, so it is done here, too.
//!
//! The differential test of the test kit found these; here each of them stands alone.

use serde_json::{Value, json};

use crate::client::*;

fn owned_by(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().find(|entry| entry["manager"] == manager).unwrap()["fieldsV1"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_applied_through_its_status_comes_to_be_without_an_address() {
    let wire = Wire::new();
    let mut body = service("new");
    body["metadata"]["labels"] = json!({"a": "1"});
    for (name, code) in [("new", 201), ("new", 200)] {
        let stored = wire.apply(&format!("{SERVICES}/{name}/status"), "me", &body).await.ok(code);
        assert_eq!((stored["spec"].get("clusterIP"), &stored["spec"]["type"]), (None, &json!("ClusterIP")));
        assert_eq!(owned_by(&stored, "me"), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
    }
    let patch = json!({"spec": {"sessionAffinity": "ClientIP"}});
    let stored = wire.patch(&format!("{SERVICES}/new"), MERGE, &patch).await.ok(200);
    assert_eq!(stored["spec"].get("clusterIP"), None, "and stays without one");
}

#[tokio::test(start_paused = true)]
async fn lists_of_custom_resources_say_that_nothing_follows() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    assert_eq!(wire.get(WIDGETS).await.ok(200)["metadata"]["continue"], "");
    assert_eq!(wire.get(SERVICES).await.ok(200)["metadata"].get("continue"), None);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_belongs_to_whoever_sends_it_although_nobody_keeps_it() {
    let wire = Wire::new();
    let slice = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
    let stored = wire.create(&format!("{SLICES}?fieldManager=me"), &slice).await;
    assert_eq!(stored["endpoints"], Value::Null);
    assert_eq!(owned_by(&stored, "me"), json!({"f:addressType": {}, "f:endpoints": {}}));
}

#[tokio::test(start_paused = true)]
async fn a_write_of_what_is_there_leaves_no_trace_and_a_claim_to_it_no_time() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    let body =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let first = wire.apply(&path, "one", &body).await.ok(201);
    let second = wire.apply(&path, "two", &body).await.ok(200);
    let claims = second["metadata"]["managedFields"].as_array().unwrap();
    let times: Vec<_> = claims.iter().map(|entry| (&entry["manager"], entry.get("time").is_some())).collect();
    assert_eq!(times, [(&json!("two"), false), (&json!("one"), true)]);
    assert_ne!(version(&first), version(&second));
    assert_eq!(wire.apply(&path, "two", &body).await.ok(200), second);
}

#[tokio::test(start_paused = true)]
async fn watchers_see_an_object_go_as_it_was_before_its_last_finalizer_went() {
    let wire = Wire::new();
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let created = wire.create(CONFIG_MAPS, &body).await;
    let path = format!("{CONFIG_MAPS}/a");
    let held = wire.delete(&path).await.ok(200);
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", version(&held))).await;
    let patch = json!({"metadata": {"finalizers": null}});
    let answer = wire.patch(&path, MERGE, &patch).await.ok(200);
    assert_eq!((answer["metadata"].get("finalizers"), version(&answer)), (None, version(&held)));
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["finalizers"], created["metadata"]["finalizers"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_collection_is_answered_with_what_it_was() {
    let wire = Wire::new();
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let created = wire.create(CONFIG_MAPS, &body).await;
    let gone = wire.delete(CONFIG_MAPS).await.ok(200);
    let item = gone["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "a").unwrap();
    assert_eq!(item["metadata"], created["metadata"]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_its_type_is_refused_on_the_status_too_and_named_as_it_was_sent() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(WIDGETS, &widget("a")).await;
    let mut body = widget("a");
    body["unknown"] = json!(1);
    for place in [format!("{WIDGETS}/a"), format!("{WIDGETS}/a/status")] {
        let reply = wire.apply(&place, "me", &body).await;
        let subject = "/a; shop.example/v1, Kind=Widget";
        let why = format!(
            "failed to create typed patch object ({subject}): .unknown: field not declared in schema"
        );
        assert_eq!((reply.code, reply.message()), (500, why.as_str()));
    }
}
