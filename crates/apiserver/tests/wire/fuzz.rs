//! Mutated bodies and queries against all parsers, for as long as wanted: `cargo xtask fuzz apiserver`.
//!
//! Debug assertions and overflow checks are on, and a panic ends the test. Every answer is what was asked for or a refusal that is
//! a Status and no fault of the server. What was accepted can be read back as it was answered, and written once more
//! without changing: so what is stored is what the server itself would make of it.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::client::{
    APPLY, CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, JSON, JSON_PATCH, MERGE, PODS, PROTOBUF, Reply, SERVICES,
    SLICES, STRATEGIC, WIDGETS, Wire, YAML, config_map, pod, service, widget, widgets,
};
use crate::mutate;

/// How many requests before the cluster is replaced by a fresh one.
const ROUND: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    JsonPatch,
    MergePatch,
    StrategicPatch,
    Apply,
    Protobuf,
    Yaml,
    Json,
    Queries,
}

const TARGETS: [Target; 8] = [
    Target::JsonPatch,
    Target::MergePatch,
    Target::StrategicPatch,
    Target::Apply,
    Target::Protobuf,
    Target::Yaml,
    Target::Json,
    Target::Queries,
];

fn deployment() -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "containers": [
                {"name": "one", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
                {"name": "two", "image": "j"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        }},
    }})
}

fn slice() -> Value {
    json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {"name": "web",
        "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hints": {"forZones": [{"name": "z"}]}}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]})
}

fn full_widget() -> Value {
    let mut value = widget("web");
    value["spec"] = json!({"size": 3, "colour": "green", "port": "http", "free": {"x": [1, {"y": null}]},
        "parts": [{"name": "a", "count": 1}, {"name": "b"}], "tags": ["x", "y"], "frozen": "f"});
    value
}

fn full_service() -> Value {
    let mut value = service("web");
    value["spec"] = json!({"type": "NodePort", "selector": {"app": "web"}, "sessionAffinity": "ClientIP",
        "ports": [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 53, "protocol": "UDP"}]});
    value
}

/// Objects with the collections they belong to.
fn objects() -> Vec<(&'static str, Value)> {
    vec![
        (CONFIG_MAPS, config_map("web")),
        (SERVICES, full_service()),
        (PODS, pod("web")),
        (DEPLOYMENTS, deployment()),
        (SLICES, slice()),
        (WIDGETS, full_widget()),
        (DEFINITIONS, widgets()),
    ]
}

/// What people send as patches, for any object.
fn patches(target: Target, object: &Value) -> Vec<Value> {
    match target {
        Target::JsonPatch => vec![
            json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
            json!([{"op": "test", "path": "/metadata/name", "value": "web"}, {"op": "remove", "path": "/spec"}]),
            json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]),
            json!([{"op": "copy", "from": "/spec", "path": "/status"}, {"op": "move", "from": "/spec", "path": "/data"}]),
            json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "c", "image": "k"}}]),
        ],
        Target::StrategicPatch => vec![
            object.clone(),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "one", "env": [{"name": "A", "$patch": "delete"}]}],
                "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}}}}),
            json!({"spec": {"ports": [{"port": 80, "$patch": "replace"}, {"port": 53, "protocol": "UDP"}]}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"metadata": {"finalizers": ["a/b"], "$deleteFromPrimitiveList/finalizers": ["c/d"], "$setElementOrder/finalizers": ["a/b"]}}),
        ],
        _ => vec![
            object.clone(),
            json!({"metadata": {"labels": {"x": null, "y": "z"}}, "spec": null}),
            json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": "web", "labels": {"l": "m"}}}),
        ],
    }
}

/// `field: [1, two]` for `{"field": [1, "two"]}`.
fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("JSON is YAML, too")
}

fn protobuf() -> Vec<Vec<u8>> {
    let text = include_str!("../../src/types/testdata/protobuf.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("test data");
    cases.iter().filter_map(|case| STANDARD.decode(case["protobuf"].as_str()?).ok()).collect()
}

const QUERIES: [&str; 16] = [
    "labelSelector=app%3Dweb%2Ca!%3Db",
    "labelSelector=app+in+(a,b),!c,d+notin+(e)",
    "fieldSelector=metadata.name%3Dweb,metadata.namespace!%3Dx",
    "limit=1",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "resourceVersion=1&resourceVersionMatch=Exact",
    "watch=true&resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=true",
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
    "dryRun=All&fieldManager=me&fieldValidation=Strict",
    "tailLines=10&follow=true&timestamps=1&container=main",
    "pretty=1&includeObject=Object",
    "gracePeriodSeconds=0&propagationPolicy=Orphan",
    "labelSelector=a%3E1,b%3C2,c%3D",
    "fieldSelector=spec.clusterIP%3DNone,spec.type%3DClusterIP",
    "command=sh&command=-c&stdin=true&tty=1",
    "resourceVersion=18446744073709551616",
];

struct Fuzz {
    random: Rng,
    wire: Wire,
    protobuf: Vec<Vec<u8>>,
    accepted: usize,
    refused: usize,
}

impl Fuzz {
    async fn new(seed: u64) -> Self {
        let random = Rng::with_seed(seed);
        let mut fuzz = Self { random, wire: Wire::new(), protobuf: protobuf(), accepted: 0, refused: 0 };
        fuzz.begin().await;
        fuzz
    }

    /// A fresh cluster that has one object of each kind.
    async fn begin(&mut self) {
        self.wire = Wire::new();
        self.wire.create(DEFINITIONS, &widgets()).await;
        for (path, object) in objects().iter().filter(|(path, _)| *path != DEFINITIONS) {
            self.wire.create(path, object).await;
        }
    }

    async fn once(&mut self, target: Target) {
        let all = objects();
        let (path, object) = &all[self.random.usize(0..all.len())];
        let name = object["metadata"]["name"].as_str().expect("a name");
        let item = format!("{path}/{name}");
        match target {
            Target::Protobuf => self.send_protobuf(path).await,
            Target::Queries => self.send_query(path, &item).await,
            Target::Json | Target::Yaml => {
                let (kind, body) = if target == Target::Json {
                    (JSON, self.body(object))
                } else {
                    (YAML, self.text(yaml(object).as_bytes()))
                };
                let (method, path) =
                    if self.random.bool() { ("POST", *path) } else { ("PUT", item.as_str()) };
                self.ask(method, path, kind, body).await;
            }
            _ => self.send_patch(target, object, &item).await,
        }
    }

    async fn send_patch(&mut self, target: Target, object: &Value, item: &str) {
        let choice = patches(target, object);
        let patch = choice[self.random.usize(0..choice.len())].clone();
        let kind = match target {
            Target::JsonPatch => JSON_PATCH,
            Target::MergePatch => MERGE,
            Target::StrategicPatch => STRATEGIC,
            _ => APPLY,
        };
        let part = if self.random.u8(0..5) == 0 { "/status" } else { "" };
        let manager = mutate::pick(&mut self.random, &["a", "b"]);
        let force = if target == Target::Apply && self.random.bool() { "&force=true" } else { "" };
        let path = format!("{item}{part}?fieldManager={manager}{force}");
        let body = if target == Target::Apply && self.random.bool() {
            self.text(yaml(&patch).as_bytes())
        } else {
            self.body(&patch)
        };
        self.ask("PATCH", &path, kind, body).await;
    }

    async fn send_protobuf(&mut self, path: &str) {
        let body = self.protobuf[self.random.usize(0..self.protobuf.len())].clone();
        let body = mutate::octets(&mut self.random, &body, &self.protobuf);
        self.ask("POST", path, PROTOBUF, body).await;
    }

    async fn send_query(&mut self, path: &str, item: &str) {
        let query = mutate::pick(&mut self.random, &QUERIES).to_owned();
        let query = mutate::octets(&mut self.random, query.as_bytes(), &[]);
        // What no client could put into a request line is none of the server's business.
        let query: String = query
            .iter()
            .filter(|octet| octet.is_ascii_graphic() && **octet != b'#')
            .map(|octet| char::from(*octet))
            .collect();
        let method = mutate::pick(&mut self.random, &["GET", "GET", "GET", "DELETE"]);
        let part = mutate::pick(&mut self.random, &["", "", "/status", "/log", "/exec", "/scale"]);
        let place = if self.random.bool() { path.to_owned() } else { format!("{item}{part}") };
        let request = http::Request::builder().method(method).uri(format!("{place}?{query}"));
        let Ok(request) = request.body(()) else { return };
        let (parts, _) = request.into_parts();
        self.ask(method, &parts.uri.to_string(), "", Vec::new()).await;
    }

    /// JSON that is well-formed, mostly.
    fn body(&mut self, value: &Value) -> Vec<u8> {
        let text = mutate::json(&mut self.random, value).to_string().into_bytes();
        if self.random.u8(0..3) == 0 { self.text(&text) } else { text }
    }

    fn text(&mut self, text: &[u8]) -> Vec<u8> {
        mutate::octets(&mut self.random, text, &[])
    }

    async fn ask(&mut self, method: &str, path: &str, kind: &str, body: Vec<u8>) {
        let shown = String::from_utf8_lossy(&body).into_owned();
        let reply = self.wire.call(method, path, kind, body).await;
        let about = || format!("{method} {path} {kind}\n{shown}\n{}", String::from_utf8_lossy(&reply.body));
        if reply.code >= 400 {
            self.refused += 1;
            let text = reply.json["kind"] != "Status" && reply.code == 404;
            assert!(text || reply.json["status"] == "Failure", "{}", about());
            let running = reply.message().contains("nothing runs there");
            assert!(running || reply.json["reason"] != "InternalError", "{}", about());
            return;
        }
        self.accepted += 1;
        if method == "GET" || method == "DELETE" || path.contains("/status") || path.contains("dryRun") {
            return;
        }
        self.check_stored(&reply, path, &about()).await;
    }

    /// What was accepted is there, and is what the server itself would make of it.
    async fn check_stored(&self, reply: &Reply, path: &str, about: &str) {
        let collection = path.split('?').next().unwrap_or(path);
        let collection = objects()
            .iter()
            .map(|(path, _)| *path)
            .find(|known| collection.starts_with(known))
            .expect("a path");
        let name = reply.json["metadata"]["name"].as_str().unwrap_or_default();
        let place = format!("{collection}/{name}");
        let found = self.wire.get(&place).await;
        if found.code == 404 {
            // The write took away the last finalizer of something that was being deleted.
            return;
        }
        assert_eq!(found.json, reply.json, "{about}");
        let again = self.wire.put(&place, &found.json).await;
        assert_eq!(again.json, found.json, "the same again is a change: {about}");
    }
}

async fn run(seed: u64, targets: &[Target], mut goes_on: impl FnMut(usize) -> bool) {
    let mut fuzz = Fuzz::new(seed).await;
    let mut count = 0;
    while goes_on(count) {
        if count % ROUND == ROUND - 1 {
            fuzz.begin().await;
        }
        let target = targets[fuzz.random.usize(0..targets.len())];
        fuzz.once(target).await;
        count += 1;
    }
    // Protobuf comes from test data whose values mean nothing, so it is decoded and then refused.
    let some = targets == [Target::Protobuf] || fuzz.accepted * 100 > count;
    assert!(some, "only {} of {count} were accepted", fuzz.accepted);
    assert!(fuzz.refused * 100 > count, "only {} of {count} were refused", fuzz.refused);
}

#[tokio::test(start_paused = true)]
async fn mutated_requests_are_answered() {
    for target in TARGETS {
        run(7, &[target], |count| count < 250).await;
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
#[ignore = "runs for as long as MINUTES says"]
async fn many() {
    let (minutes, first) = (setting("MINUTES").unwrap_or(1), setting("SEED").unwrap_or(1));
    let only = std::env::var("TARGET").unwrap_or_default();
    for target in TARGETS.into_iter().filter(|target| only.is_empty() || format!("{target:?}") == only) {
        let end = Instant::now() + Duration::from_secs(minutes * 60);
        let (mut seed, mut count) = (first, 0);
        while Instant::now() < end {
            eprintln!("{target:?}, seed {seed}: {count} requests so far");
            run(seed, &[target], |done| done < 10_000 && (done % 100 != 0 || Instant::now() < end)).await;
            (seed, count) = (seed + 1, count + 10_000);
        }
    }
}
