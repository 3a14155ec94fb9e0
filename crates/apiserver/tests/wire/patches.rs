//! Patches in all four formats, on the wire.

use serde_json::{Value, json};

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn json_patches_do_what_their_operations_say() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        (json!([{"op": "add", "path": "/data/b", "value": "2"}]), json!({"a": "1", "b": "2"})),
        (json!([{"op": "replace", "path": "/data/a", "value": "x"}]), json!({"a": "x"})),
        (json!([{"op": "move", "from": "/data/a", "path": "/data/c"}]), json!({"c": "1"})),
        (json!([{"op": "copy", "from": "/data/a", "path": "/data/c"}]), json!({"a": "1", "c": "1"})),
        (
            json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/s~1x", "value": "y"}]),
            json!({"a": "1", "s/x": "y"}),
        ),
    ];
    for (patch, data) in cases {
        wire.create(CONFIG_MAPS, &config_map("a")).await;
        let reply = wire.patch(&path, JSON_PATCH, &patch).await;
        if data.get("s/x").is_some() {
            // The key is no file name: the patch worked, the validation of ConfigMaps did, too.
            assert_eq!((reply.code, reply.causes()[0].1), (422, "FieldValueInvalid"), "{}", reply.json);
        } else {
            assert_eq!(reply.ok(200)["data"], data, "{patch}");
        }
        wire.delete(&path).await.ok(200);
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_may_test_for_absent_finalizers_before_they_add_the_first() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let add = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]},
    ]);
    let after = wire.patch(&path, JSON_PATCH, &add).await.ok(200);
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/x"]));
    assert_eq!(wire.patch(&path, JSON_PATCH, &add).await.code, 422, "the second one finds them there");
    let remove = json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/x"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let after = wire.patch(&path, JSON_PATCH, &remove).await.ok(200);
    assert!(after["metadata"].get("finalizers").is_none_or(|left| left == &json!([])));
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_deletes_with_null_and_replaces_lists() {
    let wire = Wire::new();
    wire.create(SERVICES, &service("a")).await;
    let patch = json!({"metadata": {"labels": {"x": "1", "y": null}}, "spec": {
        "selector": {"app": null, "tier": "web"}, "ports": [{"port": 81, "name": "other"}]}});
    let after = wire.patch(&format!("{SERVICES}/a"), MERGE, &patch).await.ok(200);
    assert_eq!(after["metadata"]["labels"], json!({"x": "1"}));
    assert_eq!(after["spec"]["selector"], json!({"tier": "web"}));
    assert_eq!(
        after["spec"]["ports"],
        json!([{"name": "other", "port": 81, "protocol": "TCP", "targetPort": 81}])
    );
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_merges_lists_by_their_keys() {
    let wire = Wire::new();
    let mut object = service("a");
    object["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    wire.create(SERVICES, &object).await;
    let ports = |after: &Value| -> Vec<(String, i64)> {
        let ports = after["spec"]["ports"].as_array().unwrap().iter();
        ports
            .map(|port| (port["name"].as_str().unwrap().to_owned(), port["port"].as_i64().unwrap()))
            .collect()
    };
    let path = format!("{SERVICES}/a");
    let named = |names: &[(&str, i64)]| -> Vec<(String, i64)> {
        names.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect()
    };
    let steps = [
        (json!({"spec": {"ports": [{"port": 81, "name": "renamed"}]}}), named(&[("a", 80), ("renamed", 81)])),
        (
            json!({"spec": {"ports": [{"port": 82, "name": "c"}]}}),
            named(&[("c", 82), ("a", 80), ("renamed", 81)]),
        ),
        (
            json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
            named(&[("c", 82), ("renamed", 81)]),
        ),
        (
            json!({"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 82}], "ports": [{"port": 82, "name": "d"}]}}),
            named(&[("renamed", 81), ("d", 82)]),
        ),
        (
            json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 90, "name": "only"}]}}),
            named(&[("only", 90)]),
        ),
    ];
    for (patch, expected) in steps {
        let mut got = ports(&wire.patch(&path, STRATEGIC, &patch).await.ok(200));
        let mut expected = expected;
        // Where a new element goes is not what this is about, unless the patch says it.
        if patch["spec"].get("$setElementOrder/ports").is_none() {
            got.sort();
            expected.sort();
        }
        assert_eq!(got, expected, "{patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_knows_containers_env_finalizers_and_conditions() {
    let wire = Wire::new();
    let mut object = pod("a");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    wire.create(PODS, &object).await;
    let path = format!("{PODS}/a");
    let image = json!({"spec": {"containers": [{"name": "main", "image": "new"}]}});
    let after = wire.patch(&path, STRATEGIC, &image).await.ok(200);
    assert_eq!(after["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(after["spec"]["containers"][0]["image"], "new");
    let more = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let after = wire.patch(&path, STRATEGIC, &more).await.ok(200);
    assert_eq!(after["metadata"]["finalizers"].as_array().unwrap().len(), 2);
    let less = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let after = wire.patch(&path, STRATEGIC, &less).await.ok(200);
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/b"]));
    for (kind, status) in [("Ready", "False"), ("Other", "True"), ("Ready", "True")] {
        let patch = json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        wire.patch(&format!("{path}/status"), STRATEGIC, &patch).await.ok(200);
    }
    let after = wire.get(&path).await.json;
    let mut conditions: Vec<(&str, &str)> = after["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    conditions.sort_unstable();
    assert_eq!(conditions, [("Other", "True"), ("Ready", "True")]);
}

#[tokio::test(start_paused = true)]
async fn a_patch_may_not_change_who_the_object_is() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        (json!({"metadata": {"name": "b"}}), 400),
        (json!({"metadata": {"namespace": "kube-system"}}), 400),
        (json!({"kind": "Secret"}), 400),
        (json!({"apiVersion": "v2"}), 400),
        (json!({"metadata": {"uid": "other"}}), 409),
    ];
    for (patch, code) in cases {
        assert_eq!(wire.patch(&path, MERGE, &patch).await.code, code, "{patch}");
    }
    let reply = wire.patch(&format!("{path}?force=true"), MERGE, &json!({})).await;
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    reply.refuses(422, "Invalid", message);
}

#[tokio::test(start_paused = true)]
async fn applying_creates_updates_and_takes_back_what_is_no_longer_applied() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    let body = |data: Value| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data});
    let created = wire.apply(&path, "me", &body(json!({"a": "1", "b": "2"}))).await.ok(201);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "me", "operation": "Apply", "apiVersion": "v1", "time": "2026-11-15T10:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }])
    );
    let after = wire.apply(&path, "me", &body(json!({"a": "1", "c": "3"}))).await.ok(200);
    assert_eq!(after["data"], json!({"a": "1", "c": "3"}), "b was ours and is not applied any more");
    wire.patch(&format!("{path}?fieldManager=other"), MERGE, &json!({"data": {"d": "4"}})).await.ok(200);
    let after = wire.apply(&path, "me", &body(json!({"a": "1"}))).await.ok(200);
    assert_eq!(after["data"], json!({"a": "1", "d": "4"}), "d is not ours to take");
    let managers: Vec<(&str, &str)> = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap()))
        .collect();
    assert_eq!(managers, [("me", "Apply"), ("other", "Update")]);
}

#[tokio::test(start_paused = true)]
async fn several_managers_share_and_force_takes_over() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    let body = |data: Value| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data});
    wire.apply(&path, "one", &body(json!({"x": "1", "shared": "s"}))).await.ok(201);
    wire.apply(&path, "two", &body(json!({"y": "2", "shared": "s"}))).await.ok(200);
    let after = wire.apply(&path, "one", &body(json!({"x": "1"}))).await.ok(200);
    assert_eq!(after["data"], json!({"x": "1", "y": "2", "shared": "s"}), "the other still wants it");
    let after = wire.apply(&path, "two", &body(json!({"y": "2"}))).await.ok(200);
    assert_eq!(after["data"], json!({"x": "1", "y": "2"}), "now nobody does");

    let reply = wire.apply(&path, "two", &body(json!({"x": "mine", "y": "2"}))).await;
    reply.refuses(409, "Conflict", "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let cause =
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"});
    assert_eq!(reply.json["details"], json!({"causes": [cause]}), "not a word about the object");
    let after =
        wire.apply(&format!("{path}?force=true"), "two", &body(json!({"x": "mine", "y": "2"}))).await.ok(200);
    assert_eq!(after["data"], json!({"x": "mine", "y": "2"}));
    let owners: Vec<&str> = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["two"], "one owns nothing any more");
    wire.put(&format!("{path}?fieldManager=three"), &body(json!({"x": "put", "y": "2"}))).await.ok(200);
    let reply = wire.apply(&path, "two", &body(json!({"x": "mine", "y": "2"}))).await;
    let message = reply.message();
    assert!(
        message.starts_with("Apply failed with 1 conflict: conflict with \"three\" using v1"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_are_owned_by_their_elements_where_the_kind_says_so() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let path = format!("{WIDGETS}/a");
    let body = |parts: Value, tags: Value| {
        json!({"kind": "Widget", "apiVersion": "shop.example/v1", "metadata": {"name": "a"},
            "spec": {"size": 3, "parts": parts, "tags": tags}})
    };
    wire.apply(&path, "one", &body(json!([{"name": "x", "count": 1}]), json!(["t"]))).await.ok(201);
    let after =
        wire.apply(&path, "two", &body(json!([{"name": "y", "count": 2}]), json!(["u"]))).await.ok(200);
    assert_eq!(after["spec"]["parts"], json!([{"name": "x", "count": 1}, {"name": "y", "count": 2}]));
    assert_eq!(after["spec"]["tags"], json!(["t", "u"]));
    let reply = wire.apply(&path, "two", &body(json!([{"name": "x", "count": 5}]), json!(["u"]))).await;
    reply.refuses(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.parts[name=\"x\"].count",
    );
    let after = wire.apply(&path, "one", &body(json!([]), json!([]))).await.ok(200);
    assert_eq!(after["spec"]["parts"], json!([{"name": "y", "count": 2}]));
    assert_eq!(after["spec"]["tags"], json!(["u"]));
}

#[tokio::test(start_paused = true)]
async fn applying_a_status_is_recorded_as_such_and_touches_nothing_else() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let path = format!("{WIDGETS}/a");
    wire.apply(&path, "spec-writer", &widget("a")).await.ok(201);
    let status = json!({"kind": "Widget", "apiVersion": "shop.example/v1", "metadata": {"name": "a"},
        "spec": {"size": 9}, "status": {"replicas": 2}});
    let after = wire.apply(&format!("{path}/status"), "status-writer", &status).await.ok(200);
    assert_eq!((&after["spec"]["size"], &after["status"]["replicas"]), (&json!(3), &json!(2)));
    let entry = after["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["manager"] == "status-writer")
        .unwrap();
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:replicas": {}}}))
    );
    let reply = wire.apply(&format!("{WIDGETS}/nope/status"), "status-writer", &status).await;
    assert_eq!(reply.code, 400, "the names differ");
    let mut missing = status;
    missing["metadata"]["name"] = json!("nope");
    assert_eq!(wire.apply(&format!("{WIDGETS}/nope/status"), "status-writer", &missing).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_apply_may_be_written_in_yaml() {
    let wire = Wire::new();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: |\n    one\n    two\n  flag: \"true\"\n";
    let stored = wire.call("PATCH", &format!("{CONFIG_MAPS}/a?fieldManager=me"), APPLY, yaml).await.ok(201);
    assert_eq!(stored["data"], json!({"text": "one\ntwo\n", "flag": "true"}));
    let stored = wire.call("POST", CONFIG_MAPS, YAML, yaml.replace("name: a", "name: b")).await.ok(201);
    assert_eq!(stored["data"]["flag"], "true");
}

#[tokio::test(start_paused = true)]
async fn the_manager_is_the_first_word_of_the_user_agent_when_nobody_is_named() {
    let wire = Wire::new();
    let headers = [("content-type", JSON), ("user-agent", "kubectl/v1.32.4 (linux/amd64)")];
    let reply = wire.send("POST", CONFIG_MAPS, &headers, config_map("a").to_string().into()).await.ok(201);
    assert_eq!(reply["metadata"]["managedFields"][0]["manager"], "kubectl");
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let after = wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &reset).await.ok(200);
    assert_eq!(after["metadata"].get("managedFields"), None);
}

#[tokio::test(start_paused = true)]
async fn a_manager_named_after_a_user_agent_is_printable_and_not_too_long() {
    let wire = Wire::new();
    let long = "x".repeat(200);
    let almost = format!("{}\u{e9}/1", "x".repeat(127));
    let cases = [
        (long.as_str(), &long[..128]),
        (&almost, &long[..127]),
        ("a\tb c/1", "ab c"),
        ("caf\u{e9}/1", "caf\u{e9}"),
        ("/1", "unknown"),
    ];
    for (agent, manager) in cases {
        let request = http::Request::post(format!("{CONFIG_MAPS}?dryRun=All")).header("content-type", JSON);
        let agent = http::HeaderValue::from_bytes(agent.as_bytes()).unwrap();
        let request = request.header("user-agent", agent).body(config_map("a").to_string().into()).unwrap();
        let body = http_body_util::BodyExt::collect(wire.raw(request).await.into_body()).await.unwrap();
        let stored: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        assert_eq!(stored["metadata"]["managedFields"][0]["manager"], manager);
    }
}
