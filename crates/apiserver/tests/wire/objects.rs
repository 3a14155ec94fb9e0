//! The life of an object's metadata: versions, generations, what the server owns, what status means.

use serde_json::{Value, json};

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn every_change_takes_the_next_version_of_the_whole_cluster() {
    let wire = Wire::new();
    let start = wire.revision().await;
    let first = wire.create(CONFIG_MAPS, &config_map("a")).await;
    let second = wire.create(SERVICES, &service("a")).await;
    let third = wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({"data": {"a": "2"}})).await;
    wire.delete(&format!("{SERVICES}/a")).await.ok(200);
    let got: Vec<u64> =
        [version(&first), version(&second), third.version()].map(|v| v.parse().unwrap()).into();
    assert_eq!(got, [start + 1, start + 2, start + 3]);
    assert_eq!(wire.revision().await, start + 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_leaves_no_trace() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.apply(&format!("{CONFIG_MAPS}/a"), "me", &config_map("a")).await.ok(201);
    wire.create(SERVICES, &service("a")).await;
    wire.apply(&format!("{WIDGETS}/a"), "me", &widget("a")).await.ok(201);
    wire.create(DEPLOYMENTS, &deployment("a")).await;
    let before = wire.revision().await;
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={before}&timeoutSeconds=1")).await;
    // Time passes: an equal write must not even touch the time of its entry in managedFields.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    for (place, original) in [
        (CONFIG_MAPS, config_map("a")),
        (SERVICES, service("a")),
        (WIDGETS, widget("a")),
        (DEPLOYMENTS, deployment("a")),
    ] {
        let path = format!("{place}/a");
        let stored = wire.get(&path).await.ok(200);
        for reply in [
            wire.put(&path, &stored).await,
            wire.patch(&path, MERGE, &json!({})).await,
            wire.patch(&path, MERGE, &json!({"metadata": {"labels": null, "name": "a"}})).await,
            wire.patch(&path, JSON_PATCH, &json!([])).await,
            wire.patch(&path, JSON_PATCH, &json!([{"op": "test", "path": "/metadata/name", "value": "a"}]))
                .await,
        ] {
            assert_eq!(reply.ok(200), stored, "{path}");
        }
        if place == CONFIG_MAPS || place == WIDGETS {
            assert_eq!(wire.apply(&path, "me", &original).await.ok(200), stored, "{path}");
        } else {
            assert_eq!(wire.patch(&path, STRATEGIC, &original).await.ok(200), stored, "{path}");
        }
    }
    assert_eq!(wire.revision().await, before);
    assert_eq!(watch.next().await, None);
}

fn deployment(name: &str) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]},
    }})
}

#[tokio::test(start_paused = true)]
async fn the_server_fills_in_what_only_it_knows() {
    let wire = Wire::new();
    let mut claimed = config_map("a");
    claimed["metadata"]["uid"] = json!("mine");
    claimed["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    claimed["metadata"]["generation"] = json!(9);
    claimed["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    claimed["metadata"]["selfLink"] = json!("/x");
    let stored = wire.create(CONFIG_MAPS, &claimed).await;
    assert_eq!(stored["metadata"]["creationTimestamp"], "2026-11-15T10:00:00Z");
    assert_eq!(uid(&stored).len(), 36);
    assert_eq!(stored["metadata"]["namespace"], "default");
    for gone in ["generation", "deletionTimestamp", "selfLink"] {
        assert_eq!(stored["metadata"].get(gone), None, "{gone}");
    }
    let keep = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 5,
        "deletionTimestamp": "2001-01-01T00:00:00Z"}});
    let patched = wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &keep).await.ok(200);
    assert_eq!(patched["metadata"], stored["metadata"]);
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_ends_in_five_letters_of_a_safe_alphabet() {
    let wire = Wire::new();
    for (prefix, length) in [("web-", 9), ("x".repeat(80).as_str(), 63)] {
        let body = json!({"metadata": {"generateName": prefix}, "data": {}});
        let name = wire.create(CONFIG_MAPS, &body).await["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(name.len(), length);
        assert!(
            name[length - 5..].bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
            "{name}"
        );
    }
    let reply = wire.post(CONFIG_MAPS, &json!({"data": {}})).await;
    let message =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    reply.refuses(422, "Invalid", message);
}

#[tokio::test(start_paused = true)]
async fn names_follow_the_rule_of_their_kind() {
    let wire = Wire::new();
    let long = "x".repeat(254);
    let cases = [
        (CONFIG_MAPS, "A", "FieldValueInvalid"),
        (CONFIG_MAPS, "a_b", "FieldValueInvalid"),
        (CONFIG_MAPS, "-a", "FieldValueInvalid"),
        (CONFIG_MAPS, "a/b", "FieldValueInvalid"),
        (CONFIG_MAPS, long.as_str(), "FieldValueInvalid"),
        (SERVICES, "1a", "FieldValueInvalid"),
        (SERVICES, "a.b", "FieldValueInvalid"),
        (NAMESPACES, "a.b", "FieldValueInvalid"),
        (NAMESPACES, "UP", "FieldValueInvalid"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "a/b", "FieldValueInvalid"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "..", "FieldValueInvalid"),
    ];
    for (place, name, reason) in cases {
        let mut body = if place == SERVICES { service(name) } else { json!({"metadata": {"name": name}}) };
        body["metadata"]["name"] = json!(name);
        let reply = wire.post(place, &body).await;
        assert_eq!((reply.code, &reply.json["reason"]), (422, &json!("Invalid")), "{name}: {}", reply.json);
        assert!(reply.causes().contains(&("metadata.name", reason)), "{name}: {}", reply.json);
    }
    for (place, name) in [(CONFIG_MAPS, "a.b-c"), (CONFIG_MAPS, "1"), (CONFIG_MAPS, &long[1..])] {
        wire.create(place, &config_map(name)).await;
    }
    wire.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &json!({"metadata": {"name": "system:A_b"}}),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_update_for_another_object_of_that_name_is_a_conflict() {
    let wire = Wire::new();
    let mut object = wire.create(CONFIG_MAPS, &config_map("a")).await;
    let had = uid(&object).to_owned();
    object["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let message = format!(
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, \
         Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         UID in precondition: 11111111-2222-3333-4444-555555555555, UID in object meta: {had}"
    );
    wire.put(&format!("{CONFIG_MAPS}/a"), &object).await.refuses(409, "Conflict", &message);
    let odd = json!({"metadata": {"resourceVersion": "x"}});
    let reply = wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &odd).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("metadata.resourceVersion", "FieldValueInvalid")]));
    let future = json!({"metadata": {"resourceVersion": "99999999999999"}});
    let reply = wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &future).await;
    assert_eq!((reply.code, &reply.json["reason"]), (409, &json!("Conflict")));
}

#[tokio::test(start_paused = true)]
async fn a_put_to_a_free_name_creates_only_what_may_be_created_that_way() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let slice = json!({"metadata": {"name": "new"}, "addressType": "IPv4", "endpoints": []});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = json!({"metadata": {"name": "new"}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    let event = json!({"metadata": {"name": "new"}, "involvedObject": {"namespace": "default"}});
    let creates = [
        (SERVICES.to_owned(), service("new")),
        (LEASES.to_owned(), json!({"metadata": {"name": "new"}, "spec": {}})),
        ("/api/v1/namespaces/default/endpoints".to_owned(), json!({"metadata": {"name": "new"}})),
        ("/api/v1/namespaces/default/events".to_owned(), event),
        ("/api/v1/namespaces/default/limitranges".to_owned(), json!({"metadata": {"name": "new"}})),
        (format!("{rbac}/clusterroles"), json!({"metadata": {"name": "new"}})),
        (format!("{rbac}/clusterrolebindings"), binding),
        (format!("{rbac}/namespaces/default/roles"), json!({"metadata": {"name": "new"}})),
    ];
    for (place, mut body) in creates {
        // The version of an object that is gone is no reason to refuse.
        body["metadata"]["resourceVersion"] = "1".into();
        let stored = wire.put(&format!("{place}/new"), &body).await.ok(201);
        assert_eq!(stored["metadata"]["name"], "new", "{place}");
    }
    let refuses = [
        (CONFIG_MAPS, config_map("new")),
        (SLICES, slice),
        (PODS, pod("new")),
        (WIDGETS, widget("new")),
        (NAMESPACES, namespace("new")),
        (DEPLOYMENTS, deployment("new")),
    ];
    for (place, body) in refuses {
        assert_eq!(wire.put(&format!("{place}/new"), &body).await.code, 404, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_not_replaced_by_one_with_its_uid() {
    let wire = Wire::new();
    for (place, subject, key) in
        [(SERVICES, "services", "services/specs"), (LEASES, "leases.coordination.k8s.io", "leases")]
    {
        let body = json!({"metadata": {"name": "gone", "uid": "u"}, "spec": {"ports": [{"port": 80}]}});
        let body = if place == SERVICES { body } else { json!({"metadata": {"name": "gone", "uid": "u"}}) };
        let message = format!(
            "Operation cannot be fulfilled on {subject} \"gone\": StorageError: invalid object, Code: 4, \
             Key: /registry/{key}/default/gone, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: u, UID in object meta: "
        );
        wire.put(&format!("{place}/gone"), &body).await.refuses(409, "Conflict", &message);
    }
    // What no PUT creates is simply not there.
    let body = json!({"metadata": {"name": "gone", "uid": "u"}});
    let message = "configmaps \"gone\" not found";
    wire.put(&format!("{CONFIG_MAPS}/gone"), &body).await.refuses(404, "NotFound", message);
}

/// A kind, an object of it, and patches with whether they move the generation.
type Moves = (&'static str, Value, Vec<(Value, bool)>);

#[tokio::test(start_paused = true)]
async fn each_kind_counts_generations_by_its_own_rule() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    let note = json!({"metadata": {"annotations": {"n": "1"}}});
    let slice =
        json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
    let cases: Vec<Moves> = vec![
        (
            WIDGETS,
            widget("a"),
            vec![
                (json!({"spec": {"size": 4}}), true),
                (label.clone(), false),
                (note.clone(), false),
                (json!({"status": {"replicas": 1}}), false),
            ],
        ),
        (
            SLICES,
            slice,
            vec![
                (json!({"endpoints": [{"addresses": ["10.0.0.2"]}]}), true),
                (label.clone(), true),
                (note.clone(), false),
            ],
        ),
        (
            DEPLOYMENTS,
            deployment("a"),
            vec![(json!({"spec": {"replicas": 3}}), true), (note.clone(), true), (label.clone(), false)],
        ),
        (PODS, pod("a"), vec![(label.clone(), false), (json!({"spec": {"activeDeadlineSeconds": 9}}), true)]),
    ];
    for (place, object, patches) in cases {
        let mut generation = wire.create(place, &object).await["metadata"]["generation"].as_i64().unwrap();
        assert_eq!(generation, 1, "{place}");
        for (patch, moves) in patches {
            generation += i64::from(moves);
            let after = wire.patch(&format!("{place}/a"), MERGE, &patch).await.ok(200);
            assert_eq!(after["metadata"]["generation"], generation, "{place} {patch}");
        }
    }
    for (place, object) in [
        (SERVICES, service("g")),
        (NAMESPACES, namespace("g")),
        (CONFIG_MAPS, config_map("g")),
        (LEASES, json!({"metadata": {"name": "g"}})),
        ("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "g"}})),
    ] {
        assert_eq!(wire.create(place, &object).await["metadata"].get("generation"), None, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_status_subresource_status_is_content_like_any_other() {
    let wire = Wire::new();
    let mut definition = widgets();
    definition["spec"]["versions"][0]["subresources"] = json!({});
    definition["spec"]["versions"][1]["subresources"] = json!({});
    wire.create(DEFINITIONS, &definition).await;
    let mut object = widget("a");
    object["status"] = json!({"replicas": 1});
    let stored = wire.create(WIDGETS, &object).await;
    assert_eq!(stored["status"], json!({"replicas": 1}));
    let patch = json!({"status": {"replicas": 2}});
    let after = wire.patch(&format!("{WIDGETS}/a"), MERGE, &patch).await.ok(200);
    assert_eq!((&after["metadata"]["generation"], &after["status"]["replicas"]), (&json!(2), &json!(2)));
    let reply = wire.patch(&format!("{WIDGETS}/a/status"), MERGE, &patch).await;
    reply.refuses(404, "NotFound", "the server could not find the requested resource");
}

#[tokio::test(start_paused = true)]
async fn the_object_and_its_status_are_written_through_different_doors() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let mut object = widget("a");
    object["status"] = json!({"replicas": 7});
    let stored = wire.create(WIDGETS, &object).await;
    assert_eq!(stored.get("status"), None, "a new object has no status yet");

    let both = json!({"spec": {"size": 5}, "status": {"replicas": 5},
        "metadata": {"labels": {"l": "1"}, "finalizers": ["example.com/x"]}});
    let after = wire.patch(&format!("{WIDGETS}/a/status"), MERGE, &both).await.ok(200);
    assert_eq!((&after["spec"]["size"], &after["status"]["replicas"]), (&json!(3), &json!(5)));
    assert_eq!((after["metadata"].get("labels"), after["metadata"].get("finalizers")), (None, None));
    assert_eq!(after["metadata"]["generation"], 1);
    let after = wire
        .patch(&format!("{WIDGETS}/a"), MERGE, &json!({"spec": {"size": 6}, "status": {"replicas": 9}}))
        .await;
    let after = after.ok(200);
    assert_eq!((&after["spec"]["size"], &after["status"]["replicas"]), (&json!(6), &json!(5)));
    assert_eq!(after["metadata"]["generation"], 2);

    let mut stale = wire.get(&format!("{WIDGETS}/a")).await.json;
    wire.patch(&format!("{WIDGETS}/a"), MERGE, &json!({"spec": {"size": 7}})).await.ok(200);
    stale["status"] = json!({"replicas": 1});
    assert_eq!(wire.put(&format!("{WIDGETS}/a/status"), &stale).await.code, 409);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_built_in_kind_works_the_same() {
    let wire = Wire::new();
    let mut object = service("a");
    object["spec"]["type"] = json!("LoadBalancer");
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let stored = wire.create(SERVICES, &object).await;
    assert_eq!(stored["status"], json!({"loadBalancer": {}}));
    let mut new = stored.clone();
    new["spec"]["ports"][0]["port"] = json!(81);
    new["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let after = wire.put(&format!("{SERVICES}/a/status"), &new).await.ok(200);
    assert_eq!(after["spec"], stored["spec"]);
    assert_eq!(after["status"]["loadBalancer"]["ingress"], json!([{"ip": "1.2.3.4", "ipMode": "VIP"}]));
    let back = wire.put(&format!("{SERVICES}/a"), &object).await.ok(200);
    assert_eq!(back["status"], after["status"]);
    let entry = |manager: &str, subresource: Option<&str>| {
        back["metadata"]["managedFields"].as_array().unwrap().iter().any(|entry| {
            entry["manager"] == manager && entry.get("subresource").and_then(Value::as_str) == subresource
        })
    };
    assert!(
        entry("unknown", Some("status")) && entry("unknown", None),
        "{}",
        back["metadata"]["managedFields"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_as_if_and_changes_nothing() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("kept")).await;
    let before = wire.revision().await;
    let created = wire.post(&format!("{SERVICES}?dryRun=All"), &service("a")).await.ok(201);
    assert!(created["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.96.")));
    let patch = json!({"data": {"a": "2"}});
    let patched = wire.patch(&format!("{CONFIG_MAPS}/kept?dryRun=All"), MERGE, &patch).await.ok(200);
    assert_eq!(patched["data"]["a"], "2");
    wire.apply(&format!("{CONFIG_MAPS}/new?dryRun=All"), "me", &config_map("new")).await.ok(201);
    wire.delete(&format!("{CONFIG_MAPS}/kept?dryRun=All")).await.ok(200);
    wire.delete_with(&format!("{CONFIG_MAPS}/kept"), &json!({"dryRun": ["All"]})).await.ok(200);
    wire.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.ok(200);
    assert_eq!(wire.revision().await, before);
    assert_eq!(wire.get(&format!("{CONFIG_MAPS}/kept")).await.json["data"]["a"], "1");
    let reply = wire.post(&format!("{SERVICES}?dryRun=Some"), &service("a")).await;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    assert_eq!((reply.code, reply.message()), (422, message));
}
