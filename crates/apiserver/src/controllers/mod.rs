//! Small stand-ins for kube-controller-manager.

/// What the controllers need to know.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Published as `kube-root-ca.crt` in every namespace.
    pub authority: Option<String>,
}

impl Settings {
    pub fn with_authority(pem: String) -> Self {
        Self { authority: Some(pem) }
    }
}

/// Runs all controllers until `stop` resolves.
pub async fn run(_client: kube::Client, _settings: Settings, stop: impl Future<Output = ()>) {
    stop.await;
}
