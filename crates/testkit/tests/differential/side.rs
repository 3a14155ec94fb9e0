//! One of the two servers, and what it was asked and said.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tombolo_testkit::Cluster;

use crate::NAMESPACES;
use crate::generate::{Action, NO_UID, Operation, Reference};
use crate::kinds::KINDS;
use crate::normalize::Names;

/// The object that ends every watch.
const LAST: &str = "zz-last";
/// What the watches of a kind see: everything in a namespace, and what is selected there.
const WATCHES: [&str; 2] = ["", "&labelSelector=app%3Dx"];
const JSON: &str = "application/json";
const PATIENCE: Duration = Duration::from_secs(30);

/// The code of a connection that ended before an answer came.
pub(crate) const NO_ANSWER: u16 = 0;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// Kind, namespace and name of an object.
type Place = (usize, &'static str, &'static str);

pub(crate) struct Side {
    client: Client,
    names: Names,
    /// Uid and version of objects when an operation on them last succeeded.
    known: HashMap<Place, (String, String)>,
    /// By kind, each with those of [`WATCHES`].
    watches: Vec<Vec<mpsc::UnboundedReceiver<Value>>>,
}

impl Side {
    pub(crate) async fn new(cluster: &Cluster) -> Self {
        let client = cluster.client();
        let mut side = Self { client, names: Names::default(), known: HashMap::new(), watches: Vec::new() };
        for namespace in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            side.make("/api/v1/namespaces", &object).await;
            // Without controllers nobody else makes it, and no pod comes to be without.
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            side.make(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await;
        }
        for kind in 0..KINDS.len() {
            let mut watches = Vec::new();
            for query in WATCHES {
                watches.push(side.watch(kind, query).await);
            }
            side.watches.push(watches);
        }
        side
    }

    async fn make(&self, path: &str, object: &Value) {
        let (code, said) = self.send("POST", path, JSON, object).await;
        assert!(code == 201 || code == 409, "{said}");
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        self.ask(method, path, JSON, media, body).await
    }

    async fn ask(&self, method: &str, path: &str, form: &str, media: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut request = Request::builder().method(method).uri(path).header("accept", form);
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        let response = match self.client.send(request.body(bytes.into()).unwrap()).await {
            Ok(response) => response,
            Err(error) => return (NO_ANSWER, error.to_string().into()),
        };
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter().filter_map(|text| text.to_str().ok());
        let warnings: Vec<String> = warnings.map(str::to_owned).collect();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        let mut body: Value =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        if !warnings.is_empty() && body.is_object() {
            body["warnings"] = warnings.into();
        }
        (code, body)
    }

    async fn watch(&self, kind: usize, query: &str) -> mpsc::UnboundedReceiver<Value> {
        let collection = collection(kind, NAMESPACES[0]);
        let (code, list) = self.send("GET", &collection, "", &Value::Null).await;
        assert_eq!(code, 200, "{list}");
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{collection}?watch=true&resourceVersion={version}{query}");
        let stream = self.client.request_stream(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = Box::pin(stream).lines();
            while let Some(Ok(line)) = lines.next().await {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        receiver
    }

    pub(crate) async fn perform(&mut self, operation: &Operation) -> Answer {
        let place = (operation.kind, operation.namespace, operation.name);
        let subresource = operation.subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
        let collection = collection(operation.kind, operation.namespace);
        let path = format!("{collection}/{}{subresource}", operation.name);
        let (code, body) = match &operation.action {
            Action::Create { content, query } => {
                self.send("POST", &format!("{collection}?fieldManager=creator{query}"), JSON, content).await
            }
            Action::Update { content, version, uid, query } => {
                let mut object = content.clone();
                self.refer(place, &path, *uid, *version, &mut object["metadata"]).await;
                self.send("PUT", &format!("{path}?fieldManager=updater{query}"), JSON, &object).await
            }
            Action::Patch { media, patch, query } => {
                self.send("PATCH", &format!("{path}?{query}"), media, patch).await
            }
            Action::Delete { version, uid, options, query } => {
                let mut body = Value::Null;
                if let Some(options) = options {
                    body = with_type(options);
                    body["preconditions"] = json!({});
                    self.refer(place, &path, *uid, *version, &mut body["preconditions"]).await;
                }
                self.send("DELETE", &format!("{path}?{query}"), JSON, &body).await
            }
            Action::DeleteAll { query, options } => {
                let body = options.as_ref().map_or(Value::Null, with_type);
                self.send("DELETE", &format!("{collection}?{query}"), JSON, &body).await
            }
            Action::Get { form, version } => {
                let mut asked = json!({});
                self.refer(place, &path, Reference::None, *version, &mut asked).await;
                self.ask("GET", &format!("{path}?{}", version_query(&asked)), form, "", &Value::Null).await
            }
            Action::List { query, form, version } => {
                let mut asked = json!({});
                self.refer(place, &path, Reference::None, *version, &mut asked).await;
                // Without a version nothing can be said about it.
                let query = match asked["resourceVersion"].is_null() {
                    true => query.split("&resourceVersionMatch").next().unwrap_or_default().to_owned(),
                    false => format!("{query}&{}", version_query(&asked)),
                };
                self.pages(&collection, &query, form).await
            }
        };
        let text = |field: &str| body["metadata"][field].as_str().map(str::to_owned);
        let is_one = !matches!(operation.action, Action::List { .. } | Action::DeleteAll { .. });
        let is_tried = format!("{:?}", operation.action).contains("dryRun");
        if let (true, Some(uid), Some(version)) = (code < 300, text("uid"), text("resourceVersion"))
            && is_one
            && !is_tried
        {
            self.known.insert(place, (uid, version));
        }
        Answer { code, body: self.tidy(operation, body) }
    }

    /// A list and, where it goes on, the page after it.
    async fn pages(&self, collection: &str, query: &str, form: &str) -> (u16, Value) {
        let (code, mut first) =
            self.ask("GET", &format!("{collection}?{query}"), form, "", &Value::Null).await;
        let token = first["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if !token.is_empty() {
            let query = query.split('&').filter(|part| !part.starts_with("resourceVersion"));
            let query = query.collect::<Vec<_>>().join("&");
            let path = format!("{collection}?{query}&continue={token}");
            let (code, mut second) = self.ask("GET", &path, form, "", &Value::Null).await;
            second["metadata"]["resourceVersion"] = Value::Null;
            first["next"] = json!({"code": code, "page": second});
        }
        (code, first)
    }

    /// Fills in what only this server knows.
    async fn refer(&self, place: Place, path: &str, uid: Reference, version: Reference, into: &mut Value) {
        let (_, now) = self.send("GET", path.trim_end_matches("/status"), "", &Value::Null).await;
        let now = |field: &str| now["metadata"][field].as_str().map(str::to_owned);
        let known = self.known.get(&place).cloned();
        let wrong = (NO_UID.to_owned(), "1".to_owned());
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
        }
        self.names.normalize(&body)
    }

    /// All events of a kind until now, for each of its watches.
    pub(crate) async fn events(&mut self, kind: usize) -> Vec<Vec<Value>> {
        let about = &KINDS[kind];
        let mut last = json!({"apiVersion": about.api_version, "kind": about.kind,
            "metadata": {"name": LAST, "labels": {"app": "x"}}});
        let spec =
            json!({"containers": [{"name": "main", "image": "i"}], "automountServiceAccountToken": false});
        match about.plural {
            "services" => last["spec"] = json!({"ports": [{"port": 1}]}),
            "endpointslices" => {
                last["addressType"] = "IPv4".into();
                last["endpoints"] = json!([]);
            }
            "serviceimports" => last["spec"] = json!({"type": "Headless", "ports": []}),
            "pods" => last["spec"] = spec,
            "deployments" => {
                last["spec"] = json!({"selector": {"matchLabels": {"app": "x"}},
                    "template": {"metadata": {"labels": {"app": "x"}}, "spec": spec}});
            }
            _ => {}
        }
        let (code, said) = self.send("POST", &collection(kind, NAMESPACES[0]), JSON, &last).await;
        assert_eq!(code, 201, "{said}");
        let mut told = Vec::new();
        for watch in 0..WATCHES.len() {
            told.push(self.told(kind, watch).await);
        }
        told
    }

    async fn told(&mut self, kind: usize, watch: usize) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = tokio::time::timeout(PATIENCE, self.watches[kind][watch].recv()).await;
            let event = event.expect("the last event in time").expect("a watch that goes on");
            match event["object"]["metadata"]["name"].as_str() {
                Some(LAST) => return events,
                _ if event["type"] == "BOOKMARK" => {}
                _ => events.push(self.names.normalize(&event)),
            }
        }
    }
}

fn with_type(options: &Value) -> Value {
    let mut options = options.clone();
    options["apiVersion"] = "v1".into();
    options["kind"] = "DeleteOptions".into();
    options
}

fn version_query(asked: &Value) -> String {
    asked["resourceVersion"].as_str().map(|version| format!("resourceVersion={version}")).unwrap_or_default()
}

fn collection(kind: usize, namespace: &str) -> String {
    let kind = &KINDS[kind];
    let root = if kind.api_version.contains('/') { "/apis" } else { "/api" };
    format!("{root}/{}/namespaces/{namespace}/{}", kind.api_version, kind.plural)
}
