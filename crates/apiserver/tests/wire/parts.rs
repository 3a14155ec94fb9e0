//! What may be written through a part of an object, and who is written down for it.

use serde_json::{Value, json};

use crate::client::*;

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"a": "1"}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "i"}]}}}})
}

fn entries(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let owned = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| (owned(&entry["manager"]), owned(&entry["subresource"]), entry["fieldsV1"].clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn who_scales_owns_the_replicas_and_is_written_down_with_the_part() {
    let wire = Wire::new();
    wire.create(&format!("{DEPLOYMENTS}?fieldManager=creator"), &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let patch = json!({"spec": {"replicas": 3}});
    wire.patch(&format!("{path}/scale?fieldManager=scaler"), MERGE, &patch).await.ok(200);
    let stored = wire.get(&path).await.ok(200);
    let found = entries(&stored);
    let scaler = ("scaler".to_owned(), "scale".to_owned(), json!({"f:spec": {"f:replicas": {}}}));
    assert!(found.contains(&scaler), "{found:?}");
    let creator = found.iter().find(|entry| entry.0 == "creator").unwrap();
    assert_eq!(creator.2["f:spec"].get("f:replicas"), None, "nobody else owns them any more");
    let mut scale = wire.get(&format!("{path}/scale")).await.ok(200);
    scale["metadata"]["uid"] = json!("x");
    let reply = wire.put(&format!("{path}/scale"), &scale).await;
    let message = format!(
        "Operation cannot be fulfilled on deployments/scale.apps \"web\": Precondition failed: UID in precondition: x, \
         UID in object meta: {}",
        uid(&stored)
    );
    reply.refuses(409, "Conflict", &message);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_another_type_changes_nothing() {
    let wire = Wire::new();
    let mut scaled = deployment("web");
    scaled["spec"]["replicas"] = json!(2);
    wire.create(DEPLOYMENTS, &scaled).await;
    wire.create(PODS, &pod("a")).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let wrong = json!({"spec": {"replicas": "3"}});
    let why = "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
    let message = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
    wire.put(&path, &wrong).await.refuses(400, "BadRequest", &message);
    wire.patch(&path, MERGE, &wrong).await.refuses(400, "BadRequest", &message);
    assert_eq!(wire.get(&path).await.ok(200)["spec"]["replicas"], 2);
    let eviction = json!({"metadata": {"name": "a"}, "deleteOptions": {"dryRun": "All"}});
    let why = "json: cannot unmarshal string into Go struct field DeleteOptions.deleteOptions.dryRun of type []string";
    let message = format!("Eviction in version \"v1\" cannot be handled as a Eviction: {why}");
    wire.post(&format!("{PODS}/a/eviction"), &eviction).await.refuses(400, "BadRequest", &message);
    let binding = json!({"metadata": {"name": "a"}, "target": "n"});
    let why = "json: cannot unmarshal string into Go struct field Binding.target of type v1.ObjectReference";
    let message = format!("Binding in version \"v1\" cannot be handled as a Binding: {why}");
    wire.post(&format!("{PODS}/a/binding"), &binding).await.refuses(400, "BadRequest", &message);
    assert_eq!(wire.get(&format!("{PODS}/a")).await.ok(200)["spec"].get("nodeName"), None);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_deployment_lets_no_labels_through_and_that_of_a_pod_no_owners() {
    let wire = Wire::new();
    wire.create(DEPLOYMENTS, &deployment("web")).await;
    let patch =
        json!({"metadata": {"labels": {"b": "2"}, "annotations": {"c": "3"}}, "status": {"replicas": 1}});
    let stored = wire.patch(&format!("{DEPLOYMENTS}/web/status"), MERGE, &patch).await.ok(200);
    assert_eq!(stored["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(stored["metadata"]["annotations"], json!({"c": "3"}));
    assert_eq!(stored["status"]["replicas"], 1);

    wire.create(PODS, &pod("a")).await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "c"});
    let patch = json!({"metadata": {"labels": {"b": "2"}, "ownerReferences": [owner]}, "status": {"phase": "Running"}});
    let stored = wire.patch(&format!("{PODS}/a/status"), MERGE, &patch).await.ok(200);
    assert_eq!(stored["metadata"].get("ownerReferences"), None);
    assert_eq!(stored["metadata"]["labels"], json!({"b": "2"}));
    let without = json!([{"op": "replace", "path": "/status", "value": {"phase": "Running"}}]);
    let kept = wire.patch(&format!("{PODS}/a/status"), JSON_PATCH, &without).await.ok(200);
    assert_eq!(kept["status"]["qosClass"], "BestEffort");
}

#[tokio::test(start_paused = true)]
async fn what_a_status_does_not_let_through_is_neither_owned_nor_fought_over() {
    let wire = Wire::new();
    wire.apply(&format!("{DEPLOYMENTS}/web"), "creator", &deployment("web")).await.ok(201);
    let mut status = deployment("web");
    status["metadata"]["labels"] = json!({"a": "2"});
    status["metadata"]["annotations"] = json!({"c": "3"});
    status["status"] = json!({"replicas": 1});
    let stored = wire.apply(&format!("{DEPLOYMENTS}/web/status"), "me", &status).await.ok(200);
    assert_eq!(stored["metadata"]["labels"], json!({"a": "1"}));
    let found = entries(&stored);
    let fields = json!({"f:metadata": {"f:annotations": {"f:c": {}}}, "f:status": {"f:replicas": {}}});
    assert!(found.contains(&("me".to_owned(), "status".to_owned(), fields)), "{found:?}");

    let owner = |uid: &str| json!([{"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": uid}]);
    let mut body = pod("a");
    body["metadata"]["ownerReferences"] = owner("c");
    wire.apply(&format!("{PODS}/a"), "creator", &body).await.ok(201);
    body["metadata"]["ownerReferences"][0]["name"] = json!("other");
    body["status"] = json!({"phase": "Running"});
    let stored = wire.apply(&format!("{PODS}/a/status"), "me", &body).await.ok(200);
    assert_eq!(stored["metadata"]["ownerReferences"], owner("c"));
    let found = entries(&stored);
    let fields = json!({"f:status": {"f:phase": {}}});
    assert!(found.contains(&("me".to_owned(), "status".to_owned(), fields)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_owns_where_a_pod_runs() {
    let wire = Wire::new();
    wire.create(&format!("{PODS}?fieldManager=creator"), &pod("a")).await;
    let binding = json!({"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "a"}});
    wire.post(&format!("{PODS}/a/binding?fieldManager=scheduler"), &binding).await.ok(201);
    let stored = wire.get(&format!("{PODS}/a")).await.ok(200);
    assert_eq!(stored["spec"]["nodeName"], "n");
    assert_eq!(entries(&stored).iter().map(|entry| entry.0.as_str()).collect::<Vec<_>>(), ["creator"]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_names_its_pod_and_can_be_tried_without_effect() {
    let wire = Wire::new();
    wire.create(PODS, &pod("a")).await;
    let path = format!("{PODS}/a/eviction");
    let eviction = |name: &str, options: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    let reply = wire.post(&path, &eviction("b", json!({}))).await;
    reply.refuses(400, "BadRequest", "name in URL does not match name in Eviction object");
    wire.post(&path, &eviction("a", json!({"dryRun": ["All"]}))).await.ok(201);
    wire.post(&format!("{path}?dryRun=All"), &eviction("a", json!({}))).await.ok(201);
    wire.get(&format!("{PODS}/a")).await.ok(200);
    assert_eq!(wire.post(&path, &eviction("a", json!({"preconditions": {"uid": "x"}}))).await.code, 409);
    wire.post(&path, &eviction("a", json!({}))).await.ok(201);
    wire.get(&format!("{PODS}/a")).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_deployment_make_a_generation_unless_they_come_through_its_status() {
    let wire = Wire::new();
    wire.create(DEPLOYMENTS, &deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");
    for (place, value, generation) in [("", "1", 2), ("/status", "2", 2)] {
        let patch = json!({"metadata": {"annotations": {"a": value}}});
        let found = wire.patch(&format!("{path}{place}"), MERGE, &patch).await.ok(200);
        let metadata = &found["metadata"];
        assert_eq!(
            (&metadata["annotations"]["a"], &metadata["generation"]),
            (&json!(value), &json!(generation))
        );
    }
}
