//! A small HTTP server: every path, one answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// More connections than this wait: balancers ask now and then.
const MOST_CONNECTIONS: usize = 64;
/// A client that does not finish its request by then is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers a path.
pub(crate) type Answer = Arc<dyn Fn(&str) -> Response<Full<Bytes>> + Send + Sync>;

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, answer: Answer) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, answer.clone()))),
                Err(error) => {
                    tracing::debug!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

async fn converse(stream: tokio::net::TcpStream, answer: Answer) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
