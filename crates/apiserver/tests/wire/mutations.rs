//! Random damage to valid requests: an answer always arrives, it is never a failure of the server, and it goes on.

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::*;

/// A valid request to start from.
#[derive(Clone, Debug)]
struct Sent {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

fn valid() -> Vec<Sent> {
    let sent = |method: &str, path: &str, kind: &str, body: Value| Sent {
        method: method.into(),
        path: path.into(),
        headers: vec![("content-type".into(), kind.into()), ("accept".into(), "application/json".into())],
        body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
    };
    let with = |mut request: Sent, query: &str| {
        request.path.push_str(query);
        request
    };
    let patch = json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]);
    let slice = json!({"metadata": {"generateName": "s-"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 80}]});
    vec![
        sent("GET", &format!("{CONFIG_MAPS}?limit=2&labelSelector=a%20in%20(b,c)"), "", Value::Null),
        sent(
            "GET",
            &format!("{PODS}?fieldSelector=status.phase%3DRunning&resourceVersion=0"),
            "",
            Value::Null,
        ),
        sent(
            "GET",
            &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0"),
            "",
            Value::Null,
        ),
        sent(
            "POST",
            CONFIG_MAPS,
            JSON,
            json!({"metadata": {"generateName": "m-", "labels": {"a": "b"}}, "data": {"x": "y"}}),
        ),
        sent(
            "POST",
            SERVICES,
            JSON,
            json!({"metadata": {"generateName": "m-"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "name": "a"}]}}),
        ),
        sent("POST", SLICES, JSON, slice),
        sent("PUT", &format!("{CONFIG_MAPS}/a"), JSON, config_map("a")),
        sent(
            "PUT",
            &format!("{SERVICES}/s/status"),
            JSON,
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
        ),
        with(sent("PATCH", &format!("{CONFIG_MAPS}/a"), JSON_PATCH, patch), "?dryRun=All"),
        sent("PATCH", &format!("{CONFIG_MAPS}/a"), MERGE, json!({"data": {"c": null, "d": "e"}})),
        sent(
            "PATCH",
            &format!("{PODS}/p"),
            STRATEGIC,
            json!({"spec": {"containers": [{"name": "main", "image": "j"}]}}),
        ),
        sent("PATCH", &format!("{SERVICES}/s?fieldManager=x&force=true"), APPLY, service("s")),
        sent("PATCH", &format!("{WIDGETS}/w?fieldManager=x"), APPLY, widget("w")),
        sent("PATCH", &format!("{WIDGETS}/w/scale"), MERGE, json!({"spec": {"replicas": 2}})),
        sent("POST", WIDGETS, JSON, widget("fresh")),
        sent("POST", DEFINITIONS, JSON, widgets()),
        sent(
            "DELETE",
            &format!("{CONFIG_MAPS}/a"),
            JSON,
            json!({"propagationPolicy": "Background", "preconditions": {"uid": "x"}}),
        ),
        sent("DELETE", &format!("{PODS}?labelSelector=a%3Db"), JSON, json!({"gracePeriodSeconds": 0})),
        sent(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            JSON,
            json!({"spec": {"resourceAttributes": {"verb": "get"}}}),
        ),
        sent("GET", "/apis", "", Value::Null),
        sent("GET", "/openapi/v3/api/v1", "", Value::Null),
    ]
}

/// One kind of damage.
#[derive(Clone, Debug)]
enum Damage {
    Method(&'static str),
    /// Replaces the path segment at this place.
    Segment(usize, &'static str),
    Query(&'static str),
    Header(&'static str, &'static str),
    Byte(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    /// Replaces one value somewhere in the body.
    Value(usize, Value),
    /// Adds a field to an object somewhere in the body.
    Field(usize, &'static str, Value),
}

fn values() -> impl Strategy<Value = Value> {
    let long = "x".repeat(300);
    prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("A B"),
        json!(long),
        json!("\u{0}"),
        json!("é"),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"": {}}),
        json!([{"name": 1}, {"name": 1}]),
        json!("None"),
        json!("10.96.0.1"),
        json!("2020-01-01T00:00:00Z"),
        json!({"$patch": "delete"}),
        json!(["a", "a"]),
    ])
}

fn damage() -> impl Strategy<Value = Damage> {
    let words = vec![
        "",
        "a",
        "..",
        "%00",
        "%ff",
        "nope",
        "status",
        "scale",
        "pods",
        "namespaces",
        "v1",
        "system:x",
        "finalize",
        "token",
    ];
    let queries = vec![
        "limit=1",
        "limit=x",
        "continue=e30",
        "continue=%00",
        "resourceVersion=1",
        "resourceVersion=x",
        "watch=1&timeoutSeconds=1",
        "dryRun=All",
        "dryRun=x",
        "fieldValidation=Strict",
        "fieldManager=",
        "force=true",
        "force=x",
        "labelSelector=(",
        "labelSelector=a,!b",
        "fieldSelector=x%3Dy",
        "resourceVersionMatch=Exact",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=1&timeoutSeconds=1",
        "gracePeriodSeconds=x",
        "propagationPolicy=x",
        "includeObject=x",
        "pretty=1",
        "&&&",
        "%ff=%ff",
    ];
    let headers = vec![
        ("content-type", "application/yaml"),
        ("content-type", PROTOBUF),
        ("content-type", "x"),
        ("content-type", MERGE),
        ("content-type", APPLY),
        ("content-type", JSON_PATCH),
        ("content-type", STRATEGIC),
        ("accept", TABLE),
        ("accept", METADATA),
        ("accept", "text/html"),
        ("accept", AGGREGATED),
        ("accept", ";;;,,,"),
        ("user-agent", "/"),
        ("user-agent", ""),
    ];
    let methods = vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "NONSENSE"];
    let fields = vec![
        "metadata",
        "name",
        "namespace",
        "spec",
        "status",
        "kind",
        "apiVersion",
        "uid",
        "resourceVersion",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "labels",
        "annotations",
        "ports",
        "clusterIP",
        "type",
        "selector",
        "generateName",
        "$patch",
        "$retainKeys",
        "$setElementOrder/ports",
        "deletionTimestamp",
        "versions",
        "schema",
        "items",
        "",
    ];
    prop_oneof![
        1 => prop::sample::select(methods).prop_map(Damage::Method),
        2 => (0..10_usize, prop::sample::select(words)).prop_map(|(place, word)| Damage::Segment(place, word)),
        2 => prop::sample::select(queries).prop_map(Damage::Query),
        2 => prop::sample::select(headers).prop_map(|(name, value)| Damage::Header(name, value)),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(place, byte)| Damage::Byte(place, byte)),
        1 => any::<usize>().prop_map(Damage::Cut),
        1 => (any::<usize>(), prop::collection::vec(any::<u8>(), 0..8)).prop_map(|(place, bytes)| Damage::Insert(place, bytes)),
        4 => (any::<usize>(), values()).prop_map(|(place, value)| Damage::Value(place, value)),
        4 => (any::<usize>(), prop::sample::select(fields), values()).prop_map(|(place, key, value)| Damage::Field(place, key, value)),
    ]
}

/// All values of a document, by pointer.
fn pointers(value: &Value, here: String, out: &mut Vec<String>) {
    out.push(here.clone());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| pointers(item, format!("{here}/{place}"), out))
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            pointers(item, format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), out);
        }),
        _ => {}
    }
}

fn within(body: &mut Vec<u8>, place: usize, change: impl FnOnce(&mut Value)) {
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else { return };
    let mut places = Vec::new();
    pointers(&value, String::new(), &mut places);
    let pointer = &places[place % places.len()];
    change(value.pointer_mut(pointer).expect("it was found there"));
    *body = value.to_string().into_bytes();
}

impl Sent {
    fn damaged(mut self, damage: Damage) -> Self {
        let place = |place: usize, length: usize| if length == 0 { 0 } else { place % length };
        match damage {
            Damage::Method(method) => self.method = method.into(),
            Damage::Segment(at, word) => {
                let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
                let mut parts: Vec<&str> = path.split('/').collect();
                let at = place(at, parts.len());
                parts[at] = word;
                self.path = format!("/{}?{query}", parts.join("/").trim_start_matches('/'));
            }
            Damage::Query(query) => {
                self.path.push_str(&format!("{}{query}", if self.path.contains('?') { '&' } else { '?' }))
            }
            Damage::Header(name, value) => {
                self.headers.retain(|(known, _)| known != name);
                self.headers.push((name.into(), value.into()));
            }
            Damage::Byte(at, byte) => {
                let at = place(at, self.body.len());
                if let Some(found) = self.body.get_mut(at) {
                    *found = byte;
                }
            }
            Damage::Cut(at) => {
                let at = place(at, self.body.len());
                self.body.truncate(at);
            }
            Damage::Insert(at, bytes) => {
                let at = place(at, self.body.len());
                self.body.splice(at..at, bytes);
            }
            Damage::Value(at, new) => within(&mut self.body, at, |value| *value = new),
            Damage::Field(at, key, new) => within(&mut self.body, at, |value| {
                if let Value::Object(map) = value {
                    map.insert(key.into(), new);
                }
            }),
        }
        self
    }

    /// `None` when no HTTP client could send it.
    fn request(&self) -> Option<Request<Vec<u8>>> {
        let uri: Uri = self.path.parse().ok()?;
        let method = Method::from_bytes(self.method.as_bytes()).ok()?;
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request = request.header(name, HeaderValue::from_str(value).ok()?);
        }
        request.body(self.body.clone()).ok()
    }
}

/// What a real server answers with 500 and no reason: versions in new objects, and patches that do not fit the kind.
const UNEXPLAINED: [&str; 7] = [
    "resourceVersion should not be set on objects to be created",
    "failed to create typed patch object",
    "expected a map[string]interface {}, but received",
    "does not contain declared merge key",
    "unknown patch type",
    "merging lists cannot yet be specified in the patch",
    "doesn't match $setElementOrder list",
];

/// Codes above 499 that a real server answers, too, with the messages that go with them.
fn is_documented(code: u16, body: &str) -> bool {
    match code {
        500 => UNEXPLAINED.iter().any(|known| body.contains(known)),
        504 => body.contains("Too large resource version"),
        _ => false,
    }
}

async fn check(wire: &Wire, sent: &Sent) -> Result<(), TestCaseError> {
    let Some(request) = sent.request() else { return Ok(()) };
    let answer = wire.raw(request).await;
    let code = answer.status().as_u16();
    let body =
        tokio::time::timeout(std::time::Duration::from_secs(2 * 3600), answer.into_body().collect()).await;
    let body = body.map_err(|_| TestCaseError::fail(format!("the answer to {sent:?} never ends")))?;
    let body = body.expect("the body is whole").to_bytes();
    let text = String::from_utf8_lossy(&body);
    prop_assert!(code < 500 || is_documented(code, &text), "{code} {text} to {sent:?}");
    if code >= 400 && code != 404 {
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        prop_assert_eq!(&status["kind"], "Status", "{} to {:?}", text, sent);
    }
    Ok(())
}

async fn filled() -> Wire {
    let wire = Wire::new();
    wire.create(DEFINITIONS, &widgets()).await;
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.create(SERVICES, &service("s")).await;
    wire.create(PODS, &pod("p")).await;
    wire.create(WIDGETS, &widget("w")).await;
    wire
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_requests_get_an_answer_and_the_server_goes_on(
        requests in prop::collection::vec(
            (prop::sample::select(valid()), prop::collection::vec(damage(), 0..4)), 1..6)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let wire = filled().await;
            for (request, damages) in requests {
                let sent = damages.into_iter().fold(request, Sent::damaged);
                check(&wire, &sent).await?;
            }
            prop_assert_eq!(wire.get("/api/v1/namespaces/default").await.code, 200);
            prop_assert_eq!(wire.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("after")).await.code, 201);
            Ok(())
        })?;
    }
}
