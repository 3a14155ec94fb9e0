//! A client that costs little: one HTTP/1.1 connection over TLS, bytes in, bytes out.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How to reach a server: what a kubeconfig says.
#[derive(Clone)]
pub(super) struct Target {
    host: String,
    token: String,
    tls: TlsConnector,
}

impl Target {
    /// The context `name` of a kubeconfig with a token and the authority's data in it, or its current one.
    pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Self, Failure> {
        let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
        let current = config["current-context"].as_str().unwrap_or_default();
        let context = entry(&config["contexts"], name.unwrap_or(current))?["context"].clone();
        let cluster =
            entry(&config["clusters"], context["cluster"].as_str().unwrap_or_default())?["cluster"].clone();
        let user = entry(&config["users"], context["user"].as_str().unwrap_or_default())?["user"].clone();
        let text = |value: &Value, field: &str| {
            value[field].as_str().map(str::to_owned).ok_or(format!("the kubeconfig has no {field}"))
        };
        let server = text(&cluster, "server")?;
        let authority = text(&cluster, "certificate-authority-data")?;
        let authority = base64::engine::general_purpose::STANDARD.decode(authority)?;
        Ok(Self {
            host: server.strip_prefix("https://").ok_or("the server speaks no HTTPS")?.to_owned(),
            token: text(&user, "token")?,
            tls: connector(&authority)?,
        })
    }

    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(&self.host).await?;
        stream.set_nodelay(true)?;
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name).to_owned();
        let stream = self.tls.connect(ServerName::try_from(name)?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Connection { sender, target: self.clone(), _driver: Driver(driver) })
    }
}

fn entry<'a>(list: &'a Value, name: &str) -> Result<&'a Value, Failure> {
    let found = list.as_array().into_iter().flatten().find(|entry| entry["name"] == name);
    found.ok_or_else(|| format!("the kubeconfig has no entry {name:?}").into())
}

/// TLS to servers that this authority vouches for.
pub(crate) fn connector(authority: &[u8]) -> Result<TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The task that moves a connection's bytes; it ends with the connection.
struct Driver(tokio::task::JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One connection, one request at a time.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
    _driver: Driver,
}

impl Connection {
    /// Sends a request and returns the answer's status and body.
    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let answer = self.open(method, path, media_type, body.into()).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Like [`Connection::call`], for requests that must succeed.
    pub(super) async fn expect(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes, Failure> {
        let (status, body) = self.call(method.clone(), path, media_type, body).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body)).into())
    }

    /// Opens a stream, such as a watch.
    pub(super) async fn stream(&mut self, path: &str) -> Result<Incoming, Failure> {
        Ok(self.open(Method::GET, path, "application/json", Bytes::new()).await?.into_body())
    }

    async fn open(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, Failure> {
        self.sender.ready().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.target.host)
            .header("user-agent", "bench/1")
            .header("authorization", format!("Bearer {}", self.target.token))
            .header("content-type", media_type)
            .body(Full::new(body))?;
        Ok(self.sender.send_request(request).await?)
    }
}
