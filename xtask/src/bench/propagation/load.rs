//! Changes at a steady rate, and who sees them when.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt as _;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::fleet::{Fleet, slice, slice_path};
use crate::bench::client::{Connection, Failure, Target};
use crate::bench::sample::Sample;

/// So many members are looked at: looking costs, too.
const OBSERVERS: usize = 3;
/// Every change puts an address of its own into a slice, so that it can be told from the others wherever it shows up.
const MARK: &str = "\"100.64.";
const IMPORTED: &str = "/apis/discovery.k8s.io/v1/endpointslices?watch=true&labelSelector=multicluster.kubernetes.io%2Fsource-cluster";
const OFFERED: &str = "/apis/discovery.k8s.io/v1/endpointslices?watch=true&labelSelector=%21multicluster.kubernetes.io%2Fsource-cluster";

pub(super) struct Loaded {
    /// From the change to the imported slice, in each observed member.
    pub(super) delays: Sample,
    /// From the change to the watch event of the same slice in the same cluster.
    pub(super) hops: Sample,
    pub(super) changes: u32,
}

/// When each change was sent.
type Sent = Arc<Mutex<Vec<Instant>>>;

pub(super) async fn run(fleet: &Fleet, rate: u32, duration: Duration) -> Result<Loaded, Failure> {
    let sent: Sent = Arc::default();
    let far = Arc::new(Mutex::new(Sample::default()));
    let near = Arc::new(Mutex::new(Sample::default()));
    let mut observers = JoinSet::new();
    for target in fleet.members.iter().rev().take(OBSERVERS) {
        observers.spawn(observe(target.clone(), IMPORTED, sent.clone(), far.clone()));
    }
    observers.spawn(observe(fleet.members[0].clone(), OFFERED, sent.clone(), near.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let changes = change(fleet, rate, duration, &sent).await?;
    let expected = changes as usize * fleet.members.len().min(OBSERVERS);
    let deadline = Instant::now() + Duration::from_secs(30);
    while locked(&far).len() < expected && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Some(Ok(Err(failure))) = observers.try_join_next() {
            return Err(failure);
        }
    }
    observers.shutdown().await;
    let take = |sample: &Mutex<Sample>| std::mem::take(&mut *locked(sample));
    Ok(Loaded { delays: take(&far), hops: take(&near), changes })
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes one service after the other.
async fn change(fleet: &Fleet, rate: u32, duration: Duration, sent: &Sent) -> Result<u32, Failure> {
    let mut connections: Vec<Connection> = Vec::new();
    for target in &fleet.members {
        connections.push(target.connect().await?);
    }
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let begin = Instant::now();
    let mut changes = 0_u32;
    while begin.elapsed() < duration {
        ticks.tick().await;
        // Neighbours are in different members; the stride keeps a service at rest until its turn comes again.
        let service = (changes as usize * 7919) % fleet.services;
        let address = format!("100.64.{}.{}", (changes >> 8) & 255, changes & 255);
        let body = slice(service, fleet.endpoints, &address).to_string();
        locked(sent).push(Instant::now());
        let connection = &mut connections[service % fleet.members.len()];
        connection.expect(Method::PUT, &slice_path(service), "application/json", body).await?;
        changes += 1;
    }
    Ok(changes)
}

/// Takes the time of every change that a watch shows.
async fn observe(
    target: Target,
    path: &'static str,
    sent: Sent,
    sample: Arc<Mutex<Sample>>,
) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    let mut body = connection.stream(path).await?;
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let now = Instant::now();
        let Ok(data) = frame?.into_data() else { continue };
        text.extend_from_slice(&data);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let event: Vec<u8> = text.drain(..=end).collect();
            let change = find_mark(&String::from_utf8_lossy(&event));
            let begin = change.and_then(|change| locked(&sent).get(change).copied());
            if let Some(begin) = begin {
                locked(&sample).add(now.duration_since(begin));
            }
        }
    }
    Err("a watch ended".into())
}

/// The number of the change that an event shows.
fn find_mark(event: &str) -> Option<usize> {
    let (_, rest) = event.split_once(MARK)?;
    let (high, rest) = rest.split_once('.')?;
    let (low, _) = rest.split_once('"')?;
    Some(high.parse::<usize>().ok()? << 8 | low.parse::<usize>().ok()?)
}
