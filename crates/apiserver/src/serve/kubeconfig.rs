//! The file with which `kubectl` finds its clusters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One cluster in a kubeconfig, reached as its administrator.
#[derive(Clone, Debug)]
pub struct Context {
    pub name: String,
    /// `https://host:port`.
    pub server: String,
    /// The authority's certificate, PEM.
    pub authority: String,
    pub token: String,
}

/// A kubeconfig with a context per cluster; the first is current.
pub fn kubeconfig(contexts: &[Context]) -> String {
    let entries = |part: fn(&Context) -> Value| -> Vec<Value> { contexts.iter().map(part).collect() };
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": contexts.first().map(|context| context.name.as_str()).unwrap_or_default(),
        "clusters": entries(|context| json!({"name": context.name, "cluster": {
            "server": context.server,
            "certificate-authority-data": STANDARD.encode(&context.authority),
        }})),
        "users": entries(|context| json!({"name": user(context), "user": {"token": context.token}})),
        "contexts": entries(|context| json!({"name": context.name, "context": {
            "cluster": context.name,
            "user": user(context),
        }})),
    });
    serde_saphyr::to_string(&value).expect("a JSON value is YAML, too")
}

fn user(context: &Context) -> String {
    format!("{}-admin", context.name)
}
