//! Writes that have nothing to do with us: large objects at the hub and in a member, and slices of Services that nobody
//! exports in all members, which agents hear of and have to leave alone.
//!
//! What the servers acknowledged is counted, so that a flood that was a trickle is not taken for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::fleet::{NAMESPACE, object};
use super::report::Seen;

/// Bytes of one large object.
const BALLAST: usize = 250_000;
/// Writers in each of two clusters, and how often each writes: 12 MB/s in all where the machine can.
const WRITERS: usize = 4;
const BALLAST_EVERY: Duration = Duration::from_millis(166);
/// Less than this is no flood, MB/s.
const WANTED: f64 = 10.0;
/// Foreign slices in each member, how large they are, and how often one of them changes.
const SLICES: usize = 10;
const ENDPOINTS: usize = 200;
const SLICE_EVERY: Duration = Duration::from_millis(100);

/// A flood that rises.
pub(super) struct Flood {
    begin: Instant,
    writers: JoinSet<()>,
    done: Arc<Done>,
}

/// What came of the writes so far.
#[derive(Debug, Default)]
struct Done {
    bytes: AtomicU64,
    slices: AtomicU64,
    refused: AtomicU64,
}

impl Flood {
    pub(super) fn begin(hub: &Client, members: &[Client]) -> Self {
        let (mut writers, done) = (JoinSet::new(), Arc::new(Done::default()));
        for client in [hub, &members[0]] {
            for number in 0..WRITERS {
                writers.spawn(write_ballast(client.clone(), format!("ballast-{number}"), done.clone()));
            }
        }
        for client in members {
            writers.spawn(write_slices(client.clone(), done.clone()));
        }
        Self { begin: Instant::now(), writers, done }
    }

    /// Stops it. How much was written in a second.
    pub(super) async fn end(mut self) -> Result<Seen, String> {
        let seconds = self.begin.elapsed().as_secs_f64();
        self.writers.shutdown().await;
        let [bytes, slices, refused] = [&self.done.bytes, &self.done.slices, &self.done.refused]
            .map(|counter| counter.load(Ordering::Relaxed));
        judge(bytes as f64 / 1e6 / seconds, slices as f64 / seconds, refused)
    }
}

/// Writers that are late catch up. So what is written without a failure and yet too slow is all that the machine can do, which
/// is told; with failures it is no flood.
fn judge(rate: f64, slices: f64, refused: u64) -> Result<Seen, String> {
    let told = format!("{rate:.1} MB/s and {slices:.1} foreign slices per second were written");
    if slices < 0.1 || (rate < WANTED && refused > 0) {
        return Err(format!("only {told}, {refused} writes failed"));
    }
    let enough =
        if rate < WANTED { "; this machine can do no more, so NOT the 10 MB/s that are wanted" } else { "" };
    Ok(Seen { least: rate, unit: format!("MB/s, and {slices:.1} foreign slices per second{enough}") })
}

/// Writes an object with other content again and again. The requests are put together by hand and the answers are short, so
/// that it is the servers that have the work.
async fn write_ballast(client: Client, name: String, done: Arc<Done>) {
    let empty: ConfigMap = object(json!({"metadata": {"name": name}}));
    // It may be there from an earlier flood.
    let _ = Api::default_namespaced(client.clone()).create(&PostParams::default(), &empty).await;
    let mut ticks = interval(BALLAST_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for round in 1_u64.. {
        ticks.tick().await;
        let text = format!("{round:016}").repeat(BALLAST / 16);
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":"{text}"}}}}"#
        );
        let request = http::Request::put(format!("/api/v1/namespaces/default/configmaps/{name}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .body(body.into_bytes())
            .expect("a request");
        match client.request_text(request).await {
            Ok(_) => done.bytes.fetch_add(BALLAST as u64, Ordering::Relaxed),
            Err(_) => done.refused.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Moves the endpoints of Services that nobody exports.
async fn write_slices(client: Client, done: Arc<Done>) {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let slices: Api<EndpointSlice> = Api::namespaced(client, NAMESPACE);
    let params = PatchParams::apply("flood").force();
    let mut ticks = interval(SLICE_EVERY);
    for round in 0.. {
        ticks.tick().await;
        let name = format!("foreign-{}", round % SLICES);
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        });
        let endpoint = |number: usize| {
            json!({
                "addresses": [format!("10.250.{}.{number}", round % 256)], "conditions": {"ready": true},
            })
        };
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": (0..ENDPOINTS).map(endpoint).collect::<Vec<_>>(),
        });
        let written = async {
            if round < SLICES {
                services.patch(&name, &params, &Patch::Apply(service)).await?;
            }
            slices.patch_metadata(&name, &params, &Patch::Apply(slice)).await
        };
        let counter = if written.await.is_ok() { &done.slices } else { &done.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_slow_a_flood_is_told_and_one_that_failed_is_no_flood() {
        assert_eq!(
            judge(11.5, 20.0, 3).unwrap().to_string(),
            "11.5 MB/s, and 20.0 foreign slices per second"
        );
        assert!(judge(9.9, 20.0, 0).unwrap().to_string().contains("NOT the 10 MB/s"));
        assert!(judge(9.9, 20.0, 3).is_err());
        assert!(judge(11.5, 0.0, 0).is_err());
    }
}
