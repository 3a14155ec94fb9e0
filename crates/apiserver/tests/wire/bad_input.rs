//! Bad input: the answer a real API server gives, never a panic, never a hang.

use serde_json::{Value, json};

use crate::client::*;

/// What every bad request must leave behind: nothing.
async fn nothing_happened(wire: &Wire, before: u64) {
    assert_eq!(wire.revision().await, before);
    wire.get("/api/v1/namespaces/default").await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_json_is_shown_back_in_part() {
    let wire = Wire::new();
    let before = wire.revision().await;
    let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ";
    let cases: [(&[u8], &str); 9] = [
        (b"", " (<empty>)"),
        (b"{", " ({)"),
        (
            b"{\"metadata\": {\"name\": \"a\"}, \"data\": {\"a\": }}",
            " ({\"metadata\": {\"name\": \"a\"}, \"d ...)",
        ),
        (b"nonsense", " (6e6f6e73656e7365)"),
        (b"{\"a\": \"\xff\xfe\"}", ")"),
        (b"{\"a\": \"\x00\"}", ")"),
        (b"{} {}", " ({} {})"),
        (b"\x00\x01\x02", " (000102)"),
        (b"{'a': 1}", " ({'a': 1})"),
    ];
    for (body, end) in cases {
        for (method, path) in [("POST", CONFIG_MAPS.to_owned()), ("PUT", format!("{CONFIG_MAPS}/a"))] {
            let reply = wire.call(method, &path, JSON, body).await;
            assert_eq!(
                (reply.code, &reply.json["reason"]),
                (400, &json!("BadRequest")),
                "{body:?}: {}",
                reply.json
            );
            let message = reply.message();
            assert!(message.starts_with(start) && message.ends_with(end), "{message}");
        }
    }
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn json_that_is_no_object_is_refused() {
    let wire = Wire::new();
    let before = wire.revision().await;
    for body in ["[]", "[{}]", "1", "\"x\"", "true", "null", "1e400"] {
        for (method, path) in [("POST", CONFIG_MAPS.to_owned()), ("PUT", format!("{CONFIG_MAPS}/a"))] {
            let reply = wire.call(method, &path, JSON, body).await;
            // Null is an object with nothing in it, as far as Go is concerned.
            let expected: &[u16] = if body == "null" { &[400, 422, 404] } else { &[400] };
            assert!(expected.contains(&reply.code), "{method} {body}: {}", reply.json);
        }
    }
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn wrong_types_are_refused_in_the_words_of_the_decoder() {
    let wire = Wire::new();
    let before = wire.revision().await;
    let cases = [
        (
            SERVICES,
            json!({"metadata": {"name": "a"}, "spec": {"ports": "x"}}),
            "Service",
            "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            SERVICES,
            json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": "http"}]}}),
            "Service",
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            CONFIG_MAPS,
            json!({"metadata": {"name": 5}}),
            "ConfigMap",
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            CONFIG_MAPS,
            json!({"metadata": {"name": "a"}, "data": {"a": 1}}),
            "ConfigMap",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
    ];
    for (place, body, kind, why) in cases {
        let reply = wire.post(place, &body).await;
        let message = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
        reply.refuses(400, "BadRequest", &message);
    }
    for body in [
        json!({"metadata": []}),
        json!({"metadata": "x"}),
        json!({"metadata": {"labels": ["a"]}}),
        json!({"metadata": {"finalizers": {"a": 1}}}),
        json!({"metadata": {"ownerReferences": [1]}}),
        json!({"metadata": {"generation": "x"}}),
        json!({"metadata": {"creationTimestamp": "yesterday"}}),
    ] {
        let reply = wire.post(CONFIG_MAPS, &body).await;
        assert_eq!(reply.code, 400, "{body}: {}", reply.json);
    }
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_about_something_else_is_refused() {
    let wire = Wire::new();
    let cases = [
        (
            json!({"kind": "Secret", "apiVersion": "v1"}),
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "ConfigMap", "apiVersion": "v2"}),
            "no kind \"ConfigMap\" is registered for version \"v2\" in scheme",
        ),
        (
            json!({"kind": "Nonsense", "apiVersion": "v1"}),
            "no kind \"Nonsense\" is registered for version \"v1\" in scheme",
        ),
        (
            json!({"kind": "Deployment", "apiVersion": "apps/v1"}),
            "Deployment in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
    ];
    for (mut body, part) in cases {
        body["metadata"] = json!({"name": "a"});
        let reply = wire.post(CONFIG_MAPS, &body).await;
        assert_eq!((reply.code, &reply.json["reason"]), (400, &json!("BadRequest")), "{}", reply.json);
        assert!(reply.message().contains(part), "{}\n{part}", reply.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_twice_is_told_and_the_last_one_counts() {
    let wire = Wire::new();
    let body = r#"{"metadata": {"name": "a", "name": "b"}, "data": {"x": "1", "x": "2"}}"#;
    let reply = wire.call("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), JSON, body).await;
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
        duplicate field \"metadata.name\", duplicate field \"data.x\"";
    reply.refuses(400, "BadRequest", message);
    let reply = wire.call("POST", CONFIG_MAPS, JSON, body).await;
    assert_eq!(
        reply.warnings(),
        ["299 - \"duplicate field \\\"metadata.name\\\"\"", "299 - \"duplicate field \\\"data.x\\\"\""]
    );
    let stored = reply.ok(201);
    assert_eq!((&stored["metadata"]["name"], &stored["data"]["x"]), (&json!("b"), &json!("2")));
    let reply = wire
        .call("POST", &format!("{CONFIG_MAPS}?fieldValidation=Ignore"), JSON, body.replace("\"b\"", "\"c\""))
        .await;
    assert_eq!((reply.code, reply.warnings().len()), (201, 0));
}

#[tokio::test(start_paused = true)]
async fn bodies_over_three_mebibytes_are_too_large() {
    let wire = Wire::new();
    let before = wire.revision().await;
    let padded = |length: usize| {
        let mut body = config_map("a").to_string().into_bytes();
        body.resize(length, b' ');
        body
    };
    let limit = 3 * 1024 * 1024;
    for (method, path, kind) in [
        ("POST", CONFIG_MAPS, JSON),
        ("PUT", "/api/v1/namespaces/default/configmaps/a", JSON),
        ("PATCH", "/api/v1/namespaces/default/configmaps/a", MERGE),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a", JSON),
    ] {
        let reply = wire.call(method, path, kind, padded(limit + 1)).await;
        reply.refuses(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    }
    nothing_happened(&wire, before).await;
    wire.call("POST", CONFIG_MAPS, JSON, padded(limit)).await.ok(201);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_holds_too_much_is_invalid() {
    let wire = Wire::new();
    let mut big = config_map("a");
    big["data"]["a"] = json!("x".repeat(1024 * 1024 + 1));
    let reply = wire.post(CONFIG_MAPS, &big).await;
    assert_eq!(
        (reply.code, reply.causes()),
        (422, vec![("", "FieldValueTooLong")]),
        "{}",
        reply.message().len()
    );
    let mut noted = config_map("a");
    noted["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024)});
    let reply = wire.post(CONFIG_MAPS, &noted).await;
    assert_eq!((reply.code, reply.causes()), (422, vec![("metadata.annotations", "FieldValueTooLong")]));
}

#[tokio::test(start_paused = true)]
async fn deep_nesting_is_refused_in_every_format() {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(WIDGETS, &widget("a")).await;
    let before = wire.revision().await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
    let bodies = [deep("[", "]"), deep("{\"a\":", "}")];
    for nested in &bodies {
        let body = format!(
            "{{\"kind\":\"Widget\",\"apiVersion\":\"shop.example/v1\",\"metadata\":{{\"name\":\"b\"}},\"spec\":{{\"size\":1,\"free\":{{\"x\":{nested}}}}}}}"
        );
        for (method, path, kind) in [
            ("POST", WIDGETS.to_owned(), JSON),
            ("POST", WIDGETS.to_owned(), YAML),
            ("PUT", format!("{WIDGETS}/a"), JSON),
            ("PATCH", format!("{WIDGETS}/a"), MERGE),
            ("PATCH", format!("{WIDGETS}/a?fieldManager=x"), APPLY),
        ] {
            let reply = wire.call(method, &path, kind, body.clone()).await;
            assert_eq!(reply.code, 400, "{method} {kind}");
        }
        let patch = format!("[{{\"op\":\"add\",\"path\":\"/spec/free\",\"value\":{nested}}}]");
        assert_eq!(wire.call("PATCH", &format!("{WIDGETS}/a"), JSON_PATCH, patch).await.code, 400);
        assert_eq!(wire.call("DELETE", &format!("{WIDGETS}/a"), JSON, nested.clone()).await.code, 400);
    }
    let indented: String = (0..10_000).map(|depth| format!("{}a:\n", " ".repeat(depth.min(300)))).collect();
    assert_eq!(wire.call("POST", CONFIG_MAPS, YAML, indented).await.code, 400);
    let flow = format!("a: {}{}", "- ".repeat(10_000), "x");
    assert_eq!(wire.call("POST", CONFIG_MAPS, YAML, flow).await.code, 400);
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn yaml_that_multiplies_itself_is_refused() {
    let wire = Wire::new();
    let before = wire.revision().await;
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let links = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{links}]\n"));
    }
    bomb.push_str("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n");
    for (method, path, kind) in
        [("POST", CONFIG_MAPS.to_owned(), YAML), ("PATCH", format!("{CONFIG_MAPS}/a?fieldManager=x"), APPLY)]
    {
        let reply = wire.call(method, &path, kind, bomb.clone()).await;
        assert_eq!((reply.code, &reply.json["reason"]), (400, &json!("BadRequest")), "{}", reply.json);
    }
    for bad in ["a: [", "a: b: c", "\t- x", "{a: 1", "%", "a: &x *x", "--- x\n--- y", "- 1\n- 2", "just text"]
    {
        for (method, path, kind) in [
            ("POST", CONFIG_MAPS.to_owned(), YAML),
            ("PATCH", format!("{CONFIG_MAPS}/a?fieldManager=x"), APPLY),
        ] {
            let reply = wire.call(method, &path, kind, bad).await;
            assert_eq!(reply.code, 400, "{method} {bad:?}: {}", reply.json);
        }
    }
    nothing_happened(&wire, before).await;
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint(&mut out, bytes.len());
    out.extend(bytes);
    out
}

/// A ConfigMap as kubectl sends it.
fn protobuf_config_map(name: &str) -> Vec<u8> {
    let metadata = field(1, &field(1, name.as_bytes()));
    let entry = field(2, &[field(1, b"k"), field(2, b"v")].concat());
    enveloped("v1", "ConfigMap", &[metadata, entry].concat())
}

fn enveloped(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let head = field(1, &[field(1, version.as_bytes()), field(2, kind.as_bytes())].concat());
    [b"k8s\0".to_vec(), head, field(2, raw)].concat()
}

#[tokio::test(start_paused = true)]
async fn protobuf_bodies_are_read_and_broken_ones_refused() {
    let wire = Wire::new();
    let whole = protobuf_config_map("proto");
    let stored = wire.call("POST", CONFIG_MAPS, PROTOBUF, whole.clone()).await.ok(201);
    assert_eq!((&stored["kind"], &stored["data"]), (&json!("ConfigMap"), &json!({"k": "v"})));
    wire.create(DEFINITIONS, &widgets()).await;
    let before = wire.revision().await;
    for cut in 0..whole.len() {
        let reply =
            wire.call("POST", &format!("{CONFIG_MAPS}?dryRun=All"), PROTOBUF, whole[..cut].to_vec()).await;
        // A message may end between two fields; then something else is missing.
        assert!([400, 415, 422].contains(&reply.code), "{cut}: {}", reply.json);
    }
    for seed in 0..200_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut body = b"k8s\0".to_vec();
        body.extend((0..random.usize(0..64)).map(|_| random.u8(..)));
        let reply = wire.call("POST", CONFIG_MAPS, PROTOBUF, body).await;
        assert!([400, 415, 422].contains(&reply.code), "{seed}: {}", reply.json);
    }
    let reply = wire.call("POST", WIDGETS, PROTOBUF, enveloped("shop.example/v1", "Widget", b"")).await;
    assert_eq!((reply.code, &reply.json["reason"]), (415, &json!("UnsupportedMediaType")));
    let reply = wire.call("POST", CONFIG_MAPS, PROTOBUF, "not protobuf").await;
    assert_eq!(reply.code, 400, "{}", reply.json);
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_media_types_are_unsupported() {
    let wire = Wire::new();
    let message = "the body of the request was in an unknown format - accepted media types include: \
        application/json, application/yaml, application/vnd.kubernetes.protobuf";
    for kind in ["text/plain", "application/xml", "application/json-patch+json", "x", "application/cbor"] {
        for (method, path) in [("POST", CONFIG_MAPS.to_owned()), ("PUT", format!("{CONFIG_MAPS}/a"))] {
            wire.call(method, &path, kind, "{}").await.refuses(415, "UnsupportedMediaType", message);
        }
    }
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let message = "the body of the request was in an unknown format - accepted media types include: \
        application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
        application/apply-patch+yaml";
    for kind in ["application/json", "text/plain", "application/patch"] {
        let reply = wire.call("PATCH", &format!("{CONFIG_MAPS}/a"), kind, "{}").await;
        reply.refuses(415, "UnsupportedMediaType", message);
    }
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", ""] {
        wire.call("POST", &format!("{CONFIG_MAPS}?dryRun=All"), kind, config_map("b").to_string())
            .await
            .ok(201);
    }
    let reply =
        wire.send("POST", CONFIG_MAPS, &[("accept", "text/html")], config_map("b").to_string().into()).await;
    assert_eq!(reply.code, 406);
    wire.get(&format!("{CONFIG_MAPS}/b")).await.ok(404);
}

#[tokio::test(start_paused = true)]
async fn patches_of_the_wrong_shape_are_refused() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let before = wire.revision().await;
    let path = format!("{CONFIG_MAPS}/a");
    let cases = [
        (JSON_PATCH, "{}", 400),
        (JSON_PATCH, "\"x\"", 400),
        (JSON_PATCH, "[1]", 400),
        (JSON_PATCH, "[{\"op\": \"dance\", \"path\": \"/x\"}]", 422),
        (JSON_PATCH, "[{\"op\": \"add\"}]", 422),
        (JSON_PATCH, "[{\"op\": \"add\", \"path\": \"no-slash\", \"value\": 1}]", 422),
        (JSON_PATCH, "[{\"op\": \"move\", \"from\": \"/data\", \"path\": \"/data/x\"}]", 422),
        (JSON_PATCH, "not json", 400),
        (JSON_PATCH, "", 400),
        (JSON_PATCH, "[{\"op\": \"replace\", \"path\": \"\", \"value\": 1}]", 400),
        (JSON_PATCH, "[{\"op\": \"replace\", \"path\": \"/metadata\", \"value\": []}]", 400),
        (MERGE, "[]", 400),
        (MERGE, "\"x\"", 400),
        (MERGE, "5", 400),
        (MERGE, "{\"metadata\": 5}", 400),
        (MERGE, "not json", 400),
        (MERGE, "", 400),
        (STRATEGIC, "[]", 400),
        (STRATEGIC, "\"x\"", 400),
        (STRATEGIC, "{\"metadata\": {\"finalizers\": {\"a\": 1}}}", 0),
        (STRATEGIC, "not json", 400),
        (STRATEGIC, "{\"data\": {\"$patch\": \"dance\"}}", 0),
        (APPLY, "[]", 400),
        (APPLY, "5", 400),
        (APPLY, "", 400),
        (APPLY, "{}", 400),
    ];
    for (kind, body, code) in cases {
        let query = if kind == APPLY { "?fieldManager=x" } else { "" };
        let reply = wire.call("PATCH", &format!("{path}{query}"), kind, body).await;
        let expected = if code == 0 { [400, 422, 500].contains(&reply.code) } else { reply.code == code };
        assert!(expected, "{kind} {body}: {}", reply.json);
        assert_eq!(reply.json["kind"], "Status");
    }
    let reply = wire.call("PATCH", &path, MERGE, "{\"a\": ").await;
    reply.refuses(400, "BadRequest", "invalid JSON patch");
    nothing_happened(&wire, before).await;
}

#[tokio::test(start_paused = true)]
async fn huge_patches_are_refused_before_they_cost_anything() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let operation = json!({"op": "test", "path": "/data/a", "value": "1"});
    let many = Value::Array(vec![operation.clone(); 10_001]);
    let reply = wire.patch(&path, JSON_PATCH, &many).await;
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    reply.refuses(413, "RequestEntityTooLarge", message);
    wire.patch(&path, JSON_PATCH, &Value::Array(vec![operation; 10_000])).await.ok(200);
    let double = json!({"op": "copy", "from": "/data", "path": "/data/x"});
    let reply = wire.patch(&path, JSON_PATCH, &Value::Array(vec![double; 64])).await;
    assert!((400..=422).contains(&reply.code), "{}", reply.json);
}

#[tokio::test(start_paused = true)]
async fn parameters_that_make_no_sense_are_refused() {
    let wire = Wire::new();
    let cases = [
        ("limit=x", 400),
        ("limit=99999999999999999999", 400),
        ("timeoutSeconds=x&watch=1", 400),
        ("resourceVersion=x", 400),
        ("continue=%00", 400),
        ("sendInitialEvents=x&watch=1", 422),
        ("limit=", 400),
    ];
    for (query, code) in cases {
        let reply = wire.get(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(reply.code, code, "{query}: {}", reply.json);
    }
    for query in ["&&limit=3", "?=&limit=3", "limit=3&limit=x", "unknown=1", "%ff=%ff", "limit=-1"] {
        assert_eq!(wire.get(&format!("{CONFIG_MAPS}?{query}")).await.code, 200, "{query}");
    }
    let long = "x".repeat(129);
    let reply = wire.patch(&format!("{CONFIG_MAPS}/a?fieldManager={long}"), APPLY, &config_map("a")).await;
    assert_eq!(
        (reply.code, reply.causes()),
        (422, vec![("fieldManager", "FieldValueTooLong")]),
        "{}",
        reply.json
    );
}

#[tokio::test(start_paused = true)]
async fn odd_paths_are_just_not_found() {
    let wire = Wire::new();
    for path in [
        "//",
        "/api//v1",
        "/api/v1/namespaces/default/pods/%2e%2e",
        "/api/v1/namespaces/%00/pods",
        "/api/v1/namespaces/default/pods/a%2Fb",
        "/api/v1/namespaces/a/b/c/d/e",
        "/%ff%fe",
        "/api/v1/namespaces//pods",
        "/apis/%20/v1",
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
            let reply = wire.call(method, path, "", "").await;
            assert!(reply.code < 500, "{method} {path}: {}", reply.code);
        }
    }
    for method in ["OPTIONS", "TRACE", "PROPFIND"] {
        assert_eq!(wire.call(method, CONFIG_MAPS, "", "").await.code, 405, "{method}");
    }
    wire.call("POST", "/nope", JSON, "{}").await.ok(404);
    assert_eq!(wire.call("POST", "/version", JSON, "{}").await.code, 405);
    let all = wire.call("POST", "/api/v1/configmaps", JSON, config_map("a").to_string()).await;
    assert_eq!(all.code, 405, "a namespace is missing");
}

#[tokio::test(start_paused = true)]
async fn subresources_refuse_rubbish_too() {
    let wire = Wire::new();
    wire.create(PODS, &pod("a")).await;
    wire.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "a"}})).await;
    let paths = ["pods/a/binding", "pods/a/eviction", "serviceaccounts/a/token"];
    for path in paths {
        for body in ["", "[]", "{", "5", "null", "{\"spec\": 5, \"target\": 5, \"deleteOptions\": 5}"] {
            let reply = wire.call("POST", &format!("/api/v1/namespaces/default/{path}"), JSON, body).await;
            assert!(reply.code < 500, "{path} {body}: {}", reply.json);
        }
    }
    wire.get("/api/v1/namespaces/default").await.ok(200);
}
