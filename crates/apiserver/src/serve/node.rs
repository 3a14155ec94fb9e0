//! The HTTPS endpoint of a node, for an API server that is not ours: what `kubectl logs` and `exec` reach through it.

use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;
use tombolo_runtime::Boxed;

use super::{Authority, listening::Listening};
use crate::http;
use crate::nodes::Nodes;

/// A node that listens. It answers only those whom its cluster's authority has signed a certificate for.
pub struct NodeServer {
    name: String,
    nodes: Arc<dyn Nodes>,
    listening: Listening,
}

impl NodeServer {
    /// The node of this name, as `nodes` know it.
    pub fn new(
        name: String,
        nodes: Arc<dyn Nodes>,
        listener: TcpListener,
        authority: &Authority,
    ) -> io::Result<Self> {
        let tls = authority.mutual_config(listener.local_addr()?.ip()).map_err(io::Error::other)?;
        Ok(Self { name, nodes, listening: Listening::new(listener, tls)? })
    }

    /// Serves until `stop` resolves.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.serve_until(Box::pin(stop)).await;
    }

    fn serve_until(self, stop: Boxed<'_>) -> Boxed<'_> {
        let Self { name, nodes, listening } = self;
        let name: Arc<str> = name.into();
        let handle = move |request| {
            let (name, nodes) = (name.clone(), nodes.clone());
            async move { http::node::handle(&name, &nodes, request).await }
        };
        Box::pin(listening.run(handle, stop))
    }
}
