//! HTTPS for one cluster: its own authority, a listener, a kubeconfig; and for nodes of clusters whose API server is another.

mod authority;
mod kubeconfig;
mod listening;
mod node;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tombolo_runtime::Boxed;

pub use self::authority::{Authority, AuthorityError, Issued};
pub use self::kubeconfig::{Context, ContextError, kubeconfig};
use self::listening::Listening;
pub use self::node::NodeServer;
use crate::core::Core;
use crate::http;

/// A listening API server.
pub struct Server {
    core: Arc<Core>,
    listening: Listening,
}

impl Server {
    pub(crate) fn new(core: Arc<Core>, listener: TcpListener, authority: &Authority) -> io::Result<Self> {
        let tls = authority.server_config(listener.local_addr()?.ip()).map_err(io::Error::other)?;
        Ok(Self { core, listening: Listening::new(listener, tls)? })
    }

    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Serves until `stop` resolves, then ends watches, lets other requests finish and returns.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.serve_until(Box::pin(stop)).await;
    }

    fn serve_until(self, stop: Boxed<'_>) -> Boxed<'_> {
        let Self { core, listening } = self;
        let closing = core.closing.clone();
        let stop = async move {
            stop.await;
            closing.send_replace(true);
        };
        let handle = move |request| {
            let core = core.clone();
            async move { http::handle(&core, request).await }
        };
        Box::pin(listening.run(handle, stop))
    }
}
