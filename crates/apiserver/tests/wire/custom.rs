//! Custom resources: what a definition brings and what it demands.

use serde_json::{Value, json};

use crate::client::*;

const OLD_WIDGETS: &str = "/apis/shop.example/v1beta1/namespaces/default/widgets";

async fn shop() -> Wire {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_as_soon_as_it_is_stored() {
    let wire = Wire::new();
    wire.get(WIDGETS).await.ok(404);
    let stored = wire.create(DEFINITIONS, &widgets()).await;
    let conditions: Vec<(&str, &str, &str)> = stored["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap(), c["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(
        conditions,
        [("NamesAccepted", "True", "NoConflicts"), ("Established", "True", "InitialNamesAccepted")]
    );
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(stored["spec"]["conversion"], json!({"strategy": "None"}));
    let list = wire.get(WIDGETS).await.ok(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("WidgetList"), &json!("shop.example/v1")));
}

#[tokio::test(start_paused = true)]
async fn every_version_shows_the_same_object() {
    let wire = shop().await;
    let mut old = widget("a");
    old["apiVersion"] = json!("shop.example/v1beta1");
    let created = wire.create(OLD_WIDGETS, &old).await;
    assert_eq!(created["apiVersion"], "shop.example/v1beta1");
    let new = wire.get(&format!("{WIDGETS}/a")).await.ok(200);
    assert_eq!((&new["apiVersion"], uid(&new)), (&json!("shop.example/v1"), uid(&created)));
    let patched = wire.patch(&format!("{OLD_WIDGETS}/a"), MERGE, &json!({"spec": {"size": 5}})).await.ok(200);
    assert_eq!(patched["apiVersion"], "shop.example/v1beta1");
    assert_eq!(wire.get(&format!("{WIDGETS}/a")).await.json["spec"]["size"], 5);
    let list = wire.get(OLD_WIDGETS).await.ok(200);
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]["apiVersion"]),
        (&json!("shop.example/v1beta1"), &json!("shop.example/v1beta1"))
    );
    let reply = wire.post(OLD_WIDGETS, &widget("b")).await;
    let message = "the API version in the data (shop.example/v1) does not match the expected API version (shop.example/v1beta1)";
    reply.refuses(400, "BadRequest", message);
}

#[tokio::test(start_paused = true)]
async fn objects_outlive_the_version_they_were_stored_in() {
    let wire = shop().await;
    wire.create(WIDGETS, &widget("a")).await;
    let store = |version: usize, is_it: bool| json!({"op": "replace", "path": format!("/spec/versions/{version}/storage"), "value": is_it});
    let other = json!([store(0, false), store(1, true)]);
    wire.patch(&format!("{DEFINITIONS}/widgets.shop.example"), JSON_PATCH, &other).await.ok(200);
    for (place, version) in [(WIDGETS, "shop.example/v1"), (OLD_WIDGETS, "shop.example/v1beta1")] {
        assert_eq!(wire.get(&format!("{place}/a")).await.ok(200)["apiVersion"], version);
        assert_eq!(wire.get(place).await.ok(200)["items"][0]["apiVersion"], version);
        let mut watch = wire.watch(place).await;
        assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], version);
    }
    let path = format!("{OLD_WIDGETS}/a");
    let stored = wire.get(&path).await.ok(200);
    let status = json!({"status": {"replicas": 1}});
    let patched = wire.patch(&format!("{path}/status"), MERGE, &status).await.ok(200);
    assert_eq!(patched["apiVersion"], "shop.example/v1beta1");
    let now = version(&patched).to_owned();
    assert_ne!(version(&stored), now);
    let unchanged = wire.patch(&path, MERGE, &json!({})).await.ok(200);
    assert_eq!(version(&unchanged), now, "any write brought it into the new version");
    wire.patch(&format!("{path}/scale"), MERGE, &json!({"spec": {"replicas": 2}})).await.ok(200);
    wire.delete(&format!("{WIDGETS}/a")).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_and_told_as_the_client_wishes() {
    let wire = shop().await;
    let mut odd = widget("a");
    odd["spec"]["zz"] = json!({"deep": 1});
    odd["spec"]["free"] = json!({"anything": {"goes": [1]}});
    odd["metadata"]["nope"] = json!(1);
    for (query, warns) in [("", true), ("?fieldValidation=Warn", true), ("?fieldValidation=Ignore", false)] {
        let reply = wire.post(&format!("{WIDGETS}{query}"), &odd).await;
        let mut warnings = reply.warnings();
        warnings.sort_unstable();
        let expected: &[&str] = if warns {
            &["299 - \"unknown field \\\"metadata.nope\\\"\"", "299 - \"unknown field \\\"spec.zz\\\"\""]
        } else {
            &[]
        };
        assert_eq!(warnings, expected, "{query}");
        let stored = reply.ok(201);
        assert_eq!(stored["spec"], json!({"size": 3, "colour": "red", "free": {"anything": {"goes": [1]}}}));
        assert_eq!(stored["metadata"].get("nope"), None);
        wire.delete(&format!("{WIDGETS}/a")).await.ok(200);
    }
    assert_eq!(wire.post(&format!("{WIDGETS}?fieldValidation=Strict"), &odd).await.code, 400);
    let reply = wire.post(&format!("{WIDGETS}?fieldValidation=Some"), &odd).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("fieldValidation", "FieldValueNotSupported")]));
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_treat_unknown_fields_the_same() {
    let wire = Wire::new();
    let mut odd = service("a");
    odd["spec"]["zz"] = json!(1);
    odd["spec"]["ports"][0]["yy"] = json!(1);
    let reply = wire.post(SERVICES, &odd).await;
    let mut warnings = reply.warnings();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        ["299 - \"unknown field \\\"spec.ports[0].yy\\\"\"", "299 - \"unknown field \\\"spec.zz\\\"\""]
    );
    let stored = reply.ok(201);
    assert!(stored["spec"].get("zz").is_none() && stored["spec"]["ports"][0].get("yy").is_none());
    let reply =
        wire.patch(&format!("{SERVICES}/a?fieldValidation=Strict"), MERGE, &json!({"spec": {"zz": 1}})).await;
    let message = "Service in version \"v1\" cannot be handled as a Service: strict decoding error: unknown field \"spec.zz\"";
    reply.refuses(400, "BadRequest", message);
}

#[tokio::test(start_paused = true)]
async fn the_schema_defaults_and_validates_in_known_words() {
    let wire = shop().await;
    assert_eq!(wire.create(WIDGETS, &widget("ok")).await["spec"]["colour"], "red");
    let prefix = "Widget.shop.example \"a\" is invalid: ";
    let cases = [
        (json!({}), "spec.size: Required value", "FieldValueRequired"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            "FieldValueInvalid",
        ),
        (
            json!({"size": 11}),
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
            "FieldValueInvalid",
        ),
        (
            json!({"size": 1, "colour": "blue"}),
            "spec.colour: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
            "FieldValueNotSupported",
        ),
        (
            json!({"size": 1, "name": "ABC"}),
            "spec.name: Invalid value: \"ABC\": spec.name in body should match '^[a-z]+$'",
            "FieldValueInvalid",
        ),
        (
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
            "FieldValueTypeInvalid",
        ),
        (
            json!({"size": 1, "parts": [{"name": "p"}, {"name": "p"}]}),
            "spec.parts[1]: Duplicate value: {\"name\":\"p\"}",
            "FieldValueDuplicate",
        ),
        (
            json!({"size": 1, "tags": ["t", "t"]}),
            "spec.tags[1]: Duplicate value: \"t\"",
            "FieldValueDuplicate",
        ),
        (json!({"size": 1, "replicas": 2}), "spec: Invalid value: too many replicas", "FieldValueInvalid"),
    ];
    for (spec, message, reason) in cases {
        let mut object = widget("a");
        object["spec"] = spec;
        let reply = wire.post(WIDGETS, &object).await;
        assert_eq!((reply.code, &reply.json["reason"]), (422, &json!("Invalid")), "{}", reply.json);
        let first = reply.causes()[0].1.to_owned();
        assert_eq!(first, reason, "{}", reply.json);
        let (field, _) = message.split_once(": ").unwrap();
        assert_eq!(reply.causes()[0].0, field);
        if message.contains("too many replicas") {
            assert!(
                reply.message().starts_with(&format!("{prefix}spec: Invalid value: ")),
                "{}",
                reply.message()
            );
            assert!(reply.message().ends_with(": too many replicas"), "{}", reply.message());
        } else {
            assert!(reply.message().contains(message), "{}\n{message}", reply.message());
            assert!(reply.message().starts_with(prefix), "{}", reply.message());
        }
    }
    let mut long = widget("a");
    long["spec"]["name"] = json!("abcdef");
    let reply = wire.post(WIDGETS, &long).await;
    assert!(
        reply.message().contains("spec.name: Too long: may not be more than 5 bytes"),
        "{}",
        reply.message()
    );
}

#[tokio::test(start_paused = true)]
async fn rules_may_compare_with_what_was_stored() {
    let wire = shop().await;
    let mut object = widget("a");
    object["spec"]["frozen"] = json!("x");
    wire.create(WIDGETS, &object).await;
    let path = format!("{WIDGETS}/a");
    let reply = wire.patch(&path, MERGE, &json!({"spec": {"frozen": "y"}})).await;
    let message =
        "Widget.shop.example \"a\" is invalid: spec.frozen: Invalid value: \"y\": frozen may not change";
    reply.refuses(422, "Invalid", message);
    wire.patch(&path, MERGE, &json!({"spec": {"frozen": null}})).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn printer_columns_make_the_table() {
    let wire = shop().await;
    wire.create(WIDGETS, &widget("a")).await;
    let status = json!({"status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]}});
    wire.patch(&format!("{WIDGETS}/a/status"), MERGE, &status).await.ok(200);
    let table = wire.get_as(TABLE, WIDGETS).await.ok(200);
    let columns: Vec<(&str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["priority"].as_i64().unwrap()))
        .collect();
    assert_eq!(columns, [("Name", 0), ("Colour", 0), ("Ready", 0), ("Since", 1)]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red", "True", "0s"]));

    let mut plain = widgets();
    for place in 0..2 {
        plain["spec"]["versions"][place].as_object_mut().unwrap().remove("additionalPrinterColumns");
    }
    let wire = Wire::new();
    wire.create(DEFINITIONS, &plain).await;
    wire.create(WIDGETS, &widget("a")).await;
    let table = wire.get_as(TABLE, WIDGETS).await.ok(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Age");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "0s"]));
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_custom_resource_follows_its_paths() {
    let wire = shop().await;
    let mut object = widget("a");
    object["spec"]["replicas"] = json!(1);
    wire.create(WIDGETS, &object).await;
    wire.patch(&format!("{WIDGETS}/a/status"), MERGE, &json!({"status": {"replicas": 1, "selector": "a=b"}}))
        .await
        .ok(200);
    let path = format!("{WIDGETS}/a/scale");
    let scale = wire.get(&path).await.ok(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 1}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    let after = wire.patch(&path, MERGE, &json!({"spec": {"replicas": 3}})).await.ok(200);
    assert_eq!(after["spec"]["replicas"], 3);
    let stored = wire.get(&format!("{WIDGETS}/a")).await.json;
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(3), &json!(2)));
    let mut stale = scale.clone();
    stale["spec"]["replicas"] = json!(2);
    assert_eq!(wire.put(&path, &stale).await.code, 409);
    let reply = wire.patch(&path, MERGE, &json!({"spec": {"replicas": -1}})).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("spec.replicas", "FieldValueInvalid")]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_goes_after_its_instances_and_they_after_their_finalizers() {
    let wire = shop().await;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    wire.create(WIDGETS, &held).await;
    wire.create(WIDGETS, &widget("free")).await;
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let dying = wire.delete(&path).await.ok(200);
    assert_eq!(dying["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(names(&wire.get(WIDGETS).await.ok(200)), ["held"]);
    let reply = wire.post(WIDGETS, &widget("late")).await;
    reply.refuses(
        405,
        "MethodNotAllowed",
        "create not allowed while custom resource definition is terminating",
    );
    wire.patch(&format!("{WIDGETS}/held"), MERGE, &json!({"metadata": {"finalizers": null}})).await.ok(200);
    wire.get(&path).await.ok(404);
    let gone = wire.get(WIDGETS).await;
    assert_eq!((gone.code, &gone.body[..]), (404, &b"404 page not found\n"[..]));

    wire.create(DEFINITIONS, &widgets()).await;
    assert_eq!(names(&wire.get(WIDGETS).await.ok(200)), Vec::<&str>::new());
    wire.create(WIDGETS, &widget("free")).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_custom_resource_sees_its_definition_take_it_away() {
    let wire = shop().await;
    wire.create(WIDGETS, &widget("a")).await;
    let now = wire.revision().await;
    let watch = wire.watch(&format!("{WIDGETS}?resourceVersion={now}&timeoutSeconds=30")).await;
    wire.delete(&format!("{DEFINITIONS}/widgets.shop.example")).await.ok(200);
    assert_eq!(watch.summary().await, [("DELETED".to_owned(), "a".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_custom_resource_ends_when_its_definition_becomes_another_one() {
    let wire = shop().await;
    let definition = format!("{DEFINITIONS}/widgets.shop.example");
    let mut watch = wire.watch(WIDGETS).await;
    wire.patch(&definition, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    wire.create(WIDGETS, &widget("a")).await;
    assert_eq!(watch.event().await.0, "ADDED", "what is served is still the same");
    let began = tokio::time::Instant::now();
    let other = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
    wire.patch(&definition, JSON_PATCH, &other).await.ok(200);
    assert_eq!((watch.next().await, began.elapsed().as_secs()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn definitions_that_make_no_sense_are_refused() {
    let wire = Wire::new();
    let change = |pointer: &str, value: Value| {
        let mut definition = widgets();
        *definition.pointer_mut(pointer).unwrap() = value;
        definition
    };
    let cases = [
        (change("/metadata/name", json!("other.shop.example")), "metadata.name"),
        (change("/spec/versions/1/storage", json!(true)), "spec.versions"),
        (change("/spec/versions/0/storage", json!(false)), "spec.versions"),
        (change("/spec/scope", json!("Everywhere")), "spec.scope"),
        (change("/spec/names/kind", json!("")), "spec.names.kind"),
        (
            change(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size",
                json!({"minimum": 1}),
            ),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].type",
        ),
    ];
    for (definition, field) in cases {
        let reply = wire.post(DEFINITIONS, &definition).await;
        assert_eq!((reply.code, &reply.json["reason"]), (422, &json!("Invalid")), "{field}: {}", reply.json);
        assert!(reply.causes().iter().any(|(found, _)| *found == field), "{field}: {:?}", reply.causes());
        assert_eq!(reply.json["details"]["kind"], "CustomResourceDefinition");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_definition_is_about_cannot_change() {
    let wire = shop().await;
    let path = format!("{DEFINITIONS}/widgets.shop.example");
    let reply = wire.patch(&path, MERGE, &json!({"spec": {"scope": "Cluster"}})).await;
    assert_eq!(
        (reply.code, reply.causes()),
        (422, vec![("spec.scope", "FieldValueInvalid")]),
        "{}",
        reply.json
    );
    let reply = wire.patch(&path, MERGE, &json!({"spec": {"group": "other.example"}})).await;
    assert_eq!(reply.code, 422, "{}", reply.json);
    // Short names may.
    let after = wire.patch(&path, MERGE, &json!({"spec": {"names": {"shortNames": ["wid"]}}})).await.ok(200);
    assert_eq!(after["status"]["acceptedNames"]["shortNames"], json!(["wid"]));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_longer_served_is_gone() {
    let wire = shop().await;
    wire.create(WIDGETS, &widget("a")).await;
    let unserve = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    wire.patch(&format!("{DEFINITIONS}/widgets.shop.example"), JSON_PATCH, &unserve).await.ok(200);
    wire.get(OLD_WIDGETS).await.ok(404);
    wire.get(&format!("{WIDGETS}/a")).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn custom_objects_must_say_what_they_are() {
    let wire = shop().await;
    let reply = wire.post(WIDGETS, &json!({"metadata": {"name": "a"}, "spec": {"size": 1}})).await;
    assert_eq!((reply.code, &reply.json["reason"]), (400, &json!("BadRequest")), "{}", reply.json);
    assert!(reply.message().contains("Object 'Kind' is missing in '{"), "{}", reply.message());
    // Built-in kinds are known by the path.
    wire.create(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
}
