//! `tombolo/load`: so many requests a second for so long, each over a connection of its own, and what became of them.
//!
//! It begins a request when its time has come, whether earlier ones were answered or not, so that slow answers do not make
//! it ask less. The name is looked up once; what comes back is one JSON object.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{option, port};

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that may be under way at one time.
const MOST_AT_ONCE: usize = 10_000;
const MOST_BYTES: u64 = 4096;

/// `--host NAME`, `--port PORT`, `--rate NUMBER`, `--seconds NUMBER`.
pub(super) async fn run(arguments: &[String]) -> io::Result<()> {
    let host =
        option(arguments, "host").ok_or_else(|| io::Error::other("--host NAME is missing"))?.to_owned();
    let port = port(arguments, "port", 80)?;
    let (rate, seconds) = (number(arguments, "rate", 100)?, number(arguments, "seconds", 10)?);
    let address = tokio::net::lookup_host((host.as_str(), port)).await?.next();
    let address = address.ok_or_else(|| io::Error::other(format!("{host} has no address")))?;
    let mut outcomes = BTreeMap::new();
    let mut underway = JoinSet::new();
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let begun = Instant::now();
    for _ in 0..u64::from(rate) * u64::from(seconds) {
        ticks.tick().await;
        while underway.len() >= MOST_AT_ONCE {
            note(&mut outcomes, underway.join_next().await);
        }
        underway.spawn(ask(address, host.clone()));
        while let Some(ended) = underway.try_join_next() {
            note(&mut outcomes, Some(ended));
        }
    }
    let took = begun.elapsed();
    while let Some(ended) = underway.join_next().await {
        note(&mut outcomes, Some(ended));
    }
    tell(&outcomes, took);
    std::future::pending().await
}

#[expect(clippy::print_stdout, reason = "this is the container's log")]
fn tell(outcomes: &BTreeMap<String, u64>, took: Duration) {
    let sent: u64 = outcomes.values().sum();
    let rate = sent as f64 / took.as_secs_f64().max(0.001);
    println!("{}", json!({"sent": sent, "perSecond": rate.round(), "outcomes": outcomes}));
}

fn number(arguments: &[String], name: &str, usual: u32) -> io::Result<u32> {
    let Some(text) = option(arguments, name) else { return Ok(usual) };
    text.parse().map_err(|_| io::Error::other(format!("--{name}: {text:?} is no number")))
}

fn note(outcomes: &mut BTreeMap<String, u64>, ended: Option<Result<String, tokio::task::JoinError>>) {
    if let Some(ended) = ended {
        let word = ended.unwrap_or_else(|error| error.to_string());
        *outcomes.entry(word).or_insert(0) += 1;
    }
}

/// The cluster that answered, or what went wrong.
async fn ask(address: SocketAddr, host: String) -> String {
    match timeout(PATIENCE, exchange(address, &host)).await {
        Ok(Ok(cluster)) => cluster,
        Ok(Err(error)) => format!("failed: {}", error.kind()),
        Err(_) => "failed: no answer".to_owned(),
    }
}

async fn exchange(address: SocketAddr, host: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut answer).await?;
    read(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn read(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split_whitespace().nth(1).filter(|code| *code == "200")?;
    let told: serde_json::Value = serde_json::from_str(body).ok()?;
    told["cluster"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_counts() {
        let good = "HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"cluster\":\"member1\"}\n";
        assert_eq!(read(good).as_deref(), Some("member1"));
        for bad in ["", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.0 500 No\r\n\r\n{\"cluster\":\"a\"}", "nonsense"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
