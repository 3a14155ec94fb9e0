//! Whether the proxy keeps up, told as kube-proxy tells it: `/healthz`, `/livez`, and the ports that balancers ask which
//! nodes have endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tombolo_runtime::{Clock, Key, stamp};

use crate::config::Config;
use crate::engine::{SharedPlan, locked};
use crate::http::{self as server, Answer};
use crate::metrics::Metrics;
use crate::watch::Changed;

/// After a port for health checks was not to be had.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Balancers that may wait to be answered.
const BACKLOG: i32 = 128;

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
    listen_by(move || StdListener::bind(address), namespace).await
}

async fn listen_by(
    bind: impl FnOnce() -> io::Result<StdListener> + Send + 'static,
    namespace: Option<PathBuf>,
) -> io::Result<TcpListener> {
    let inside = move || {
        let listener = match &namespace {
            Some(namespace) => tombolo_nft::within(namespace, bind)?,
            None => bind(),
        }?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    TcpListener::from_std(tokio::task::spawn_blocking(inside).await.map_err(io::Error::other)??)
}

/// At all addresses of the node, whatever `net.ipv6.bindv6only` says; where the kernel has no IPv6, at those of IPv4.
fn bind_everywhere(port: u16) -> io::Result<StdListener> {
    let both = || {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_only_v6(false)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        socket.listen(BACKLOG)?;
        Ok::<_, io::Error>(socket.into())
    };
    both().or_else(|_| StdListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Keeps a listener for each Service that has a port for health checks. A port that somebody else has is asked for again.
pub(crate) async fn serve_checks(
    plan: SharedPlan,
    health: Arc<Health>,
    namespace: Option<PathBuf>,
    mut written: watch::Receiver<u64>,
) {
    let mut listening: BTreeMap<u16, (Key, AbortHandle)> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut missing: BTreeSet<u16> = BTreeSet::new();
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
        missing.retain(|port| wanted.contains_key(port));
        for (port, service) in wanted {
            if listening.contains_key(&port) {
                continue;
            }
            match listen_by(move || bind_everywhere(port), namespace.clone()).await {
                Ok(listener) => {
                    missing.remove(&port);
                    let answer = check(plan.clone(), health.clone(), service.clone());
                    listening.insert(port, (service, tasks.spawn(server::serve(listener, answer))));
                }
                Err(error) if missing.insert(port) => {
                    tracing::warn!(%service, port, %error, "cannot listen for health checks; trying again");
                }
                Err(_) => {}
            }
        }
        tokio::select! {
            changed = written.changed() => if changed.is_err() { return },
            () = sleep(TRY_AGAIN), if !missing.is_empty() => {}
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use tombolo_model::routing::{HealthCheck, Routes};

    use super::*;
    use crate::plan::Update;

    #[tokio::test(start_paused = true)]
    async fn a_port_for_health_checks_that_somebody_else_has_is_had_once_it_is_free() {
        let taken = StdListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let plan = SharedPlan::default();
        let health_check = Some(HealthCheck { port, local_endpoints: 1 });
        locked(&plan).load([Update {
            service: Key::new("default", "web"),
            routes: Routes { routes: Vec::new(), health_check },
            serving: BTreeSet::new(),
        }]);
        let health = Health::new(&Config::new("node1"), Arc::default(), Metrics::default());
        let written = watch::Sender::new(0);
        tokio::spawn(serve_checks(plan, health, None, written.subscribe()));
        // Long enough to have tried, and failed.
        sleep(TRY_AGAIN / 2).await;
        drop(taken);
        sleep(TRY_AGAIN).await;
        for _ in 0..100 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                return;
            }
            sleep(TRY_AGAIN).await;
        }
        panic!("nobody listens at the port");
    }
}
