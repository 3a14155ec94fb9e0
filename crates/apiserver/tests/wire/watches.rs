//! Watches: what is there, what happens, and how a watcher keeps its place.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::*;

const ENDS: &str = "k8s.io/initial-events-end";

fn labelled(name: &str, label: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({"l": label});
    object
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_starts_with_what_is_there() {
    let wire = Wire::new();
    let stored = wire.create(CONFIG_MAPS, &config_map("a")).await;
    for query in ["", "?resourceVersion=0"] {
        let mut watch = wire.watch(&format!("{CONFIG_MAPS}{query}")).await;
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &stored));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_shows_everything_after_it_in_order() {
    let wire = Wire::new();
    let start = wire.revision().await;
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.create(SERVICES, &service("not-a-config-map")).await;
    wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}")).await;
    wire.delete(&format!("{CONFIG_MAPS}/a")).await.ok(200);
    for (kind, after) in [("ADDED", 1), ("MODIFIED", 3), ("DELETED", 4)] {
        let (got, name, at) = watch.event().await;
        assert_eq!((got.as_str(), name.as_str(), at), (kind, "a", (start + after).to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_that_says_so_and_has_a_version() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.create(CONFIG_MAPS, &config_map("b")).await;
    let now = wire.revision().await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for version in ["", "&resourceVersion=0", &format!("&resourceVersion={now}")] {
        let mut watch = wire.watch(&format!("{CONFIG_MAPS}?{query}{version}")).await;
        for name in ["a", "b"] {
            let (kind, got, _) = watch.event().await;
            assert_eq!((kind.as_str(), got.as_str()), ("ADDED", name));
        }
        let mark = watch.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(
            mark["object"],
            json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": now.to_string(), "annotations": {ENDS: "true"}}})
        );
    }
    let mut empty = wire.watch(&format!("{LEASES}?{query}")).await;
    assert_eq!(empty.next().await.unwrap()["object"]["metadata"]["annotations"][ENDS], "true");
}

#[tokio::test(start_paused = true)]
async fn initial_events_that_are_declined_start_from_now() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=5";
    let watch = wire.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    wire.create(CONFIG_MAPS, &config_map("b")).await;
    assert_eq!(watch.summary().await, [("ADDED".to_owned(), "b".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_just_before_the_end_only_when_wanted() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let started = tokio::time::Instant::now();
    let path = format!("{CONFIG_MAPS}?resourceVersion={now}&timeoutSeconds=150");
    let mut watch = wire.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    let mut at = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["metadata"].get("annotations"), None);
        assert_eq!(version(&event["object"]), now.to_string());
        at.push(started.elapsed().as_secs());
    }
    assert_eq!(at, [60, 120, 148]);
    assert_eq!(started.elapsed().as_secs(), 150);
    assert_eq!(wire.watch(&path).await.rest().await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_as_new_as_the_cluster_even_when_others_changed() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={now}&timeoutSeconds=4&allowWatchBookmarks=true");
    let mut watch = wire.watch(&path).await;
    wire.create(SERVICES, &service("a")).await;
    let (kind, _, at) = watch.event().await;
    assert_eq!((kind.as_str(), at), ("BOOKMARK", (now + 1).to_string()));
}

#[tokio::test(start_paused = true)]
async fn what_enters_a_selection_is_added_and_what_leaves_is_deleted_as_it_was() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={now}&labelSelector=l%3Dyes")).await;
    wire.create(CONFIG_MAPS, &labelled("a", "no")).await;
    let relabel =
        |label: &str, data: &str| json!({"metadata": {"labels": {"l": label}}, "data": {"a": data}});
    for (label, data) in [("yes", "in"), ("yes", "within"), ("no", "out"), ("no", "outside"), ("yes", "back")]
    {
        wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &relabel(label, data)).await.ok(200);
    }
    wire.delete(&format!("{CONFIG_MAPS}/a")).await.ok(200);
    let expected = [
        ("ADDED", "in", 2),
        ("MODIFIED", "within", 3),
        ("DELETED", "within", 4),
        ("ADDED", "back", 6),
        ("DELETED", "back", 7),
    ];
    for (kind, data, after) in expected {
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["data"]["a"]), (&json!(kind), &json!(data)));
        assert_eq!(version(&event["object"]), (now + after).to_string(), "{kind} {data}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_or_namespace_sees_nothing_else() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let by_field = wire
        .watch(&format!(
            "{CONFIG_MAPS}?fieldSelector=metadata.name%3Da&resourceVersion={now}&timeoutSeconds=3"
        ))
        .await;
    let by_space = wire
        .watch(&format!("/api/v1/namespaces/kube-system/configmaps?resourceVersion={now}&timeoutSeconds=3"))
        .await;
    let everywhere = wire.watch(&format!("/api/v1/configmaps?resourceVersion={now}&timeoutSeconds=3")).await;
    for name in ["a", "b"] {
        wire.create(CONFIG_MAPS, &config_map(name)).await;
    }
    wire.create("/api/v1/namespaces/kube-system/configmaps", &config_map("c")).await;
    let added = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| ("ADDED".to_owned(), (*name).to_owned())).collect()
    };
    assert_eq!(by_field.summary().await, added(&["a"]));
    assert_eq!(by_space.summary().await, added(&["c"]));
    assert_eq!(everywhere.summary().await, added(&["a", "b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forgotten_ends_the_watch_with_one_error() {
    let wire = Wire::new();
    let reply = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion=1")).await.rest().await;
    let [event] = reply.as_slice() else { panic!("{reply:?}") };
    let status = &event["object"];
    assert_eq!(
        (&event["type"], &status["kind"], &status["status"]),
        (&json!("ERROR"), &json!("Status"), &json!("Failure"))
    );
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 1 ("), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_overtaken_by_thousands_of_changes_is_told_to_list_again() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let old = wire.revision().await;
    for round in 0..5000 {
        wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({"data": {"a": format!("{round}")}}))
            .await
            .ok(200);
    }
    // Five thousand young changes are still there ...
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={old}")).await;
    assert_eq!(watch.event().await.0, "MODIFIED");
    // ... but not when they have become old.
    tokio::time::advance(Duration::from_secs(400)).await;
    wire.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &json!({"data": {"a": "last"}})).await.ok(200);
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={old}")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_waits_in_silence() {
    let wire = Wire::new();
    let ahead = wire.revision().await + 2;
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?resourceVersion={ahead}&timeoutSeconds=60")).await;
    for name in ["one", "two", "three"] {
        wire.create(CONFIG_MAPS, &config_map(name)).await;
    }
    assert_eq!(watch.event().await.1, "three");
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_as_a_table_names_its_columns_once() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let path = format!("{CONFIG_MAPS}?resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=5");
    let mut watch = wire.watch_as(TABLE, &path).await;
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.create(CONFIG_MAPS, &config_map("b")).await;
    let first = watch.next().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    let second = watch.next().await.unwrap();
    assert_eq!(
        (&second["object"]["columnDefinitions"], &second["object"]["rows"][0]["cells"][0]),
        (&Value::Null, &json!("b"))
    );
    let mark = watch.next().await.unwrap();
    assert_eq!((&mark["type"], &mark["object"]["kind"]), (&json!("BOOKMARK"), &json!("Table")));
    assert_eq!(version(&mark["object"]["rows"][0]["object"]), (now + 2).to_string());
    let mut watch = wire
        .watch_as(
            TABLE,
            "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da&resourceVersion=0",
        )
        .await;
    assert_eq!(watch.next().await.unwrap()["object"]["rows"][0]["cells"][0], "a");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_metadata_leaves_the_rest_out() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let mut watch = wire
        .watch_as(
            METADATA,
            &format!("{CONFIG_MAPS}?resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=4"),
        )
        .await;
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["object"]["kind"], event["object"].get("data")),
        (&json!("PartialObjectMetadata"), None)
    );
    let mark = watch.next().await.unwrap();
    assert_eq!(
        (&mark["type"], &mark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("PartialObjectMetadata"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_on_time_by_itself_within_the_hour_and_when_the_cluster_closes() {
    let wire = Wire::new();
    let started = tokio::time::Instant::now();
    assert_eq!(wire.watch(&format!("{CONFIG_MAPS}?timeoutSeconds=7")).await.rest().await.len(), 0);
    assert_eq!(started.elapsed().as_secs(), 7);
    let started = tokio::time::Instant::now();
    wire.watch(CONFIG_MAPS).await.rest().await;
    assert!((1800..=3600).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    let mut open = wire.watch(CONFIG_MAPS).await;
    wire.cluster.close();
    assert_eq!(open.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn versions_of_a_custom_resource_are_watched_in_the_version_asked_for() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    let now = wire.revision().await;
    let mut newer = wire.watch(&format!("{WIDGETS}?resourceVersion={now}")).await;
    let mut older = wire.watch(&format!("{}?resourceVersion={now}", WIDGETS.replace("v1", "v1beta1"))).await;
    wire.create(WIDGETS, &widget("a")).await;
    assert_eq!(newer.next().await.unwrap()["object"]["apiVersion"], "shop.example/v1");
    assert_eq!(older.next().await.unwrap()["object"]["apiVersion"], "shop.example/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn both_event_apis_show_the_same_objects_and_changes() {
    let wire = Wire::new();
    let now = wire.revision().await;
    let modern = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut watch = wire.watch(&format!("{modern}?resourceVersion={now}")).await;
    let event = json!({"metadata": {"name": "e"}, "message": "m", "reason": "R", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    wire.create("/api/v1/namespaces/default/events", &event).await;
    let seen = watch.next().await.unwrap();
    assert_eq!((&seen["object"]["note"], &seen["object"]["regarding"]["name"]), (&json!("m"), &json!("p")));
    assert_eq!(seen["object"]["apiVersion"], "events.k8s.io/v1");
    assert_eq!(names(&wire.get(modern).await.json), ["e"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_starts_with_a_list_says_that_it_is_complete_once_it_is_as_new_as_asked_for() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let future = wire.revision().await + 2;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?{query}&resourceVersion={future}")).await;
    assert_eq!(watch.event().await.1, "a");
    wire.create(CONFIG_MAPS, &config_map("b")).await;
    assert_eq!(watch.event().await.1, "b", "the version has not been reached");
    wire.create(SERVICES, &service("c")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&event["object"]), future.to_string(), "other kinds move the version, too");
    // Steady changes do not keep it from being said.
    let future = wire.revision().await + 2;
    let mut watch = wire.watch(&format!("{CONFIG_MAPS}?{query}&resourceVersion={future}")).await;
    let mut kinds = vec![watch.event().await.0, watch.event().await.0];
    for name in ["d", "e", "f"] {
        wire.create(CONFIG_MAPS, &config_map(name)).await;
        kinds.push(watch.event().await.0);
    }
    assert_eq!(kinds, ["ADDED", "ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    // Who did not ask for such a list is not told where it ends.
    let plain = wire.watch(&format!("{CONFIG_MAPS}?allowWatchBookmarks=true&timeoutSeconds=1")).await;
    let kinds: Vec<String> = plain.summary().await.into_iter().map(|event| event.0).collect();
    assert_eq!(kinds, ["ADDED"; 5]);
}
