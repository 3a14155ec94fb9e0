//! The admin endpoint every part has: `/metrics`, `/livez`, `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::boxed::Boxed;
use crate::readiness::Readiness;

/// More connections than this wait: nobody needs more to scrape metrics.
const MOST_CONNECTIONS: usize = 64;
/// A client that does not finish its request by then is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listening admin endpoint.
pub struct Admin {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    registry: Mutex<Registry>,
    readiness: Readiness,
}

impl Admin {
    pub async fn bind(address: SocketAddr, registry: Registry, readiness: Readiness) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, shared: Arc::new(Shared { registry: Mutex::new(registry), readiness }) })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` resolves.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        self.answer_until(Box::pin(stop)).await;
    }

    fn answer_until(self, mut stop: Boxed<'_>) -> Boxed<'_> {
        Box::pin(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    () = &mut stop => break,
                    Some(_) = connections.join_next() => {}
                    accepted = self.listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                        Ok((stream, _)) => { connections.spawn(serve(self.shared.clone(), TokioIo::new(stream))); }
                        Err(error) => {
                            tracing::warn!(%error, "an admin connection could not be accepted");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    },
                }
            }
            connections.shutdown().await;
        })
    }
}

async fn serve(shared: Arc<Shared>, stream: TokioIo<tokio::net::TcpStream>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(shared.answer(&request)) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = builder.serve_connection(stream, service).await {
        tracing::debug!(%error, "an admin connection ended with an error");
    }
}

impl Shared {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        match request.uri().path() {
            "/livez" | "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics(),
            _ => text(StatusCode::NOT_FOUND, "/livez, /readyz, /metrics\n".to_owned()),
        }
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        let pending = self.readiness.pending();
        if pending.is_empty() {
            return text(StatusCode::OK, "ok\n".to_owned());
        }
        text(StatusCode::SERVICE_UNAVAILABLE, format!("waiting for: {}\n", pending.join(", ")))
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if encode(&mut out, &registry).is_err() {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be encoded\n".to_owned());
        }
        let mut response = text(StatusCode::OK, out);
        let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    }
}

fn text(code: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_endpoint_tells_what_is_missing_and_what_was_counted() {
        let (mut registry, readiness) = (Registry::default(), Readiness::default());
        let counter: Counter = Counter::default();
        registry.register("things", "Things that happened", counter.clone());
        let waiting = readiness.wait_for("the hub");
        let admin = Admin::bind("127.0.0.1:0".parse().unwrap(), registry, readiness).await.unwrap();
        let address = admin.address().unwrap();
        let running = tokio::spawn(admin.run(std::future::pending()));
        assert!(get(address, "/readyz").await.ends_with("waiting for: the hub\n"));
        drop(waiting);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        counter.inc();
        assert!(get(address, "/metrics").await.contains("things_total 1\n"));
        assert!(get(address, "/nothing").await.starts_with("HTTP/1.1 404"));
        running.abort();
    }
}
