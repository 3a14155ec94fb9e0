//! The node's HTTPS endpoint: where a real API server asks for logs and streams. The embedded one asks within the process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tombolo_apiserver::{Authority, NodeServer};

use super::Config;

/// The usual port of a kubelet.
pub(super) const PORT: u16 = 10250;
/// Who had the address before may need a moment to go.
const RETRY: Duration = Duration::from_millis(500);

/// Answers for ever, if anybody would ask.
pub(super) async fn serve(config: &Config) {
    let Some(authority) = &config.authority else { return };
    loop {
        match bind(config, authority).await {
            Ok(server) => return server.run(std::future::pending()).await,
            Err(error) => {
                tracing::warn!(node = config.plan.name(), %error, "a node's endpoint could not be opened");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn bind(config: &Config, authority: &Arc<Authority>) -> io::Result<NodeServer> {
    let listener = TcpListener::bind((config.plan.address(), PORT)).await?;
    NodeServer::new(config.plan.name(), config.hosts.clone(), listener, authority)
}
