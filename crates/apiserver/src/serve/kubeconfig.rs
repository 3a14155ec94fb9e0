//! The file with which `kubectl` finds its clusters.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::auth::User;

/// One cluster in a kubeconfig, reached as its administrator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Context {
    pub name: String,
    /// `https://host:port`.
    pub server: String,
    /// The authority's certificate, PEM.
    pub authority: String,
    pub token: String,
}

impl Context {
    /// A client of this cluster, as its administrator. Must be called within a runtime.
    pub fn client(&self) -> Result<kube::Client, ContextError> {
        self.connect(json!({"token": self.token}))
    }

    /// A client of this cluster that the administrator lends to `user`.
    pub fn client_as(&self, user: &User) -> Result<kube::Client, ContextError> {
        self.connect(json!({"token": self.token, "as": user.name, "as-groups": user.groups}))
    }

    fn connect(&self, who: Value) -> Result<kube::Client, ContextError> {
        let mut config = kube::Config::new(self.server.parse()?);
        let certificate = CertificateDer::from_pem_slice(self.authority.as_bytes())?;
        config.root_cert = Some(vec![certificate.to_vec()]);
        config.auth_info = serde_json::from_value(who)?;
        Ok(kube::Client::try_from(config)?)
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("the server's address is none")]
    Address(#[from] http::uri::InvalidUri),
    #[error("the authority's certificate cannot be read")]
    Authority(#[from] rustls::pki_types::pem::Error),
    #[error("the user cannot be named")]
    User(#[from] serde_json::Error),
    #[error("a client could not be made")]
    Client(#[from] kube::Error),
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
