//! Emptying a real cluster within milliseconds: what was not there before any test goes from etcd.
//!
//! API server and controllers see the keys go as they see any deletion. Namespaces that take their time, finalizers and
//! garbage collection would cost every test many seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tombolo_upstream::ControlPlane;

use super::BoxError;
use super::keeper::Needs;

/// Namespaces that every cluster has; the controllers give each an account and a certificate.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What the servers keep for themselves.
const THEIRS: [&str; 8] = [
    "/apiregistration.k8s.io/",
    "/flowschemas/",
    "/leases/kube-system/",
    "/masterleases/",
    "/peerserverleases/",
    "/priorityclasses/",
    "/prioritylevelconfigurations/",
    "/ranges/",
];

/// What a cluster held before any test.
pub(super) struct Baseline {
    client: Client,
    etcd: Client,
    prefix: String,
    /// Whether our kinds are among it.
    definitions: bool,
    /// Keys and values.
    keys: BTreeMap<String, String>,
}

impl Baseline {
    /// Defines our kinds if they are needed, which takes the servers a while, makes sure that every namespace has what is
    /// its own, and takes note of everything.
    pub(super) async fn take(
        plane: &ControlPlane,
        needs: &Needs,
        etcd: &str,
        prefix: &str,
    ) -> Result<Self, BoxError> {
        let client = plane.context.client()?;
        if needs.definitions {
            super::define(&client, &tombolo_api::crd::crds()).await;
        }
        for namespace in NAMESPACES {
            if needs.controllers {
                await_belongings(&client, namespace).await?;
            } else {
                make_account(&client, namespace).await?;
            }
        }
        let etcd = Client::try_from(Config::new(etcd.parse()?))?;
        let (prefix, keys) = (prefix.to_owned(), BTreeMap::new());
        let mut baseline = Self { client, etcd, prefix, definitions: needs.definitions, keys };
        baseline.keys = baseline.read(false).await?;
        Ok(baseline)
    }

    /// Makes the cluster hold that again, and nothing else. Done when there is nothing left to do, also for those who
    /// still write what they began before.
    pub(super) async fn restore(&self) -> Result<(), BoxError> {
        while self.restore_once().await? {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        while !self.definitions && self.serves_ours().await? {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Whether the server still knows a kind of ours: it takes a moment to forget.
    async fn serves_ours(&self) -> Result<bool, BoxError> {
        let groups = self.client.list_api_groups().await?.groups;
        let ours = tombolo_api::crd::crds();
        Ok(groups.iter().any(|group| ours.iter().any(|definition| definition.spec.group == group.name)))
    }

    /// Returns whether anything had to be done.
    async fn restore_once(&self) -> Result<bool, BoxError> {
        let now = self.read(true).await?;
        let surplus = now.keys().filter(|key| !self.keys.contains_key(*key));
        let mut changes: Vec<Value> =
            surplus.map(|key| json!({"requestDeleteRange": {"key": STANDARD.encode(key)}})).collect();
        // What was changed stays so: the servers change some of it themselves.
        let missing = self.keys.iter().filter(|(key, _)| !now.contains_key(*key));
        changes.extend(
            missing.map(|(key, value)| json!({"requestPut": {"key": STANDARD.encode(key), "value": value}})),
        );
        if !changes.is_empty() {
            self.ask("/v3/kv/txn", &json!({"success": changes})).await?;
        }
        Ok(!changes.is_empty())
    }

    async fn read(&self, keys_only: bool) -> Result<BTreeMap<String, String>, BoxError> {
        let begin = format!("{}/", self.prefix);
        // The key after all keys with this prefix.
        let end = format!("{}0", self.prefix);
        let range =
            json!({"key": STANDARD.encode(begin), "range_end": STANDARD.encode(end), "keys_only": keys_only});
        let answer = self.ask("/v3/kv/range", &range).await?;
        let mut found = BTreeMap::new();
        for pair in answer["kvs"].as_array().into_iter().flatten() {
            let text = |field: &str| pair[field].as_str().unwrap_or_default().to_owned();
            let key = String::from_utf8(STANDARD.decode(text("key"))?)?;
            let own = key.strip_prefix(&self.prefix).unwrap_or_default();
            if !THEIRS.iter().any(|theirs| own.starts_with(theirs)) {
                found.insert(key, text("value"));
            }
        }
        Ok(found)
    }

    async fn ask(&self, path: &str, question: &Value) -> Result<Value, BoxError> {
        let request = Request::post(path).header("content-type", "application/json");
        let text = self.etcd.request_text(request.body(question.to_string().into_bytes())?).await?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Waits until the controllers have given a namespace its account and its certificate.
async fn await_belongings(client: &Client, namespace: &str) -> Result<(), BoxError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    while accounts.get_opt("default").await?.is_none() || maps.get_opt("kube-root-ca.crt").await?.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Without controllers somebody has to: no pod is accepted where there is no account.
async fn make_account(client: &Client, namespace: &str) -> Result<(), BoxError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    while namespaces.get_opt(namespace).await?.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("default".to_owned());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.create(&PostParams::default(), &account).await?;
    Ok(())
}
