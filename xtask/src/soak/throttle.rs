//! The hub refuses what the agents of one member ask, and says how often it did.
//!
//! A limit that matches nothing would make a fault of which nobody notices anything, so the refusals are counted where they
//! are made. And a level without seats is not enough: an API server lets a request through that needs more seats than there
//! are when no other is under way. So one request under the member's name is begun and never finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tombolo_api::tombolo::{HUB_ACCOUNT, ServiceOffer};
use tombolo_runtime::request_token;
use tombolo_upstream::Context;

use super::fleet::{Fleet, id, object};
use super::report::Seen;
use crate::bench;
use crate::servers::Failure;

/// The name of what makes the hub refuse.
const NAME: &str = "soak";
/// What the hub counts its refusals in.
const REFUSALS: &str = "apiserver_flowcontrol_rejected_requests_total";
/// Which limit applies to a request, in the answer to it.
const LIMIT: &str = "x-kubernetes-pf-flowschema-uid";
/// Much longer than it takes for a limit to apply.
const PATIENCE: Duration = Duration::from_secs(60);
/// In 20 s there are more heartbeats alone.
const ENOUGH: u64 = 3;

/// A limit that is in force.
pub(super) struct Throttle {
    hub: Client,
    /// Refusals of earlier ones, which count on.
    earlier: u64,
    /// Refusals that are our own.
    own: Arc<AtomicU64>,
    occupying: JoinSet<()>,
}

impl Throttle {
    /// Leaves no seat for what a member's agents ask of the hub.
    pub(super) async fn begin(fleet: &Fleet, member: usize) -> Result<Self, Failure> {
        let (hub, namespace) = (fleet.hub.clone(), format!("tombolo-{}", id(member)));
        let token = request_token(&hub, &namespace, HUB_ACCOUNT, 600).await?;
        let same = Context { token, ..fleet.servers.planes[0].context.clone() };
        let limit = limit(&hub, &namespace).await?;
        applies(&same.client()?, &namespace, &limit).await?;
        let (earlier, own, mut occupying) = (refusals(&hub).await?, Arc::default(), JoinSet::new());
        occupying.spawn(occupy(same, namespace, Arc::clone(&own)));
        Ok(Self { hub, earlier, own, occupying })
    }

    /// Takes the limit away. How many requests it refused; a limit that refused hardly any was none.
    pub(super) async fn end(mut self) -> Result<Seen, Failure> {
        let all = refusals(&self.hub).await?;
        self.occupying.shutdown().await;
        Api::<FlowSchema>::all(self.hub.clone()).delete(NAME, &DeleteParams::default()).await?;
        Api::<PriorityLevelConfiguration>::all(self.hub.clone())
            .delete(NAME, &DeleteParams::default())
            .await?;
        let refused = all.saturating_sub(self.earlier).saturating_sub(self.own.load(Ordering::Relaxed));
        if refused < ENOUGH {
            return Err(format!(
                "the hub refused {refused} requests of the member's agents: that is no rate limit"
            )
            .into());
        }
        Ok(Seen { least: refused as f64, unit: "answers of 429".to_owned() })
    }
}

/// Makes the limit, and gives its uid.
async fn limit(hub: &Client, namespace: &str) -> Result<String, Failure> {
    let level: PriorityLevelConfiguration = object(json!({
        "metadata": {"name": NAME},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    }));
    Api::all(hub.clone()).create(&PostParams::default(), &level).await?;
    let group = format!("system:serviceaccounts:{namespace}");
    let schema: FlowSchema = object(json!({
        "metadata": {"name": NAME},
        "spec": {
            "priorityLevelConfiguration": {"name": NAME}, "matchingPrecedence": 10,
            "rules": [{
                "subjects": [{"kind": "Group", "group": {"name": group}}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
                }],
            }],
        },
    }));
    let schema = Api::all(hub.clone()).create(&PostParams::default(), &schema).await?;
    Ok(schema.uid().unwrap_or_default())
}

/// Waits until the limit applies to what the member's account asks.
async fn applies(same: &Client, namespace: &str, limit: &str) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let request = http::Request::get(ServiceOffer::url_path(&(), Some(namespace)));
        let answer = same.send(request.body(kube::client::Body::empty())?).await?;
        if answer.headers().get(LIMIT).is_some_and(|uid| uid == limit) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err("the hub's limit does not apply to the member's account".into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Keeps a request under way. When an agent's is in the way, the next try may find a gap.
async fn occupy(place: Context, namespace: String, own: Arc<AtomicU64>) {
    loop {
        if begin_request(&place, &namespace).await.is_ok_and(|answer| answer.contains(" 429 ")) {
            own.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Begins a request whose body never comes. How the answer begins, once the hub has had enough of waiting.
async fn begin_request(place: &Context, namespace: &str) -> Result<String, Failure> {
    let host = place.server.strip_prefix("https://").ok_or("the hub speaks no HTTPS")?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned();
    let tls = bench::connector(place.authority.as_bytes()).map_err(|failure| failure.to_string())?;
    let mut stream = tls.connect(ServerName::try_from(name)?, TcpStream::connect(host).await?).await?;
    let (path, token) = (ServiceOffer::url_path(&(), Some(namespace)), &place.token);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = vec![0; 32];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

async fn refusals(hub: &Client) -> Result<u64, Failure> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(count(&hub.request_text(request).await?))
}

/// How often our limit refused something, in what an API server says of itself.
fn count(metrics: &str) -> u64 {
    let ours = format!("flow_schema=\"{NAME}\"");
    let lines = metrics.lines().filter(|line| line.starts_with(REFUSALS) && line.contains(&ours));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_our_own_limit_count() {
        let metrics = "\
# TYPE apiserver_flowcontrol_rejected_requests_total counter
apiserver_flowcontrol_rejected_requests_total{flow_schema=\"soak\",priority_level=\"soak\",reason=\"concurrency-limit\"} 12
apiserver_flowcontrol_rejected_requests_total{flow_schema=\"soak\",priority_level=\"soak\",reason=\"time-out\"} 3
apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",priority_level=\"x\",reason=\"time-out\"} 40
apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"soak\",priority_level=\"soak\"} 50";
        assert_eq!(count(metrics), 15);
        assert_eq!(count(""), 0);
    }
}
