//! Lists: pages, versions, selectors, and the forms a client may ask for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::*;

async fn filled(count: usize) -> Wire {
    let wire = Wire::new();
    for place in 0..count {
        let mut object = config_map(&format!("c{place:02}"));
        object["metadata"]["labels"] = json!({"parity": if place % 2 == 0 { "even" } else { "odd" }});
        wire.create(CONFIG_MAPS, &object).await;
    }
    wire
}

fn next(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn pages_together_are_the_list_of_the_first_page_whatever_happens_meanwhile() {
    let wire = filled(10).await;
    let mut page = wire.get(&format!("{CONFIG_MAPS}?limit=3")).await.ok(200);
    let first_version = version(&page).to_owned();
    assert_eq!(page["metadata"]["remainingItemCount"], 7);
    let mut seen: Vec<String> = names(&page).into_iter().map(str::to_owned).collect();
    let mut round = 0;
    while !next(&page).is_empty() {
        // In between: one goes, one comes, one changes.
        wire.delete(&format!("{CONFIG_MAPS}/c0{}", 9 - round)).await.ok(200);
        wire.create(CONFIG_MAPS, &config_map(&format!("c05-new{round}"))).await;
        wire.patch(&format!("{CONFIG_MAPS}/c06"), MERGE, &json!({"data": {"a": format!("r{round}")}}))
            .await
            .ok(200);
        page = wire.get(&format!("{CONFIG_MAPS}?limit=3&continue={}", next(&page))).await.ok(200);
        assert_eq!(version(&page), first_version);
        for item in page["items"].as_array().unwrap() {
            assert_eq!(item["data"]["a"], "1", "what the first page saw");
        }
        seen.extend(names(&page).into_iter().map(str::to_owned));
        round += 1;
    }
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    let expected: Vec<String> = (0..10).map(|place| format!("c{place:02}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_not_reached_leaves_no_token_and_a_selector_no_count() {
    let wire = filled(4).await;
    for query in ["limit=4", "limit=0", "limit=100", ""] {
        let list = wire.get(&format!("{CONFIG_MAPS}?{query}")).await.ok(200);
        assert_eq!((names(&list).len(), next(&list)), (4, ""), "{query}");
    }
    let page = wire.get(&format!("{CONFIG_MAPS}?limit=1&labelSelector=parity%3Deven")).await.ok(200);
    assert_eq!((names(&page), page["metadata"].get("remainingItemCount")), (vec!["c00"], None));
    let rest = wire
        .get(&format!("{CONFIG_MAPS}?limit=1&labelSelector=parity%3Deven&continue={}", next(&page)))
        .await;
    assert_eq!(names(&rest.json), ["c02"]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_list_answers_410_with_a_token_to_go_on_anyway() {
    let wire = filled(5).await;
    let page = wire.get(&format!("{CONFIG_MAPS}?limit=2")).await.ok(200);
    tokio::time::advance(Duration::from_secs(299)).await;
    let path = format!("{CONFIG_MAPS}?limit=2&continue={}", next(&page));
    wire.get(&path).await.ok(200);
    wire.delete(&format!("{CONFIG_MAPS}/c03")).await.ok(200);
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(names(&wire.get(&path).await.ok(200)), ["c02", "c03"], "what happened since is known");
    tokio::time::advance(Duration::from_secs(600)).await;
    for round in 0..1100 {
        let patch = json!({"data": {"a": format!("{round}")}});
        wire.patch(&format!("{CONFIG_MAPS}/c00"), MERGE, &patch).await.ok(200);
    }
    let reply = wire.get(&path).await;
    assert_eq!((reply.code, &reply.json["reason"]), (410, &json!("Expired")));
    assert!(
        reply
            .message()
            .starts_with("The provided continue parameter is too old to display a consistent list result.")
    );
    let fresh = next(&reply.json).to_owned();
    assert_ne!(fresh, "");
    let rest = wire.get(&format!("{CONFIG_MAPS}?limit=2&continue={fresh}")).await.ok(200);
    assert_eq!(names(&rest), ["c02", "c04"]);
}

#[tokio::test(start_paused = true)]
async fn versions_of_a_list_mean_newest_at_least_or_exactly() {
    let wire = filled(3).await;
    let current = wire.revision().await;
    let old = current - 1;
    for query in [
        "".to_owned(),
        "resourceVersion=0".to_owned(),
        "resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(),
        format!("resourceVersion={old}"),
        format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan"),
        format!("resourceVersion={current}&resourceVersionMatch=Exact"),
        format!("resourceVersion={old}&limit=5&resourceVersionMatch=NotOlderThan"),
    ] {
        let list = wire.get(&format!("{CONFIG_MAPS}?{query}")).await.ok(200);
        assert_eq!((names(&list).len(), version(&list)), (3, current.to_string().as_str()), "{query}");
    }
    let forbidden =
        |why: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {why}");
    let cases = [
        (
            "resourceVersionMatch=Exact".to_owned(),
            forbidden("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
            forbidden("Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        ),
        (
            format!("resourceVersion={old}&resourceVersionMatch=Never"),
            forbidden("Unsupported value: \"Never\": supported values: \"\", \"Exact\", \"NotOlderThan\""),
        ),
    ];
    for (query, message) in cases {
        wire.get(&format!("{CONFIG_MAPS}?{query}")).await.refuses(422, "Invalid", &message);
    }
    let reply = wire.get(&format!("{CONFIG_MAPS}?resourceVersion=5&resourceVersionMatch=Exact")).await;
    assert_eq!((reply.code, &reply.json["reason"]), (410, &json!("Expired")));
    let page = wire.get(&format!("{CONFIG_MAPS}?limit=1")).await.ok(200);
    let token = next(&page);
    let reply = wire.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}&resourceVersion={current}")).await;
    reply.refuses(400, "BadRequest", "specifying resource version is not allowed when using continue");
    let query = format!("limit=1&continue={token}&resourceVersion={current}&resourceVersionMatch=Exact");
    let reply = wire.get(&format!("{CONFIG_MAPS}?{query}")).await;
    reply.refuses(
        422,
        "Invalid",
        &forbidden("Forbidden: resourceVersionMatch is forbidden when continue is provided"),
    );
}

#[tokio::test(start_paused = true)]
async fn an_exact_version_is_served_while_what_happened_since_is_known() {
    let wire = filled(3).await;
    let before = wire.get(CONFIG_MAPS).await.ok(200);
    let at = version(&before).to_owned();
    wire.create(CONFIG_MAPS, &config_map("later")).await;
    wire.delete(&format!("{CONFIG_MAPS}/c00")).await.ok(200);
    wire.patch(&format!("{CONFIG_MAPS}/c01"), MERGE, &json!({"data": {"b": "2"}})).await.ok(200);
    let exact =
        wire.get(&format!("{CONFIG_MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await.ok(200);
    assert_eq!(exact, before);
    // A page of a version is meant exactly, too.
    let page = wire.get(&format!("{CONFIG_MAPS}?resourceVersion={at}&limit=2")).await.ok(200);
    assert_eq!((names(&page), version(&page)), (vec!["c00", "c01"], at.as_str()));
    let rest = wire.get(&format!("{CONFIG_MAPS}?limit=2&continue={}", next(&page))).await.ok(200);
    assert_eq!(names(&rest), ["c02"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_of_what_is_selected_promises_another_while_anything_is_left_to_look_at() {
    let wire = filled(4).await;
    let even = "labelSelector=parity%3Deven";
    let page = wire.get(&format!("{CONFIG_MAPS}?limit=2&{even}")).await.ok(200);
    assert_eq!(names(&page), ["c00", "c02"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    let rest = wire.get(&format!("{CONFIG_MAPS}?limit=2&{even}&continue={}", next(&page))).await.ok(200);
    assert_eq!((names(&rest), rest["metadata"].get("continue")), (vec![], None));
    let odd = wire.get(&format!("{CONFIG_MAPS}?limit=2&labelSelector=parity%3Dodd")).await.ok(200);
    assert_eq!((names(&odd), odd["metadata"].get("continue")), (vec!["c01", "c03"], None));
    let one = wire.get(&format!("{CONFIG_MAPS}?limit=1&fieldSelector=metadata.name%3Dc01")).await.ok(200);
    assert_eq!((names(&one), one["metadata"].get("continue")), (vec!["c01"], None));
}

#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_times_out_after_three_seconds_unless_it_comes() {
    let wire = filled(1).await;
    let current = wire.revision().await;
    let started = tokio::time::Instant::now();
    let ahead = current + 10;
    let reply = wire.get(&format!("{CONFIG_MAPS}?resourceVersion={ahead}")).await;
    let waited = started.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
    let message = format!("Timeout: Too large resource version: {ahead}, current: {current}");
    reply.refuses(504, "Timeout", &message);
    assert_eq!(reply.json["details"]["retryAfterSeconds"], 1);
    assert_eq!(
        reply.json["details"]["causes"],
        json!([
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}])
    );
    assert_eq!(reply.headers["retry-after"], "1");

    let list = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", current + 1);
    let (reply, ()) = tokio::join!(wire.get(&list), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        wire.create(CONFIG_MAPS, &config_map("z")).await;
    });
    assert_eq!(names(&reply.ok(200)), ["c00", "z"]);
    let reply = wire.get(&format!("{CONFIG_MAPS}/c00?resourceVersion={}", current + 100)).await;
    assert_eq!(reply.code, 504);
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_are_refused() {
    let wire = filled(1).await;
    for bad in ["x", "-1", "1.5", "99999999999999999999999"] {
        for path in [
            format!("{CONFIG_MAPS}?resourceVersion={bad}"),
            format!("{CONFIG_MAPS}?watch=true&resourceVersion={bad}"),
        ] {
            let reply = wire.get(&path).await;
            assert_eq!((reply.code, &reply.json["reason"]), (400, &json!("BadRequest")), "{path}");
            assert!(reply.message().contains(&format!("Invalid value: \"{bad}\"")), "{}", reply.message());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_in_the_query_means_nothing_to_a_write() {
    let wire = filled(1).await;
    let path = format!("{CONFIG_MAPS}/c00?resourceVersion=nonsense");
    wire.patch(&path, MERGE, &json!({"data": {"a": "2"}})).await.ok(200);
    assert_eq!(wire.get(&path).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn lists_are_sorted_by_namespace_and_name_and_cover_all_namespaces_when_none_is_named() {
    let wire = Wire::new();
    for (space, name) in [("kube-system", "a"), ("default", "b"), ("default", "a"), ("kube-public", "c")] {
        wire.create(&format!("/api/v1/namespaces/{space}/configmaps"), &config_map(name)).await;
    }
    let list = wire.get("/api/v1/configmaps").await.ok(200);
    let places: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            format!(
                "{}/{}",
                item["metadata"]["namespace"].as_str().unwrap(),
                item["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(places, ["default/a", "default/b", "kube-public/c", "kube-system/a"]);
    let page = wire.get("/api/v1/configmaps?limit=3").await.ok(200);
    let rest = wire.get(&format!("/api/v1/configmaps?limit=3&continue={}", next(&page))).await.ok(200);
    assert_eq!(rest["items"][0]["metadata"]["namespace"], "kube-system");
}

#[tokio::test(start_paused = true)]
async fn label_selectors_choose_and_nonsense_is_refused() {
    let wire = filled(4).await;
    let cases = [
        ("parity%3Deven", vec!["c00", "c02"]),
        ("parity%3D%3Dodd", vec!["c01", "c03"]),
        ("parity!%3Deven", vec!["c01", "c03"]),
        ("parity%20in%20(even,odd)", vec!["c00", "c01", "c02", "c03"]),
        ("parity%20notin%20(even)", vec!["c01", "c03"]),
        ("!parity", vec![]),
        ("parity", vec!["c00", "c01", "c02", "c03"]),
        ("other!%3Dx", vec!["c00", "c01", "c02", "c03"]),
    ];
    for (selector, expected) in cases {
        let list = wire.get(&format!("{CONFIG_MAPS}?labelSelector={selector}")).await.ok(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
    for bad in ["a%20b", "a%20in%20b", "-a%3Db", "%3D", "a%3D%3D%3Db", "a%20in%20(b", "%00", "a,,%3D"] {
        for path in [
            format!("{CONFIG_MAPS}?labelSelector={bad}"),
            format!("{CONFIG_MAPS}?watch=1&labelSelector={bad}"),
        ] {
            let reply = wire.get(&path).await;
            assert_eq!(
                (reply.code, &reply.json["reason"]),
                (400, &json!("BadRequest")),
                "{path}: {}",
                reply.json
            );
        }
        assert_eq!(wire.delete(&format!("{CONFIG_MAPS}?labelSelector={bad}")).await.code, 400);
    }
    assert_eq!(names(&wire.get(CONFIG_MAPS).await.json).len(), 4, "a bad selector deletes nothing");
}

#[tokio::test(start_paused = true)]
async fn each_kind_has_its_own_field_selectors() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(PODS, &pod("p")).await;
    wire.create(SERVICES, &service("s")).await;
    wire.create("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "x"}})).await;
    wire.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    wire.create(WIDGETS, &widget("w")).await;
    let event = json!({"metadata": {"name": "e"}, "reason": "R", "type": "Normal", "source": {"component": "c"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    let events = "/api/v1/namespaces/default/events";
    wire.create(events, &event).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let cases = [
        (PODS, "status.phase=Pending", 1),
        (PODS, "status.phase!=Pending", 0),
        (PODS, "spec.nodeName=", 1),
        (PODS, "spec.restartPolicy=Always,spec.schedulerName=default-scheduler", 1),
        (PODS, "spec.serviceAccountName=default", 1),
        (PODS, "status.podIP=1.2.3.4", 0),
        (SERVICES, "spec.type=ClusterIP,metadata.name=s", 1),
        (SERVICES, "spec.clusterIP=None", 0),
        (secrets, "type=Opaque", 1),
        ("/api/v1/nodes", "spec.unschedulable=false", 1),
        ("/api/v1/nodes", "spec.unschedulable=true", 0),
        (NAMESPACES, "status.phase=Active,metadata.name=default", 1),
        (WIDGETS, "spec.colour=red", 1),
        (WIDGETS, "spec.colour=green", 0),
        (WIDGETS, "metadata.name=w,metadata.namespace=default", 1),
        (events, "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.namespace=default", 1),
        (events, "reason=R,type=Normal,source=c", 1),
        (events, "type=Warning", 0),
        (CONFIG_MAPS, "metadata.name=none", 0),
    ];
    for (place, selector, expected) in cases {
        let list = wire.get(&format!("{place}?fieldSelector={}", selector.replace('=', "%3D"))).await;
        assert_eq!(names(&list.ok(200)).len(), expected, "{place} {selector}");
    }
    let refused = [
        (PODS, "spec.hostname", "field label not supported: spec.hostname"),
        (SERVICES, "spec.ports", "field label not supported: spec.ports"),
        (
            CONFIG_MAPS,
            "data.a",
            "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (WIDGETS, "spec.size", "field label not supported: spec.size"),
        (
            DEPLOYMENTS,
            "spec.replicas",
            "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            SLICES,
            "addressType",
            "\"addressType\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (NAMESPACES, "metadata.namespace", ""),
    ];
    for (place, field, message) in refused {
        let reply = wire.get(&format!("{place}?fieldSelector={field}%3Dx")).await;
        if message.is_empty() {
            continue;
        }
        reply.refuses(400, "BadRequest", message);
    }
    for bad in ["metadata.name", "a%3Db%3Dc", "metadata.name%3D%5Cx"] {
        assert_eq!(wire.get(&format!("{CONFIG_MAPS}?fieldSelector={bad}")).await.code, 400, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_has_columns_and_rows_with_as_much_of_the_object_as_was_asked_for() {
    let wire = filled(2).await;
    let table = wire.get_as(TABLE, CONFIG_MAPS).await.ok(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["c00", 1, "0s"]));
    let object = &table["rows"][0]["object"];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"], object.get("data")),
        (&json!("PartialObjectMetadata"), &json!("c00"), None)
    );
    assert!(!version(&table).is_empty());
    let whole = wire.get_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=Object")).await.ok(200);
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"a": "1"}));
    let none = wire.get_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=None")).await.ok(200);
    assert!(none["rows"][0]["object"].is_null());
    let reply = wire.get_as(TABLE, &format!("{CONFIG_MAPS}?includeObject=Some")).await;
    reply.refuses(400, "BadRequest", "unrecognized includeObject value: \"Some\"");
    let one = wire.get_as(TABLE, &format!("{CONFIG_MAPS}/c01")).await.ok(200);
    assert_eq!((one["rows"].as_array().unwrap().len(), &one["rows"][0]["cells"][0]), (1, &json!("c01")));
    let paged = wire.get_as(TABLE, &format!("{CONFIG_MAPS}?limit=1")).await.ok(200);
    assert_ne!(next(&paged), "");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_a_form_of_objects_and_lists() {
    let wire = filled(1).await;
    let list =
        wire.get_as(METADATA.replace("Metadata;", "MetadataList;").as_str(), CONFIG_MAPS).await.ok(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!((names(&list), list["items"][0].get("data")), (vec!["c00"], None));
    let one = wire.get_as(METADATA, &format!("{CONFIG_MAPS}/c00")).await.ok(200);
    assert_eq!((&one["kind"], one.get("data")), (&json!("PartialObjectMetadata"), None));
    let reply = wire.get_as("text/html", CONFIG_MAPS).await;
    assert_eq!((reply.code, &reply.json["reason"]), (406, &json!("NotAcceptable")));
    for accept in [
        "",
        "*/*",
        "application/*",
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "text/html, */*;q=0.1",
    ] {
        assert_eq!(wire.get_as(accept, CONFIG_MAPS).await.ok(200)["kind"], "ConfigMapList", "{accept}");
    }
}
