//! A TLS listener and the HTTP connections that come from it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::http::Body;

/// Connections that are still busy when the server stops get this long.
const DRAIN: Duration = Duration::from_secs(2);
/// A client that opens a connection has this long to finish the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(super) struct Listening {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
}

impl Listening {
    pub(super) fn new(listener: TcpListener, tls: ServerConfig) -> io::Result<Self> {
        let address = listener.local_addr()?;
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(tls)), address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves, then lets requests finish and returns.
    pub(super) async fn run<H, F>(self, handle: H, stop: impl Future<Output = ()>)
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let graceful = GracefulShutdown::new();
        let mut connections = tokio::task::JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let watcher = graceful.watcher();
                        connections.spawn(connection(handle.clone(), self.acceptor.clone(), stream, watcher));
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
        if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
            tracing::debug!("connections were still busy when the server stopped");
        }
    }
}

async fn connection<H, F>(handle: H, acceptor: TlsAcceptor, stream: TcpStream, watcher: Watcher)
where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Watch events are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let service = service_fn(move |request| {
        let answer = handle(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
