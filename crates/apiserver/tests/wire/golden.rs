//! Answers seen on a real API server, one by one.

use serde_json::{Value, json};

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_not_found_by_name_and_plural() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let cases = [
        (SERVICES, "services \"nope\" not found", json!({"name": "nope", "kind": "services"})),
        (
            DEPLOYMENTS,
            "deployments.apps \"nope\" not found",
            json!({"name": "nope", "group": "apps", "kind": "deployments"}),
        ),
        (
            WIDGETS,
            "widgets.shop.example \"nope\" not found",
            json!({"name": "nope", "group": "shop.example", "kind": "widgets"}),
        ),
        (NAMESPACES, "namespaces \"nope\" not found", json!({"name": "nope", "kind": "namespaces"})),
    ];
    for (place, message, details) in cases {
        let path = format!("{place}/nope");
        for reply in [
            wire.get(&path).await,
            wire.delete(&path).await,
            wire.patch(&path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await,
        ] {
            reply.refuses(404, "NotFound", message);
            assert_eq!(reply.json["details"], details);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_lists_empty_and_takes_nothing() {
    let wire = Wire::new();
    let list = wire.get("/api/v1/namespaces/nowhere/services").await.ok(200);
    assert_eq!(
        (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
        (Some("ServiceList"), Some(0))
    );
    let reply = wire.post("/api/v1/namespaces/nowhere/services", &service("a")).await;
    reply.refuses(404, "NotFound", "namespaces \"nowhere\" not found");
    assert_eq!(reply.json["details"], json!({"name": "nowhere", "kind": "namespaces"}));
}

#[tokio::test(start_paused = true)]
async fn a_write_with_an_old_version_is_a_conflict() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let cases = [
        (CONFIG_MAPS, config_map("a"), "configmaps"),
        (WIDGETS, widget("a"), "widgets.shop.example"),
        (LEASES, json!({"metadata": {"name": "a"}, "spec": {}}), "leases.coordination.k8s.io"),
    ];
    for (place, object, subject) in cases {
        let path = format!("{place}/a");
        let old = wire.create(place, &object).await;
        wire.patch(&path, MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.ok(200);
        let message = format!(
            "Operation cannot be fulfilled on {subject} \"a\": the object has been modified; please apply your \
             changes to the latest version and try again"
        );
        let lock = json!({"metadata": {"resourceVersion": version(&old), "labels": {"x": "z"}}});
        for reply in [wire.put(&path, &old).await, wire.patch(&path, MERGE, &lock).await] {
            reply.refuses(409, "Conflict", &message);
            assert_eq!(reply.json["details"]["name"], "a");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_already_exists_and_a_dying_one_says_so() {
    let wire = Wire::new();
    wire.create(SERVICES, &service("a")).await;
    let reply = wire.post(SERVICES, &service("a")).await;
    reply.refuses(409, "AlreadyExists", "services \"a\" already exists");
    assert_eq!(reply.json["details"], json!({"name": "a", "kind": "services"}));

    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    wire.create(CONFIG_MAPS, &held).await;
    wire.delete(&format!("{CONFIG_MAPS}/held")).await.ok(200);
    let reply = wire.post(CONFIG_MAPS, &config_map("held")).await;
    reply.refuses(409, "AlreadyExists", "object is being deleted: configmaps \"held\" already exists");
}

#[tokio::test(start_paused = true)]
async fn an_update_without_a_version_is_refused_where_the_kind_demands_one() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let lease = json!({"metadata": {"name": "a"}, "spec": {}});
    let budget = json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let cases = [
        (WIDGETS, widget("a"), "widgets.shop.example"),
        (LEASES, lease, "leases.coordination.k8s.io"),
        (budgets, budget, "poddisruptionbudgets.policy"),
    ];
    for (place, object, kind) in cases {
        wire.create(place, &object).await;
        let reply = wire.put(&format!("{place}/a"), &object).await;
        let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        reply.refuses(422, "Invalid", &format!("{kind} \"a\" is invalid: {why}"));
        assert_eq!(reply.causes(), [("metadata.resourceVersion", "FieldValueInvalid")]);
    }
    for (place, object) in
        [(CONFIG_MAPS, config_map("a")), (SERVICES, service("a")), (NAMESPACES, namespace("b"))]
    {
        let name = wire.create(place, &object).await["metadata"]["name"].clone();
        wire.put(&format!("{place}/{}", name.as_str().unwrap()), &object).await.ok(200);
    }
}

#[tokio::test(start_paused = true)]
async fn several_mistakes_come_as_several_causes() {
    let wire = Wire::new();
    let mut wrong = service("a");
    wrong["spec"]["ports"] = json!([{"port": 0, "name": "x"}, {"port": 70_000, "name": "x"}]);
    let reply = wire.post(SERVICES, &wrong).await;
    assert_eq!((reply.code, &reply.json["reason"]), (422, &json!("Invalid")));
    assert_eq!(reply.json["details"]["kind"], "Service");
    assert_eq!(reply.json["details"]["name"], "a");
    let causes = reply.causes();
    assert!(causes.contains(&("spec.ports[0].port", "FieldValueInvalid")), "{causes:?}");
    assert!(causes.contains(&("spec.ports[1].port", "FieldValueInvalid")), "{causes:?}");
    assert!(causes.contains(&("spec.ports[1].name", "FieldValueDuplicate")), "{causes:?}");
    assert!(
        reply.message().starts_with("Service \"a\" is invalid: [spec.ports[0].port: "),
        "{}",
        reply.message()
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_test_of_a_json_patch_says_no_more_than_it_must() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    for patch in [
        json!([{"op": "test", "path": "/data/a", "value": "2"}]),
        json!([{"op": "remove", "path": "/data/nope"}]),
        json!([{"op": "replace", "path": "/nope/nope", "value": 1}]),
    ] {
        let reply = wire.patch(&path, JSON_PATCH, &patch).await;
        reply.refuses(422, "Invalid", "the server rejected our request due to an error in our request");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_about_another_place_is_a_bad_request() {
    let wire = Wire::new();
    let mut other = config_map("a");
    other["metadata"]["namespace"] = json!("kube-system");
    let reply = wire.post(CONFIG_MAPS, &other).await;
    reply.refuses(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let reply = wire.put(&format!("{CONFIG_MAPS}/a"), &other).await;
    let message =
        "the namespace of the object (kube-system) does not match the namespace on the request (default)";
    reply.refuses(400, "BadRequest", message);
    let reply = wire.put(&format!("{CONFIG_MAPS}/a"), &config_map("b")).await;
    reply.refuses(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)");
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_nobody_gave_out_is_a_bad_request() {
    let wire = Wire::new();
    let base64 = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let tokens = [
        "rubbish!".to_owned(),
        base64("not json"),
        base64(r#"{"v":"other","rv":1,"start":"default/a"}"#),
        base64(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"default/a"}"#),
        base64(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
        base64(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../../secrets/a"}"#),
    ];
    for token in tokens {
        let reply = wire.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
        assert_eq!(
            (reply.code, &reply.json["reason"]),
            (400, &json!("BadRequest")),
            "{token}: {}",
            reply.json
        );
        assert!(
            reply.message().starts_with("invalid continue token: continue key is not valid"),
            "{}",
            reply.message()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn strict_decoding_names_the_kind_the_version_and_every_unknown_field() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let mut odd = service("a");
    odd["spec"]["zz"] = json!(1);
    let reply = wire.post(&format!("{SERVICES}?fieldValidation=Strict"), &odd).await;
    let message = "Service in version \"v1\" cannot be handled as a Service: strict decoding error: unknown field \"spec.zz\"";
    reply.refuses(400, "BadRequest", message);
    let mut odd = widget("a");
    odd["spec"]["zz"] = json!(1);
    odd["yy"] = json!({});
    let reply = wire.post(&format!("{WIDGETS}?fieldValidation=Strict"), &odd).await;
    let message = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: \
        unknown field \"spec.zz\", unknown field \"yy\"";
    reply.refuses(400, "BadRequest", message);
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_of_a_custom_resource_is_an_unsupported_media_type() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(WIDGETS, &widget("a")).await;
    let reply = wire.patch(&format!("{WIDGETS}/a"), STRATEGIC, &json!({"spec": {"size": 4}})).await;
    let message = "the body of the request was in an unknown format - accepted media types include: \
        application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    reply.refuses(415, "UnsupportedMediaType", message);
}

#[tokio::test(start_paused = true)]
async fn an_apply_needs_a_manager_and_may_not_bring_managed_fields() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    let reply = wire.patch(&path, APPLY, &config_map("a")).await;
    let message =
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    reply.refuses(422, "Invalid", message);
    assert_eq!(reply.causes(), [("fieldManager", "FieldValueRequired")]);
    let mut managed = config_map("a");
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let reply = wire.apply(&path, "me", &managed).await;
    reply.refuses(400, "BadRequest", "metadata.managedFields must be nil");
}

#[tokio::test(start_paused = true)]
async fn an_apply_conflict_names_the_field_and_its_owner() {
    let wire = Wire::new();
    let path = format!("{SERVICES}/a");
    let mut first = service("a");
    first["spec"]["ports"][0]["name"] = json!("http");
    wire.apply(&path, "first", &first).await.ok(201);
    let mut second = service("a");
    second["spec"]["ports"][0]["name"] = json!("web");
    let reply = wire.apply(&path, "second", &second).await;
    let field = ".spec.ports[port=80,protocol=\"TCP\"].name";
    reply.refuses(
        409,
        "Conflict",
        &format!("Apply failed with 1 conflict: conflict with \"first\": {field}"),
    );
    assert_eq!(reply.causes(), [(field, "FieldManagerConflict")]);
    assert_eq!(reply.json["details"]["causes"][0]["message"], "conflict with \"first\"");

    second["spec"]["sessionAffinity"] = json!("ClientIP");
    first["spec"]["sessionAffinity"] = json!("None");
    wire.apply(&path, "first", &first).await.ok(200);
    let reply = wire.apply(&path, "second", &second).await;
    let message = format!(
        "Apply failed with 2 conflicts: conflicts with \"first\":\n- .spec.sessionAffinity\n- {field}"
    );
    let other = format!(
        "Apply failed with 2 conflicts: conflicts with \"first\":\n- {field}\n- .spec.sessionAffinity"
    );
    assert!(reply.message() == message || reply.message() == other, "{}", reply.message());
}

#[tokio::test(start_paused = true)]
async fn initial_events_need_not_older_than_and_are_not_for_lists() {
    let wire = Wire::new();
    let forbidden = |field: &str, why: &str| {
        format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {why}")
    };
    let requires = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let unless = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let list = "sendInitialEvents is forbidden for list";
    let cases = [
        ("watch=true&sendInitialEvents=true", forbidden("resourceVersionMatch", requires)),
        ("watch=true&sendInitialEvents=false", forbidden("resourceVersionMatch", requires)),
        ("watch=true&resourceVersionMatch=NotOlderThan", forbidden("resourceVersionMatch", unless)),
        ("sendInitialEvents=true", forbidden("sendInitialEvents", list)),
        ("sendInitialEvents=false", forbidden("sendInitialEvents", list)),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
            forbidden("sendInitialEvents", list),
        ),
    ];
    for (query, message) in cases {
        wire.get(&format!("{CONFIG_MAPS}?{query}")).await.refuses(422, "Invalid", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn some_kinds_answer_a_delete_with_the_object_and_the_rest_with_a_status() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let account = json!({"metadata": {"name": "a"}});
    for (place, object, kind) in [
        (PODS, pod("a"), "Pod"),
        (SERVICES, service("a"), "Service"),
        ("/api/v1/namespaces/default/serviceaccounts", account.clone(), "ServiceAccount"),
        (NAMESPACES, namespace("a"), "Namespace"),
    ] {
        wire.create(place, &object).await;
        let gone = wire.delete(&format!("{place}/a")).await.ok(200);
        assert_eq!((&gone["kind"], &gone["metadata"]["name"]), (&json!(kind), &json!("a")));
    }
    for (place, object, details) in [
        (CONFIG_MAPS, config_map("a"), json!({"name": "a", "kind": "configmaps"})),
        (LEASES, account, json!({"name": "a", "group": "coordination.k8s.io", "kind": "leases"})),
        (WIDGETS, widget("a"), json!({"name": "a", "group": "shop.example", "kind": "widgets"})),
    ] {
        let mut expected = details;
        expected["uid"] = wire.create(place, &object).await["metadata"]["uid"].clone();
        let gone = wire.delete(&format!("{place}/a")).await.ok(200);
        assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
        assert_eq!(gone["details"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_finalizers_hold_up_answers_with_the_object_and_so_does_the_patch_that_lets_go() {
    let wire = Wire::new();
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    wire.create(CONFIG_MAPS, &held).await;
    let path = format!("{CONFIG_MAPS}/a");
    let dying = wire.delete(&path).await.ok(200);
    assert_eq!(
        (&dying["kind"], &dying["metadata"]["deletionGracePeriodSeconds"]),
        (&json!("ConfigMap"), &json!(0))
    );
    let last = wire.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(last["metadata"]["name"], "a");
    assert_eq!(last["metadata"].get("finalizers"), None);
    wire.get(&path).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_collection_answers_with_what_was_deleted() {
    let wire = Wire::new();
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"l": label});
        wire.create(CONFIG_MAPS, &object).await;
    }
    let gone = wire.delete(&format!("{CONFIG_MAPS}?labelSelector=l%3Dx")).await.ok(200);
    assert_eq!((&gone["kind"], names(&gone)), (&json!("ConfigMapList"), vec!["a", "c"]));
    assert_eq!(names(&wire.get(CONFIG_MAPS).await.json), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_new_enters_a_namespace_that_is_on_its_way_out() {
    let wire = Wire::new();
    wire.create(NAMESPACES, &namespace("going")).await;
    wire.delete(&format!("{NAMESPACES}/going")).await.ok(200);
    let reply = wire.post("/api/v1/namespaces/going/configmaps", &config_map("a")).await;
    let why = "unable to create new content in namespace going because it is being terminated";
    reply.refuses(403, "Forbidden", &format!("configmaps \"a\" is forbidden: {why}"));
    assert_eq!(reply.json["details"]["name"], "a");
    assert_eq!(reply.causes(), [("metadata.namespace", "NamespaceTerminating")]);
    let message = "namespace going is being terminated";
    assert_eq!(reply.json["details"]["causes"][0]["message"], message);
}

#[tokio::test(start_paused = true)]
async fn a_version_has_no_place_in_a_new_object() {
    let wire = Wire::new();
    let mut object = config_map("a");
    object["metadata"]["resourceVersion"] = json!("5");
    let reply = wire.post(CONFIG_MAPS, &object).await;
    reply.refuses(500, "", "resourceVersion should not be set on objects to be created");
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_are_plain_text_and_unknown_resources_a_status() {
    let wire = Wire::new();
    for path in
        ["/nope", "/apis/nope/v1", "/apis/nope", "/api/v2", "/apis/apps/v2/deployments", "/openapi/v3/x"]
    {
        let reply = wire.get(path).await;
        assert_eq!((reply.code, &reply.body[..]), (404, &b"404 page not found\n"[..]), "{path}");
        assert!(reply.headers["content-type"].to_str().unwrap().starts_with("text/plain"), "{path}");
    }
    for path in
        ["/api/v1/nope", "/apis/apps/v1/namespaces/default/nope/a", "/api/v1/namespaces/default/pods/a/nope"]
    {
        let reply = wire.get(path).await;
        reply.refuses(404, "NotFound", "the server could not find the requested resource");
        assert_eq!(reply.json["details"], Value::Object(Default::default()), "{path}");
    }
    for (method, path) in
        [("PUT", CONFIG_MAPS), ("POST", "/api/v1/namespaces/default/configmaps/a"), ("PATCH", PODS)]
    {
        let reply = wire.call(method, path, JSON, "{}").await;
        let message = "the server does not allow this method on the requested resource";
        reply.refuses(405, "MethodNotAllowed", message);
    }
}
