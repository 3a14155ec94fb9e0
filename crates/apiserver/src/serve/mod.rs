//! HTTPS for one cluster: its own authority, a listener, a kubeconfig.

mod authority;
mod kubeconfig;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub use self::authority::{Authority, AuthorityError, Issued};
pub use self::kubeconfig::{Context, ContextError, kubeconfig};
use crate::core::Core;
use crate::http;

/// Connections that are still busy when the server stops get this long.
const DRAIN: Duration = Duration::from_secs(2);
/// A client that opens a connection has this long to finish the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A listening API server.
pub struct Server {
    core: Arc<Core>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn new(core: Arc<Core>, listener: TcpListener, authority: &Authority) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let tls = authority.server_config(address.ip()).map_err(io::Error::other)?;
        Ok(Self { core, listener, acceptor: TlsAcceptor::from(Arc::new(tls)), address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves, then ends watches, lets other requests finish and returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        let mut connections = tokio::task::JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let watcher = graceful.watcher();
                        connections.spawn(connection(self.core.clone(), self.acceptor.clone(), stream, watcher));
                    }
                    Err(error) => {
                        // Out of file descriptors, mostly: wait for some to come back.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        self.core.closing.send_replace(true);
        if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
            tracing::debug!("connections were still busy when the server stopped");
        }
    }
}

async fn connection(
    core: Arc<Core>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Watch events are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let service = service_fn(move |request| {
        let core = core.clone();
        async move { Ok::<_, Infallible>(http::handle(&core, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
