//! Definitions that want the same names, and those that go.

use serde_json::{Value, json};

use crate::client::*;

/// A definition of another plural that wants the kind and the short name of widgets.
fn rivals() -> Value {
    let mut rivals = widgets();
    rivals["metadata"]["name"] = json!("rivals.shop.example");
    rivals["spec"]["names"]["plural"] = json!("rivals");
    rivals["spec"]["names"]["singular"] = json!("rival");
    rivals
}

fn condition(definition: &Value, kind: &str) -> (String, String) {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    (found["status"].as_str().unwrap().to_owned(), found["reason"].as_str().unwrap().to_owned())
}

fn owned(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_wants_a_name_of_another_is_not_served_until_that_one_is_gone() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let refused = wire.create(DEFINITIONS, &rivals()).await;
    assert_eq!(condition(&refused, "NamesAccepted"), owned("False", "ListKindConflict"));
    assert_eq!(condition(&refused, "Established"), owned("False", "NotAccepted"));
    assert_eq!(refused["status"]["acceptedNames"]["kind"], "");
    let path = "/apis/shop.example/v1/namespaces/default/rivals";
    assert_eq!(wire.get(path).await.code, 404);
    wire.get(WIDGETS).await.ok(200);
    wire.delete(&format!("{DEFINITIONS}/widgets.shop.example")).await.ok(200);
    let accepted = wire.get(&format!("{DEFINITIONS}/rivals.shop.example")).await.ok(200);
    assert_eq!(condition(&accepted, "NamesAccepted"), owned("True", "NoConflicts"));
    assert_eq!(condition(&accepted, "Established"), owned("True", "InitialNamesAccepted"));
    assert_eq!(accepted["status"]["acceptedNames"]["kind"], "Widget");
    wire.get(path).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_served_may_still_become_another_kind() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(DEFINITIONS, &rivals()).await;
    let path = format!("{DEFINITIONS}/rivals.shop.example");
    let names = json!({"kind": "Rival", "listKind": "RivalList", "singular": "rival", "shortNames": null});
    let other = json!({"spec": {"names": names, "scope": "Cluster"}});
    let served = wire.patch(&path, MERGE, &other).await.ok(200);
    assert_eq!(condition(&served, "Established"), owned("True", "InitialNamesAccepted"));
    assert_eq!(wire.get("/apis/shop.example/v1/rivals").await.ok(200)["kind"], "RivalList");
    let reply =
        wire.patch(&path, MERGE, &json!({"spec": {"names": {"kind": "Foe"}, "scope": "Namespaced"}})).await;
    let fields: Vec<&str> = reply.causes().into_iter().map(|(field, _)| field).collect();
    assert_eq!((reply.code, fields), (422, vec!["spec.scope", "spec.names.kind"]));
}

#[tokio::test(start_paused = true)]
async fn discovery_knows_the_names_that_were_given_and_not_those_that_somebody_else_has() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let mut gadgets = rivals();
    gadgets["metadata"]["name"] = json!("gadgets.shop.example");
    gadgets["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]});
    wire.create(DEFINITIONS, &gadgets).await;
    let names = json!({"singular": "widget", "listKind": "Gadgets", "shortNames": ["gd", "wd"], "categories": ["all"]});
    let path = format!("{DEFINITIONS}/gadgets.shop.example");
    let asked = wire.patch(&path, MERGE, &json!({"spec": {"names": names}})).await.ok(200);
    assert_eq!(condition(&asked, "NamesAccepted"), owned("False", "ShortNamesConflict"));
    let resources = wire.get("/apis/shop.example/v1").await.ok(200)["resources"].clone();
    let found = resources.as_array().unwrap().iter().find(|found| found["name"] == "gadgets").unwrap();
    assert_eq!(
        (&found["singularName"], &found["shortNames"], &found["categories"]),
        (&json!("gadget"), &json!(["gd"]), &json!(["all"]))
    );
    let list = wire.get("/apis/shop.example/v1/namespaces/default/gadgets").await.ok(200);
    assert_eq!(list["kind"], "Gadgets");
}

#[tokio::test(start_paused = true)]
async fn a_version_in_which_objects_were_stored_cannot_be_taken_away() {
    let wire = Wire::new();
    let mut stored = wire.create(DEFINITIONS, &widgets()).await;
    stored["spec"]["versions"][0]["storage"] = json!(false);
    stored["spec"]["versions"][1]["storage"] = json!(true);
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let mut stored = wire.put(&path, &stored).await.ok(200);
    stored["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let reply = wire.put(&path, &stored).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("status.storedVersions[0]", "FieldValueInvalid")]));
    let left = stored["spec"]["versions"][0]["name"].clone();
    wire.patch(&format!("{path}/status"), MERGE, &json!({"status": {"storedVersions": [left]}}))
        .await
        .ok(200);
    stored["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    wire.patch(&path, MERGE, &json!({"spec": {"versions": stored["spec"]["versions"]}})).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn a_definition_on_its_way_out_says_so_and_takes_its_watches_with_it() {
    let wire = Wire::new();
    let stored = wire.create(DEFINITIONS, &widgets()).await;
    let mut held = json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"size": 1}});
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    wire.create(WIDGETS, &held).await;
    let mut watch = wire.watch(WIDGETS).await;
    watch.event().await;
    let wrong = json!({"preconditions": {"uid": "x"}});
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let reply = wire.delete_with(&path, &wrong).await;
    let message = format!(
        "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"widgets.shop.example\": \
         precondition failed: UID in precondition: x, UID in object meta: {}",
        uid(&stored)
    );
    reply.refuses(409, "Conflict", &message);
    let dying = wire.delete_with(&path, &json!({"propagationPolicy": "Foreground"})).await.ok(200);
    assert_eq!(condition(&dying, "Terminating"), owned("True", "InstanceDeletionPending"));
    assert_eq!(dying["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(dying["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(dying["metadata"]["generation"], stored["metadata"]["generation"]);
    wire.patch(&format!("{WIDGETS}/a"), MERGE, &json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(wire.get(&path).await.code, 404);
    let rest = watch.summary().await;
    assert_eq!(
        rest.last().map(|(kind, _)| kind.as_str()),
        Some("DELETED"),
        "and then the watch ends: {rest:?}"
    );
}
