//! Deleting: at once, after finalizers, after a grace period.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::*;

fn held(name: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

#[tokio::test(start_paused = true)]
async fn preconditions_must_hold() {
    let wire = Wire::new();
    let object = wire.create(CONFIG_MAPS, &config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        (
            json!({"uid": "other"}),
            format!(
                "the UID in the precondition (other) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                uid(&object)
            ),
        ),
        (
            json!({"resourceVersion": "1"}),
            format!(
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({}). The \
                 object might have been modified",
                version(&object)
            ),
        ),
    ];
    for (preconditions, why) in cases {
        let reply = wire.delete_with(&path, &json!({"preconditions": preconditions})).await;
        reply.refuses(409, "Conflict", &format!("Operation cannot be fulfilled on ConfigMap \"a\": {why}"));
    }
    let right = json!({"preconditions": {"uid": uid(&object), "resourceVersion": version(&object)}});
    wire.delete_with(&path, &right).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_and_no_new_ones_join() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let mut object = widget("a");
    object["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/wait"]);
    wire.create(WIDGETS, &object).await;
    let path = format!("{WIDGETS}/a");
    let dying = wire.delete(&path).await.ok(200);
    assert_eq!(dying["metadata"]["deletionTimestamp"], "2026-11-15T10:00:00Z");
    assert_eq!(
        (&dying["metadata"]["generation"], &dying["metadata"]["deletionGracePeriodSeconds"]),
        (&json!(2), &json!(0))
    );
    let again = wire.delete(&path).await.ok(200);
    assert_eq!(version(&again), version(&dying), "a second delete changes nothing");

    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}});
    let reply = wire.patch(&path, MERGE, &more).await;
    let why = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
        found new finalizers []string{\"example.com/new\"}";
    reply.refuses(422, "Invalid", &format!("Widget.shop.example \"a\" is invalid: {why}"));
    wire.patch(&path, MERGE, &json!({"spec": {"size": 4}})).await.ok(200);
    let fewer = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    wire.patch(&path, MERGE, &fewer).await.ok(200);
    wire.get(&path).await.ok(200);

    let before = wire.revision().await;
    let mut watch = wire.watch(&format!("{WIDGETS}?resourceVersion={before}")).await;
    wire.patch(&path, JSON_PATCH, &json!([{"op": "remove", "path": "/metadata/finalizers"}])).await.ok(200);
    wire.get(&path).await.ok(404);
    let (kind, name, at) = watch.event().await;
    assert_eq!((kind.as_str(), name.as_str(), at), ("DELETED", "a", (before + 1).to_string()));
}

#[tokio::test(start_paused = true)]
async fn the_propagation_policy_decides_which_finalizer_waits_for_the_dependents() {
    let wire = Wire::new();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        wire.create(CONFIG_MAPS, &config_map("a")).await;
        let path = format!("{CONFIG_MAPS}/a");
        let dying = wire.delete_with(&path, &json!({"propagationPolicy": policy})).await.ok(200);
        assert_eq!(dying["metadata"]["finalizers"], json!([finalizer]));
        // Another policy later changes the mind about it.
        let background = wire.delete(&format!("{path}?propagationPolicy=Background")).await;
        assert_eq!(background.code, 200);
        assert_eq!(wire.get(&path).await.code, 404, "{policy}");
    }
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let gone = wire.delete_with(&format!("{CONFIG_MAPS}/a?propagationPolicy=Foreground"), &json!({})).await;
    assert_eq!(gone.ok(200)["kind"], "Status", "whoever sends options in the body has said everything there");
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.delete_with(&format!("{CONFIG_MAPS}/a"), &json!({"orphanDependents": true})).await.ok(200);
    assert_eq!(wire.get(&format!("{CONFIG_MAPS}/a")).await.json["metadata"]["finalizers"], json!(["orphan"]));
    let reply = wire.delete_with(&format!("{CONFIG_MAPS}/a"), &json!({"propagationPolicy": "Later"})).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("propagationPolicy", "FieldValueNotSupported")]));
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_gets_time_to_stop_and_a_shorter_grace_shortens_it() {
    let wire = Wire::new();
    wire.create(PODS, &pod("a")).await;
    let path = format!("{PODS}/a");
    let binding = json!({"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "a"}});
    wire.post(&format!("{path}/binding"), &binding).await.ok(201);
    let dying = wire.delete(&path).await.ok(200);
    assert_eq!(dying["metadata"]["deletionTimestamp"], "2026-11-15T10:00:30Z");
    assert_eq!(
        (&dying["metadata"]["deletionGracePeriodSeconds"], &dying["metadata"]["generation"]),
        (&json!(30), &json!(2))
    );
    let longer = wire.delete_with(&path, &json!({"gracePeriodSeconds": 60})).await.ok(200);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 30);
    tokio::time::advance(Duration::from_secs(5)).await;
    let shorter = wire.delete_with(&path, &json!({"gracePeriodSeconds": 10})).await.ok(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 10);
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"], "2026-11-15T10:00:10Z",
        "it counts from the first request"
    );
    assert_eq!(shorter["metadata"]["generation"], 2);
    tokio::time::advance(Duration::from_secs(20)).await;
    let over = wire.delete_with(&path, &json!({"gracePeriodSeconds": -1})).await.ok(200);
    assert_eq!(over["metadata"]["deletionGracePeriodSeconds"], 1, "a negative one is the shortest");
    assert_eq!(over["metadata"]["deletionTimestamp"], "2026-11-15T10:00:25Z");
    wire.delete(&format!("{path}?gracePeriodSeconds=0")).await.ok(200);
    wire.get(&path).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let wire = Wire::new();
    wire.create(PODS, &pod("a")).await;
    wire.delete(&format!("{PODS}/a")).await.ok(200);
    wire.get(&format!("{PODS}/a")).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_in_two_steps() {
    let wire = Wire::new();
    let stored = wire.create(NAMESPACES, &namespace("a")).await;
    assert_eq!(stored["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(stored["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
    assert_eq!(stored["status"], json!({"phase": "Active"}));
    let dying = wire.delete(&format!("{NAMESPACES}/a")).await.ok(200);
    assert_eq!(dying["status"]["phase"], "Terminating");
    assert!(dying["metadata"]["deletionTimestamp"].is_string());
    wire.patch(&format!("{NAMESPACES}/a"), MERGE, &json!({"spec": {"finalizers": null}})).await.ok(200);
    let mut last = wire.get(&format!("{NAMESPACES}/a")).await.ok(200);
    assert_eq!(last["spec"]["finalizers"], json!(["kubernetes"]), "only /finalize takes it away");
    last["spec"]["finalizers"] = json!([]);
    wire.put(&format!("{NAMESPACES}/a/finalize"), &last).await.ok(200);
    wire.get(&format!("{NAMESPACES}/a")).await.ok(404);
    for name in ["default", "kube-system", "kube-public"] {
        let reply = wire.delete(&format!("{NAMESPACES}/{name}")).await;
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        reply.refuses(403, "Forbidden", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_was_let_go_may_be_taken_again() {
    let wire = Wire::new();
    let mut first = service("a");
    first["spec"]["clusterIP"] = json!("10.96.0.50");
    wire.create(SERVICES, &first).await;
    let mut second = service("b");
    second["spec"]["clusterIP"] = json!("10.96.0.50");
    let reply = wire.post(SERVICES, &second).await;
    assert_eq!(reply.code, 422);
    let message = "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.50\"]: failed to allocate IP \
        10.96.0.50: provided IP is already allocated";
    assert_eq!(reply.message(), message);
    wire.delete(&format!("{SERVICES}/a")).await.ok(200);
    wire.create(SERVICES, &second).await;
}

#[tokio::test(start_paused = true)]
async fn deletes_keep_finalizers_of_others_in_a_collection() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &held("a")).await;
    wire.create(CONFIG_MAPS, &config_map("b")).await;
    let gone = wire.delete(CONFIG_MAPS).await.ok(200);
    assert_eq!(names(&gone), ["a", "b"]);
    assert_eq!(names(&wire.get(CONFIG_MAPS).await.json), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_where_the_options_are_and_nowhere_else() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.delete(&format!("{path}?dryRun=All")).await.ok(200);
    wire.delete_with(&path, &json!({"dryRun": ["All"]})).await.ok(200);
    let reply = wire.delete(&format!("{path}?dryRun=Some")).await;
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    reply.refuses(422, "Invalid", message);
    wire.get(&path).await.ok(200);
    wire.delete_with(&format!("{path}?dryRun=All"), &json!({"kind": "DeleteOptions", "apiVersion": "v1"}))
        .await
        .ok(200);
    wire.get(&path).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn options_of_another_type_delete_nothing() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let cases = [
        (json!({"dryRun": "All"}), "string into Go struct field DeleteOptions.dryRun of type []string"),
        (
            json!({"preconditions": {"uid": 5}}),
            "number into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        (
            json!({"gracePeriodSeconds": "0"}),
            "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
    ];
    for (options, why) in cases {
        for path in [&path, CONFIG_MAPS] {
            let reply = wire.delete_with(path, &options).await;
            reply.refuses(400, "BadRequest", &format!("json: cannot unmarshal {why}"));
        }
    }
    assert_eq!(wire.delete_with(&path, &json!([])).await.code, 400);
    let reply = wire.delete_with(&path, &json!({"kind": "Pod", "apiVersion": "v1"})).await;
    let message = "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"";
    reply.refuses(400, "BadRequest", message);
    wire.get(&path).await.ok(200);
    // Nothing at all is no options.
    wire.delete_with(&path, &Value::Null).await.ok(200);
    wire.get(&path).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn the_older_way_to_speak_of_dependents_is_understood_and_answered_with_202() {
    let wire = Wire::new();
    let path = format!("{CONFIG_MAPS}/a");
    wire.create(CONFIG_MAPS, &held("a")).await;
    let both = json!({"orphanDependents": false, "propagationPolicy": "Orphan"});
    let reply = wire.delete_with(&path, &both).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("propagationPolicy", "FieldValueInvalid")]));
    wire.delete(&format!("{path}?orphanDependents=true")).await.ok(200);
    let stored = wire.delete_with(&path, &json!({"orphanDependents": false})).await.ok(202);
    let left = stored["metadata"]["finalizers"].as_array().unwrap();
    assert!(!left.contains(&json!("orphan")), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn finalizers_that_stay_the_same_stay_in_their_order() {
    let wire = Wire::new();
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["foregroundDeletion", "example.com/hold"]);
    wire.create(CONFIG_MAPS, &object).await;
    let dying = wire.delete(&format!("{CONFIG_MAPS}/a?propagationPolicy=Foreground")).await.ok(200);
    assert_eq!(dying["metadata"]["finalizers"], json!(["foregroundDeletion", "example.com/hold"]));
}

#[tokio::test(start_paused = true)]
async fn who_watches_a_pod_hears_that_it_was_marked_and_then_that_it_is_gone() {
    let wire = Wire::new();
    wire.create(PODS, &pod("a")).await;
    let mut watch = wire.watch(PODS).await;
    assert_eq!(watch.event().await.0, "ADDED");
    let gone = wire.delete(&format!("{PODS}/a")).await.ok(200);
    assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0);
    for kind in ["MODIFIED", "DELETED"] {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], kind);
        assert!(event["object"]["metadata"]["deletionTimestamp"].is_string(), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_in_one_namespace_by_pages_and_namespaces_are_not() {
    let wire = Wire::new();
    for name in ["a", "b", "c"] {
        wire.create(CONFIG_MAPS, &config_map(name)).await;
    }
    assert_eq!(wire.delete("/api/v1/configmaps").await.code, 405);
    assert_eq!(wire.delete(NAMESPACES).await.code, 405);
    assert_eq!(names(&wire.delete(&format!("{CONFIG_MAPS}?limit=2")).await.ok(200)), ["a", "b"]);
    assert_eq!(names(&wire.get(CONFIG_MAPS).await.json), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_stay_unless_somebody_says_otherwise_and_that_is_said() {
    let wire = Wire::new();
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}}});
    wire.create(path, &job).await;
    let reply = wire.delete(&format!("{path}/a")).await;
    assert!(reply.warnings()[0].contains("child pods are preserved by default when jobs are deleted"));
    assert_eq!(reply.ok(200)["metadata"]["finalizers"], json!(["orphan"]));
}
