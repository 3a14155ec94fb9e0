//! Whether the proxy keeps up, told as kube-proxy tells it: `/healthz`, `/livez`, and the ports that balancers ask which
//! nodes have endpoints.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tombolo_runtime::{Clock, Key, stamp};

use crate::config::Config;
use crate::engine::{SharedPlan, locked};
use crate::http::{self as server, Answer};
use crate::metrics::Metrics;
use crate::watch::Changed;

/// What `/healthz` looks at.
pub(crate) struct Health {
    changed: Arc<Changed>,
    stuck_after: Duration,
    clock: Clock,
    metrics: Metrics,
    written: Mutex<Option<jiff::Timestamp>>,
    /// Whether the node stays.
    eligible: AtomicBool,
}

impl Health {
    pub(crate) fn new(config: &Config, changed: Arc<Changed>, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            changed,
            stuck_after: config.stuck_after,
            clock: config.clock.clone(),
            metrics,
            written: Mutex::default(),
            eligible: AtomicBool::new(true),
        })
    }

    pub(crate) fn note_written(&self) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.clock.now());
    }

    pub(crate) fn note_node(&self, stays: bool) {
        self.eligible.store(stays, Ordering::Relaxed);
    }

    fn last_written(&self) -> Option<jiff::Timestamp> {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something was written, and nothing has waited for too long.
    pub(crate) fn is_alive(&self) -> bool {
        let (since, _, _) = self.changed.waiting();
        let stuck = since.is_some_and(|since| Instant::now().duration_since(since) > self.stuck_after);
        self.last_written().is_some() && !stuck
    }

    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let eligible = self.eligible.load(Ordering::Relaxed);
        let good = match path {
            "/healthz" => self.is_alive() && eligible,
            "/livez" => self.is_alive(),
            _ => return respond(StatusCode::NOT_FOUND, "{}".to_owned()),
        };
        let code = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        self.metrics.note_probe(path == "/livez", code.as_u16());
        let updated = self.last_written().map(stamp).unwrap_or_default();
        let now = stamp(self.clock.now());
        let body = match path {
            "/livez" => format!(r#"{{"lastUpdated": "{updated}","currentTime": "{now}"}}"#),
            _ => format!(
                r#"{{"lastUpdated": "{updated}","currentTime": "{now}", "nodeEligible": {eligible}}}"#
            ),
        };
        respond(code, body)
    }
}

/// Answers `/healthz` and `/livez` for ever.
pub(crate) async fn serve(health: Arc<Health>, listener: TcpListener) {
    let answer: Answer = Arc::new(move |path| health.answer(path));
    server::serve(listener, answer).await;
}

/// Listens in the node's network namespace.
pub(crate) async fn listen(address: SocketAddr, namespace: Option<PathBuf>) -> io::Result<TcpListener> {
    let bind = move || {
        let listener = match &namespace {
            Some(namespace) => tombolo_nft::within(namespace, || StdListener::bind(address))?,
            None => StdListener::bind(address),
        }?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    TcpListener::from_std(tokio::task::spawn_blocking(bind).await.map_err(io::Error::other)??)
}

/// Keeps a listener for each Service that has a port for health checks.
pub(crate) async fn serve_checks(
    plan: SharedPlan,
    health: Arc<Health>,
    namespace: Option<PathBuf>,
    mut written: watch::Receiver<u64>,
) {
    let mut listening: BTreeMap<u16, (Key, AbortHandle)> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = checks(&plan);
        listening.retain(|port, (service, task)| {
            let keep = wanted.get(port) == Some(service) && !task.is_finished();
            if !keep {
                task.abort();
            }
            keep
        });
        while tasks.try_join_next().is_some() {}
        for (port, service) in wanted {
            if listening.contains_key(&port) {
                continue;
            }
            let everywhere = SocketAddr::new(IpAddr::from([0_u16; 8]), port);
            match listen(everywhere, namespace.clone()).await {
                Ok(listener) => {
                    let answer = check(plan.clone(), health.clone(), service.clone());
                    listening.insert(port, (service, tasks.spawn(server::serve(listener, answer))));
                }
                Err(error) => tracing::warn!(%service, port, %error, "cannot listen for health checks"),
            }
        }
        if written.changed().await.is_err() {
            return;
        }
    }
}

/// The ports for health checks, each with its Service.
fn checks(plan: &SharedPlan) -> BTreeMap<u16, Key> {
    let plan = locked(plan);
    let with_check =
        plan.services().filter_map(|(key, routes)| Some((routes.health_check?.port, key.clone())));
    with_check.collect()
}

fn check(plan: SharedPlan, health: Arc<Health>, service: Key) -> Answer {
    Arc::new(move |_| {
        let routes = locked(&plan).routes(&service).and_then(|routes| routes.health_check);
        let count = routes.map_or(0, |check| check.local_endpoints);
        let healthy = health.is_alive();
        let code = if count > 0 && healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = format!(
            r#"{{"service":{{"namespace":"{}","name":"{}"}},"localEndpoints":{count},"serviceProxyHealthy":{healthy}}}"#,
            service.namespace, service.name
        );
        let mut response = respond(code, body);
        response.headers_mut().insert("x-load-balancing-endpoint-weight", HeaderValue::from(count));
        response
    })
}

fn respond(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
