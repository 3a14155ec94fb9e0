//! Faults between one client and one cluster, drawn from a seed.
//!
//! A [`Faults`] value wraps the cluster's service for one client; other clients of the cluster notice nothing. What goes
//! wrong is a plan of probabilities that may change at any time, and an outage that lasts until it is healed. The same
//! seed and the same requests give the same faults, so a failing run can be repeated.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tombolo_apiserver::User;
use tombolo_runtime::Signal;
use tower::{Service, ServiceExt as _, service_fn};

use crate::body::FaultyBody;
use crate::cluster::{BoxError, Cluster};

/// How likely each fault is, per request (or per piece of a watch).
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Every request waits for a time drawn from this range.
    pub latency: Range<Duration>,
    /// A write is refused with 409 before it has any effect.
    pub conflict: f64,
    /// A list or watch is told that its resource version is too old.
    pub expired: f64,
    /// 429 with `Retry-After`.
    pub throttled: f64,
    /// 500 or 503 before any effect.
    pub server_error: f64,
    /// A write takes effect, but its answer is lost.
    pub lost_answer: f64,
    /// A write takes effect at once, but its answer takes so long.
    pub late_answer: Duration,
    /// A write is never answered, and nobody says so: its connection is gone. It has no effect.
    pub hang: f64,
    /// A write is confirmed and never happens. No API server does that: it stands for a client that forgets.
    pub forgotten: f64,
    /// A watch ends after any of its pieces, half of the time with an error.
    pub cut_watch: f64,
    /// A watch takes so much longer for each of its pieces.
    pub lag: Duration,
    /// What is written below a path that has this in it is refused with this code: 403 as for want of room, else as too much
    /// to do. Deletions are not.
    pub not_stored: Option<(&'static str, u16)>,
    /// What is written below a path that has this in it is never answered, as if a webhook hung there. It has no effect.
    pub not_answered: Option<&'static str>,
    /// What is read below a path that has this in it is answered with 503.
    pub not_shown: Option<&'static str>,
}

impl Default for FaultPlan {
    /// Nothing goes wrong.
    fn default() -> Self {
        Self {
            latency: Duration::ZERO..Duration::ZERO,
            conflict: 0.0,
            expired: 0.0,
            throttled: 0.0,
            server_error: 0.0,
            lost_answer: 0.0,
            late_answer: Duration::ZERO,
            hang: 0.0,
            forgotten: 0.0,
            cut_watch: 0.0,
            lag: Duration::ZERO,
            not_stored: None,
            not_answered: None,
            not_shown: None,
        }
    }
}

/// Whether the cluster can be reached at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// It can.
    None,
    /// Connections are refused; open watches break.
    Refused,
    /// Packets vanish: requests hang, open watches fall silent, until it is over.
    Silent,
}

/// The faults of one client. Clones share plan, outage and randomness.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dice: Mutex<fastrand::Rng>,
    plan: Mutex<FaultPlan>,
    outage: Signal<Outage>,
    /// How often the watches that were open fell silent.
    silenced: Signal<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults {
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Shared {
            dice: Mutex::new(fastrand::Rng::with_seed(seed)),
            plan: Mutex::default(),
            outage: Signal::new(Outage::None),
            silenced: Signal::new(0),
        }))
    }

    /// From now on these faults happen.
    pub fn plan(&self, plan: FaultPlan) {
        *locked(&self.0.plan) = plan;
    }

    pub fn outage(&self, outage: Outage) {
        self.0.outage.set(outage);
    }

    /// The watches that are open now say nothing any more and never end, as if their connections were half open. Requests
    /// and new watches are as ever.
    pub fn silence_watches(&self) {
        self.0.silenced.update(|times| times + 1);
    }

    /// How often watches were silenced so far.
    pub(crate) fn times_silenced(&self) -> u64 {
        self.0.silenced.get()
    }

    /// Resolves when watches have been silenced more than so often.
    pub(crate) async fn silenced_beyond(&self, times: u64) {
        self.0.silenced.wait_for(|now| now > times).await;
    }

    /// Whether the cluster is out of reach.
    pub fn is_out(&self) -> bool {
        self.0.outage.get() != Outage::None
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.plan(FaultPlan::default());
        self.outage(Outage::None);
    }

    /// A client of `cluster` to which these faults happen.
    pub fn client(&self, cluster: impl Into<Cluster>, user: User) -> kube::Client {
        let faults = self.clone();
        let inner = cluster.into().channel(user);
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (faults, inner) = (faults.clone(), inner.clone());
            async move { faults.pass(inner, request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn pass<S, B>(
        &self,
        inner: S,
        request: Request<kube::client::Body>,
    ) -> io::Result<Response<FaultyBody>>
    where
        S: Service<Request<kube::client::Body>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let asked = Asked::read(&request);
        self.reach().await?;
        self.wait().await;
        if let Some(refusal) = self.refusal(&asked) {
            return Ok(refusal);
        }
        let not_answered = locked(&self.0.plan).not_answered.is_some_and(|part| asked.path.contains(part));
        if asked.writes && (not_answered || self.happens(|plan| plan.hang)) {
            return std::future::pending().await;
        }
        if asked.writes && self.happens(|plan| plan.forgotten) {
            return forget(request).await;
        }
        let response = inner.oneshot(request).await.map_err(io::Error::other)?;
        if asked.writes && self.happens(|plan| plan.lost_answer) {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the answer was lost"));
        }
        let late = if asked.writes { locked(&self.0.plan).late_answer } else { Duration::ZERO };
        if !late.is_zero() {
            tokio::time::sleep(late).await;
        }
        // The network may have gone while the server was working.
        self.reach().await?;
        Ok(response.map(|body| FaultyBody::new(body, asked.watches.then(|| self.clone()))))
    }

    /// Waits until the cluster can be reached, or fails.
    pub(crate) async fn reach(&self) -> io::Result<()> {
        match self.0.outage.wait_for(|outage| outage != Outage::Silent).await {
            Outage::Refused => Err(io::Error::new(io::ErrorKind::ConnectionRefused, "partitioned")),
            _ => Ok(()),
        }
    }

    /// Resolves when connections break.
    pub(crate) async fn refused(&self) {
        self.0.outage.wait_for(|outage| outage == Outage::Refused).await;
    }

    async fn wait(&self) {
        let Range { start, end } = locked(&self.0.plan).latency.clone();
        if end > start {
            let span = u64::try_from((end - start).as_micros()).unwrap_or(u64::MAX);
            let extra = locked(&self.0.dice).u64(0..span);
            tokio::time::sleep(start + Duration::from_micros(extra)).await;
        }
    }

    pub(crate) fn happens(&self, how_likely: impl FnOnce(&FaultPlan) -> f64) -> bool {
        let chance = how_likely(&locked(&self.0.plan));
        chance > 0.0 && locked(&self.0.dice).f64() < chance
    }

    fn refusal(&self, asked: &Asked) -> Option<Response<FaultyBody>> {
        if self.happens(|plan| plan.throttled) {
            let mut response = status(429, "TooManyRequests", "too many requests, please try again later");
            response.headers_mut().insert(http::header::RETRY_AFTER, 1.into());
            return Some(response);
        }
        if self.happens(|plan| plan.server_error) {
            let (code, reason) =
                [(500, "InternalError"), (503, "ServiceUnavailable")][usize::from(self.coin())];
            return Some(status(code, reason, "injected"));
        }
        let not_stored = locked(&self.0.plan).not_stored.filter(|(part, _)| asked.path.contains(part));
        if let Some((_, code)) = not_stored.filter(|_| asked.stores) {
            return Some(match code {
                403 => status(403, "Forbidden", "exceeded quota: injected"),
                429 => status(429, "TooManyRequests", "injected"),
                code => status(code, "ServiceUnavailable", "injected"),
            });
        }
        let not_shown = locked(&self.0.plan).not_shown.is_some_and(|part| asked.path.contains(part));
        if not_shown && !asked.writes {
            return Some(status(503, "ServiceUnavailable", "injected"));
        }
        if asked.writes && self.happens(|plan| plan.conflict) {
            return Some(status(409, "Conflict", "Operation cannot be fulfilled: injected"));
        }
        if asked.resumes && self.happens(|plan| plan.expired) {
            return Some(if asked.watches { expired_watch() } else { status(410, "Expired", "injected") });
        }
        None
    }

    /// Waits for as long as a piece of a watch takes.
    pub(crate) async fn lag(&self) {
        let lag = locked(&self.0.plan).lag;
        if !lag.is_zero() {
            tokio::time::sleep(lag).await;
        }
    }

    pub(crate) fn coin(&self) -> bool {
        locked(&self.0.dice).bool()
    }
}

/// What matters of a request.
struct Asked {
    path: String,
    writes: bool,
    /// It writes, and does not delete.
    stores: bool,
    watches: bool,
    /// It names a resource version that might have been forgotten.
    resumes: bool,
}

impl Asked {
    fn read<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let pairs = || query.split('&').filter_map(|pair| pair.split_once('='));
        let resumes = pairs().any(|(key, value)| match key {
            "resourceVersion" => !matches!(value, "" | "0"),
            "continue" => !value.is_empty(),
            _ => false,
        });
        Self {
            path: request.uri().path().to_owned(),
            writes: request.method() != Method::GET,
            stores: ![Method::GET, Method::DELETE].contains(request.method()),
            watches: pairs().any(|(key, value)| key == "watch" && matches!(value, "true" | "1")),
            resumes,
        }
    }
}

/// Answers a write as if it had happened: with the object that was sent.
async fn forget(request: Request<kube::client::Body>) -> io::Result<Response<FaultyBody>> {
    let deletes = request.method() == Method::DELETE;
    let body = request.into_body().collect_bytes().await.map_err(io::Error::other)?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}).to_string();
    let sent = String::from_utf8(body.to_vec()).map_err(io::Error::other)?;
    Ok(Response::new(FaultyBody::whole(if deletes { done } else { sent })))
}

fn status_value(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn status(code: u16, reason: &str, message: &str) -> Response<FaultyBody> {
    let body = FaultyBody::whole(status_value(code, reason, message).to_string());
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response
}

/// Once a watch has begun, errors come as events.
fn expired_watch() -> Response<FaultyBody> {
    let event = json!({"type": "ERROR", "object": status_value(410, "Expired", "too old resource version: injected")});
    Response::new(FaultyBody::whole(format!("{event}\n")))
}
