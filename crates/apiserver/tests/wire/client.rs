//! A client that hides nothing: it sends what it is told and shows what comes back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tombolo_apiserver::{Body, Clock, Cluster, Entropy, Options, User};
use tower::ServiceExt as _;

pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Longer than any answer takes, in real or in paused time; only something that hangs takes longer.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// A cluster and who talks to it.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) cluster: Cluster,
    user: User,
}

/// An answer that has been read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Null when the body is not JSON.
    pub(crate) json: Value,
}

/// Settings that make a cluster the same every time.
pub(crate) fn repeatable() -> Options {
    Options {
        clock: Clock::starting_at("2026-11-15T10:00:00Z".parse().expect("a time")),
        entropy: Entropy::seeded(7),
        ..Options::named("wire")
    }
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self::with(repeatable())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self { cluster: Cluster::new(options), user: User::admin() }
    }

    pub(crate) fn acting_as(&self, user: User) -> Self {
        Self { cluster: self.cluster.clone(), user }
    }

    /// Sends a request as it is.
    pub(crate) async fn raw(&self, request: Request<Vec<u8>>) -> http::Response<Body> {
        let request = request.map(kube::client::Body::from);
        let answer = self.cluster.service(self.user.clone()).oneshot(request);
        let answer = tokio::time::timeout(PATIENCE, answer).await.expect("an answer arrives");
        answer.expect("the service never fails")
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        read(self.raw(request.body(body).expect("a request")).await).await
    }

    /// Sends a body of some type; an empty type sends no header.
    pub(crate) async fn call(&self, method: &str, path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Reply {
        let headers = [("content-type", kind)];
        self.send(method, path, if kind.is_empty() { &[] } else { &headers }, body.into()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, "", "").await
    }

    pub(crate) async fn get_as(&self, accept: &str, path: &str) -> Reply {
        self.send("GET", path, &[("accept", accept)], Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, JSON, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.call("PUT", path, JSON, body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Reply {
        self.call("PATCH", path, kind, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path, "", "").await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Reply {
        self.call("DELETE", path, JSON, options.to_string()).await
    }

    /// Server-side apply.
    pub(crate) async fn apply(&self, path: &str, manager: &str, body: &Value) -> Reply {
        self.patch(&with_query(path, &format!("fieldManager={manager}")), APPLY, body).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(JSON, path).await
    }

    pub(crate) async fn watch_as(&self, accept: &str, path: &str) -> Watch {
        let request = Request::get(with_query(path, "watch=true")).header("accept", accept);
        let answer = self.raw(request.body(Vec::new()).expect("a request")).await;
        assert_eq!(answer.status(), 200, "the watch of {path} was refused");
        assert_eq!(answer.headers()["content-type"], "application/json");
        Watch { body: answer.into_body(), pending: Vec::new() }
    }

    /// The newest resource version of the cluster.
    pub(crate) async fn revision(&self) -> u64 {
        let list = self.get("/api/v1/namespaces?limit=1").await;
        list.json["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
    }

    /// Creates something that must be accepted.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body).await;
        assert_eq!(reply.code, 201, "{}", reply.json);
        reply.json
    }
}

fn with_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

async fn read(answer: http::Response<Body>) -> Reply {
    let (parts, body) = answer.into_parts();
    let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the answer ends");
    let body = body.expect("the body is whole").to_bytes();
    let json = serde_json::from_slice(&body).unwrap_or_default();
    Reply { code: parts.status.as_u16(), headers: parts.headers, body, json }
}

impl Reply {
    /// The answer, if it is the one that was expected.
    #[track_caller]
    pub(crate) fn ok(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.body));
        self.json
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> &str {
        version(&self.json)
    }

    /// A refusal with this code, reason and message, which is also a well-formed Status.
    #[track_caller]
    pub(crate) fn refuses(&self, code: u16, reason: &str, message: &str) {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(self.json["kind"], "Status", "{shown}");
        assert_eq!(self.json["apiVersion"], "v1", "{shown}");
        assert_eq!(self.json["status"], "Failure", "{shown}");
        assert_eq!(self.headers["content-type"], "application/json", "{shown}");
        assert_eq!((self.code, &self.json["code"]), (code, &json!(code)), "{shown}");
        assert_eq!(self.json["reason"].as_str().unwrap_or_default(), reason, "{shown}");
        assert_eq!(self.message(), message, "{shown}");
    }

    /// The fields and reasons of `details.causes`.
    pub(crate) fn causes(&self) -> Vec<(&str, &str)> {
        let causes = self.json["details"]["causes"].as_array().into_iter().flatten();
        causes.map(|cause| (text(&cause["field"]), text(&cause["reason"]))).collect()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn version(object: &Value) -> &str {
    text(&object["metadata"]["resourceVersion"])
}

pub(crate) fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

/// The names in a list, in its order.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().into_iter().flatten().map(|item| text(&item["metadata"]["name"])).collect()
}

/// The open end of a watch.
pub(crate) struct Watch {
    body: Body,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the server ends the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("every line is an event"));
            }
            let frame =
                tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("the watch is alive")?;
            self.pending.extend(frame.expect("the stream is whole").into_data().expect("no trailers"));
        }
    }

    /// The next event as type, name and resource version.
    pub(crate) async fn event(&mut self) -> (String, String, String) {
        let event = self.next().await.expect("one more event");
        let object = &event["object"];
        let owned = |value: &Value| text(value).to_owned();
        (owned(&event["type"]), owned(&object["metadata"]["name"]), version(object).to_owned())
    }

    /// Every event until the server ends the stream.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Every event until the server ends the stream, as type and name.
    pub(crate) async fn summary(self) -> Vec<(String, String)> {
        let owned = |value: &Value| text(value).to_owned();
        let rest = self.rest().await;
        rest.iter()
            .map(|event| (owned(&event["type"]), owned(&event["object"]["metadata"]["name"])))
            .collect()
    }
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"a": "1"}})
}

pub(crate) fn service(name: &str) -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "i"}]}})
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/shop.example/v1/namespaces/default/widgets";

/// A definition with two served versions, everything a definition can have, and a status.
pub(crate) fn widgets() -> Value {
    let version = |name: &str, storage: bool, extra: Value| {
        let mut version = json!({
            "name": name, "served": true, "storage": storage,
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"},
            },
            "selectableFields": [{"jsonPath": ".spec.colour"}],
            "additionalPrinterColumns": [
                {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
            ],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {
                    "type": "object",
                    "required": ["size"],
                    "properties": {
                        "size": {"type": "integer", "minimum": 1, "maximum": 10},
                        "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
                        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                        "replicas": {"type": "integer"},
                        "port": {"x-kubernetes-int-or-string": true},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "parts": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"],
                                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}},
                        },
                        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "frozen": {"type": "string", "x-kubernetes-validations": [
                            {"rule": "self == oldSelf", "message": "frozen may not change"}]},
                    },
                    "x-kubernetes-validations": [
                        {"rule": "!has(self.replicas) || self.replicas <= self.size", "message": "too many replicas"}],
                },
                "status": {"type": "object", "properties": {
                    "replicas": {"type": "integer"},
                    "selector": {"type": "string"},
                    "conditions": {"type": "array", "items": {"type": "object", "properties": {
                        "type": {"type": "string"}, "status": {"type": "string"}}}},
                }},
            }}},
        });
        if let (Some(version), Some(extra)) = (version.as_object_mut(), extra.as_object()) {
            version.extend(extra.clone());
        }
        version
    };
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.shop.example"},
        "spec": {
            "group": "shop.example", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"],
                "categories": ["all"]},
            "versions": [
                version("v1", true, json!({})),
                version("v1beta1", false, json!({"deprecated": true})),
            ],
        },
    })
}

pub(crate) fn widget(name: &str) -> Value {
    json!({"kind": "Widget", "apiVersion": "shop.example/v1", "metadata": {"name": name}, "spec": {"size": 3}})
}
