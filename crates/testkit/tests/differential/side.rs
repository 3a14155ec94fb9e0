//! One of the two servers, and what it was asked and said.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tombolo_testkit::Cluster;

use crate::NAMESPACE;
use crate::generate::{Action, KINDS, Operation, Reference};
use crate::normalize::Names;

/// The object that ends every watch.
const LAST: &str = "zz-last";
const CERTIFICATE: &str = "kube-root-ca.crt";
const PATIENCE: Duration = Duration::from_secs(30);

/// The code of a connection that ended before an answer came.
pub(crate) const NO_ANSWER: u16 = 0;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

pub(crate) struct Side {
    client: Client,
    names: Names,
    /// Uid and version of objects when an operation on them last succeeded.
    known: HashMap<(usize, &'static str), (String, String)>,
    watches: Vec<mpsc::UnboundedReceiver<Value>>,
}

impl Side {
    pub(crate) async fn new(cluster: &Cluster) -> Self {
        let client = cluster.client();
        let mut side = Self { client, names: Names::default(), known: HashMap::new(), watches: Vec::new() };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let (code, _) = side.send("POST", "/api/v1/namespaces", "application/json", &namespace).await;
        assert_eq!(code, 201);
        side.settle(cluster.embedded().is_none()).await;
        for kind in 0..KINDS.len() {
            side.watch(kind).await;
        }
        side
    }

    /// Waits until the namespace has the certificate that controllers put into every one. Where there are none, it is put
    /// there, so that lists are equally long.
    async fn settle(&mut self, real: bool) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        if !real {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CERTIFICATE}});
            self.send("POST", &path, "application/json", &map).await;
        }
        let begin = std::time::Instant::now();
        while self.send("GET", &format!("{path}/{CERTIFICATE}"), "", &Value::Null).await.0 != 200 {
            assert!(begin.elapsed() < PATIENCE, "the controllers do not work");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        let response = match self.client.send(request.body(bytes.into()).unwrap()).await {
            Ok(response) => response,
            Err(error) => return (NO_ANSWER, error.to_string().into()),
        };
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
    }

    async fn watch(&mut self, kind: usize) {
        let (code, list) = self.send("GET", &collection(kind), "", &Value::Null).await;
        assert_eq!(code, 200, "{list}");
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{}?watch=true&resourceVersion={version}", collection(kind));
        let stream = self.client.request_stream(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = Box::pin(stream).lines();
            while let Some(Ok(line)) = lines.next().await {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        self.watches.push(receiver);
    }

    pub(crate) async fn perform(&mut self, operation: &Operation) -> Answer {
        let place = (operation.kind, operation.name);
        let subresource = operation.subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
        let path = format!("{}/{}{subresource}", collection(operation.kind), operation.name);
        let json = "application/json";
        let (code, body) = match &operation.action {
            Action::Create(object) => {
                self.send(
                    "POST",
                    &format!("{}?fieldManager=creator", collection(operation.kind)),
                    json,
                    object,
                )
                .await
            }
            Action::Update { content, version, uid } => {
                let mut object = content.clone();
                self.refer(place, &path, *uid, *version, &mut object["metadata"]).await;
                self.send("PUT", &format!("{path}?fieldManager=updater"), json, &object).await
            }
            Action::Patch { media, patch, query } => {
                self.send("PATCH", &format!("{path}?{query}"), media, patch).await
            }
            Action::Delete { version, uid, query } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {}});
                self.refer(place, &path, *uid, *version, &mut options["preconditions"]).await;
                self.send("DELETE", &format!("{path}?{query}"), json, &options).await
            }
            Action::DeleteAll { selector } => {
                let path =
                    format!("{}?labelSelector={}", collection(operation.kind), selector.replace('=', "%3D"));
                self.send("DELETE", &path, "", &Value::Null).await
            }
            Action::Get => self.send("GET", &path, "", &Value::Null).await,
            Action::List { query } => {
                self.send("GET", &format!("{}?{query}", collection(operation.kind)), "", &Value::Null).await
            }
        };
        let text = |field: &str| body["metadata"][field].as_str().map(str::to_owned);
        if let (true, Some(uid), Some(version)) = (code < 300, text("uid"), text("resourceVersion")) {
            self.known.insert(place, (uid, version));
        }
        Answer { code, body: self.tidy(operation, body) }
    }

    /// Fills in what only this server knows.
    async fn refer(
        &self,
        place: (usize, &'static str),
        path: &str,
        uid: Reference,
        version: Reference,
        into: &mut Value,
    ) {
        let (_, now) = self.send("GET", path.trim_end_matches("/status"), "", &Value::Null).await;
        let now = |field: &str| now["metadata"][field].as_str().map(str::to_owned);
        let known = self.known.get(&place).cloned();
        let wrong = ("00000000-0000-0000-0000-000000000000".to_owned(), "1".to_owned());
        let choose = |reference, current: Option<String>, former: Option<String>, wrong: &str| match reference
        {
            Reference::None => None,
            Reference::Current => current,
            Reference::Former => former,
            Reference::Wrong => Some(wrong.to_owned()),
        };
        if let Some(uid) = choose(uid, now("uid"), known.clone().map(|known| known.0), &wrong.0) {
            into["uid"] = uid.into();
        }
        if let Some(version) = choose(version, now("resourceVersion"), known.map(|known| known.1), &wrong.1) {
            into["resourceVersion"] = version.into();
        }
    }

    /// The answer in the words that both servers share.
    fn tidy(&mut self, operation: &Operation, mut body: Value) -> Value {
        if matches!(operation.action, Action::List { .. } | Action::DeleteAll { .. }) {
            // The version of a list is that of everything, which others write, too.
            body["metadata"]["resourceVersion"] = Value::Null;
            if let Some(items) = body["items"].as_array_mut() {
                items.retain(|item| item["metadata"]["name"] != CERTIFICATE);
            }
        }
        self.names.normalize(&body)
    }

    /// All events of a kind until now.
    pub(crate) async fn events(&mut self, kind: usize) -> Vec<Value> {
        let about = &KINDS[kind];
        let mut last =
            json!({"apiVersion": about.api_version, "kind": about.kind, "metadata": {"name": LAST}});
        match about.plural {
            "services" => last["spec"] = json!({"ports": [{"port": 1}]}),
            "endpointslices" => last["addressType"] = "IPv4".into(),
            "serviceimports" => last["spec"] = json!({"type": "Headless", "ports": []}),
            _ => {}
        }
        if about.plural == "endpointslices" {
            last["endpoints"] = json!([]);
        }
        let (code, said) = self.send("POST", &collection(kind), "application/json", &last).await;
        assert_eq!(code, 201, "{said}");
        let mut events = Vec::new();
        loop {
            let event = tokio::time::timeout(PATIENCE, self.watches[kind].recv()).await;
            let event = event.expect("the last event in time").expect("a watch that goes on");
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match name.as_str() {
                LAST => return events,
                CERTIFICATE => {}
                _ if event["type"] == "BOOKMARK" => {}
                _ => events.push(self.names.normalize(&event)),
            }
        }
    }
}

fn collection(kind: usize) -> String {
    let kind = &KINDS[kind];
    let root = if kind.api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{}/namespaces/{NAMESPACE}/{}", kind.api_version, kind.plural)
}
