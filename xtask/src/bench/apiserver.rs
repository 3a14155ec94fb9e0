//! How fast an API server is, and how large.
//!
//! The load generator shares the machine with the server, as agents do on a laptop: what it reports is what is left for
//! both. Pointed at a kubeconfig it puts the same load on any other API server, for a comparison in the same run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Connection, Failure, Target};
use super::process::Embedded;
use super::sample::{Sample, milliseconds};
use crate::Outcome;
use crate::cargo::release;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/bench/configmaps";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds per measurement
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Measure the server of this kubeconfig instead of an embedded one
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// A context of that kubeconfig; the current one by default
    #[arg(long, requires = "kubeconfig")]
    context: Option<String>,
}

pub(crate) async fn run(args: &Args) -> Outcome {
    let duration = Duration::from_secs(args.seconds);
    match &args.kubeconfig {
        Some(path) => load(&Target::read(path, args.context.as_deref()).map_err(plain)?, duration)
            .await
            .map_err(plain)?,
        None => embedded(duration).await?,
    }
    Ok(())
}

fn plain(failure: Failure) -> Box<dyn std::error::Error> {
    failure
}

async fn embedded(duration: Duration) -> Outcome {
    let binary = release("tombolo-cli")?;
    let mut starts = Sample::default();
    for _ in 0..5 {
        let server = Embedded::start(&binary, 3).await?;
        starts.add(server.start);
        server.stop().await?;
    }
    row("start of three clusters to ready, median of 5", &milliseconds(starts.quantile(0.5)));
    for clusters in [1, 3] {
        let server = Embedded::start(&binary, clusters).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        row(&format!("resident memory, {clusters} idle"), &format!("{:.1} MB", server.memory()?));
        server.stop().await?;
    }
    let server = Embedded::start(&binary, 1).await?;
    let target = Target::read(&server.kubeconfig(), None).map_err(plain)?;
    load(&target, duration).await.map_err(plain)?;
    server.stop().await?;
    let server = Embedded::start(&binary, 1).await?;
    let target = Target::read(&server.kubeconfig(), None).map_err(plain)?;
    fill(&target, 10_000).await.map_err(plain)?;
    row("resident memory, 10,000 objects of 0.8 KB", &format!("{:.1} MB", server.memory()?));
    server.stop().await
}

fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}

async fn load(target: &Target, duration: Duration) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}).to_string();
    connection.expect(Method::POST, "/api/v1/namespaces", JSON, namespace).await?;
    for (connections, watchers) in [(1, 1), (16, 1), (16, 50)] {
        let (rate, mut latency) = writes(target, connections, watchers, duration).await?;
        let what = format!("writes/s, {connections} connections, {watchers} watchers");
        let figure = format!(
            "{rate:.0} (p50 {}, p99 {})",
            milliseconds(latency.quantile(0.5)),
            milliseconds(latency.quantile(0.99))
        );
        row(&what, &figure);
    }
    row("GET/s, 16 connections", &format!("{:.0}", reads(target, 16, duration).await?));
    let mut delays = propagation(target, duration).await?;
    let figure = format!(
        "p50 {}, p99 {} ({} writes)",
        milliseconds(delays.quantile(0.5)),
        milliseconds(delays.quantile(0.99)),
        delays.len()
    );
    row("write to watch event, 1 connection", &figure);
    connection.expect(Method::DELETE, "/api/v1/namespaces/bench", JSON, "").await?;
    Ok(())
}

/// A ConfigMap of about 0.8 KB.
fn config_map(name: &str, sequence: usize) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "load"}},
        "data": {"sequence": sequence.to_string(), "text": "x".repeat(600)},
    })
    .to_string()
}

async fn fill(target: &Target, count: usize) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    for place in 0..count {
        let path = "/api/v1/namespaces/default/configmaps";
        connection.expect(Method::POST, path, JSON, config_map(&format!("fill-{place}"), place)).await?;
    }
    Ok(())
}

/// A life of create, update, merge patch and delete on each connection, over and over.
async fn writes(
    target: &Target,
    connections: usize,
    watchers: usize,
    duration: Duration,
) -> Result<(f64, Sample), Failure> {
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        let mut body = target.connect().await?.into_watch(&format!("{MAPS}?watch=true")).await?;
        watching.spawn(async move { while let Some(Ok(_)) = body.next().await {} });
    }
    let mut writing = JoinSet::new();
    let begin = Instant::now();
    for place in 0..connections {
        let mut connection = target.connect().await?;
        writing.spawn(async move {
            let mut latency = Sample::default();
            let name = format!("write-{place}");
            while begin.elapsed() < duration {
                life(&mut connection, &name, &mut latency).await?;
            }
            Ok::<_, Failure>(latency)
        });
    }
    let mut latency = Sample::default();
    while let Some(ended) = writing.join_next().await {
        latency.extend(ended??);
    }
    Ok((latency.len() as f64 / begin.elapsed().as_secs_f64(), latency))
}

async fn life(connection: &mut Connection, name: &str, latency: &mut Sample) -> Result<(), Failure> {
    let path = format!("{MAPS}/{name}");
    let patch = r#"{"data":{"sequence":"3"}}"#;
    let steps = [
        (Method::POST, MAPS, JSON, config_map(name, 1)),
        (Method::PUT, path.as_str(), JSON, config_map(name, 2)),
        (Method::PATCH, path.as_str(), MERGE, patch.to_owned()),
        (Method::DELETE, path.as_str(), JSON, String::new()),
    ];
    for (method, path, media_type, body) in steps {
        let begin = Instant::now();
        connection.expect(method, path, media_type, body).await?;
        latency.add(begin.elapsed());
    }
    Ok(())
}

async fn reads(target: &Target, connections: usize, duration: Duration) -> Result<f64, Failure> {
    target.connect().await?.expect(Method::POST, MAPS, JSON, config_map("read", 0)).await?;
    let mut reading = JoinSet::new();
    let begin = Instant::now();
    for _ in 0..connections {
        let mut connection = target.connect().await?;
        reading.spawn(async move {
            let mut count = 0_u64;
            while begin.elapsed() < duration {
                connection.expect(Method::GET, &format!("{MAPS}/read"), JSON, "").await?;
                count += 1;
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut count = 0;
    while let Some(ended) = reading.join_next().await {
        count += ended??;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// From sending a write to reading the watch event it causes, one at a time.
async fn propagation(target: &Target, duration: Duration) -> Result<Sample, Failure> {
    let mut connection = target.connect().await?;
    connection.expect(Method::POST, MAPS, JSON, config_map("seen", 0)).await?;
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dseen");
    let mut events = target.connect().await?.into_watch(&path).await?;
    let (sender, mut seen) = mpsc::channel(16);
    let watcher = tokio::spawn(async move {
        while let Some(Ok(_)) = events.next().await {
            if sender.send(Instant::now()).await.is_err() {
                return;
            }
        }
    });
    seen.recv().await.ok_or("the watch ended")?;
    let mut delays = Sample::default();
    let begin = Instant::now();
    let mut sequence = 0;
    while begin.elapsed() < duration {
        sequence += 1;
        let patch = format!(r#"{{"data":{{"sequence":"{sequence}"}}}}"#);
        let sent = Instant::now();
        connection.expect(Method::PATCH, &format!("{MAPS}/seen"), MERGE, patch).await?;
        delays.add(seen.recv().await.ok_or("the watch ended")?.duration_since(sent));
    }
    watcher.abort();
    Ok(delays)
}

/// A watch and the connection that carries it.
struct Watch {
    _connection: Connection,
    body: hyper::body::Incoming,
}

impl Connection {
    async fn into_watch(mut self, path: &str) -> Result<Watch, Failure> {
        let body = self.stream(path).await?;
        Ok(Watch { _connection: self, body })
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Result<(), hyper::Error>> {
        self.body.frame().await.map(|frame| frame.map(|_| ()))
    }
}
