//! How fast DNS is: side by side with NSD and Knot, in turns, on the same names.
//!
//! Each server has one core and one worker, the client the other core. Queries per second are what dnsperf gets; CPU time per
//! query is what the kernel charged the server for it, which neighbours disturb least. All servers run from beginning to end,
//! so every round compares the same processes.

mod latency;
mod peers;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use self::peers::Peer;
use crate::Outcome;
use crate::cargo::{cargo, executable};

type Failure = Box<dyn std::error::Error>;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds per round
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Names in the zone
    #[arg(long, default_value_t = 100_000)]
    names: u32,
    /// Changes of records per second, for the second server of ours
    #[arg(long, default_value_t = 1_000)]
    changes: u32,
    /// Measure this build of the example `synthetic` instead of making an optimised one; and no million names
    #[arg(long)]
    server: Option<PathBuf>,
}

/// What one server came to.
#[derive(Default)]
struct Row {
    rates: Vec<f64>,
    costs: Vec<f64>,
    delays: Vec<Duration>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    for (program, package) in
        [("dnsperf", "dnsperf"), ("nsd", "nsd"), ("knotd", "knot"), ("taskset", "util-linux")]
    {
        crate::test::find(program).ok_or(format!("{program} is needed (Debian's package {package})"))?;
    }
    let server = args.server.clone().map_or_else(build, Ok)?;
    let dir = std::env::temp_dir().join(format!("tombolo-bench-dns-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let queries = workload::write(&dir, args.names)?;
    let peers = [
        Peer::ours("tombolo", &server, 5401, args.names, 0)?,
        Peer::ours("tombolo, records changing", &server, 5402, args.names, args.changes)?,
        Peer::nsd(&dir, 5403)?,
        Peer::knot(&dir, 5404)?,
    ];
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for round in 0..args.rounds {
        for peer in &peers {
            let (rate, cost) = throughput(peer, &queries, args.seconds)?;
            let delay =
                latency::at(peer.port(), args.names, 20_000, Duration::from_secs(args.seconds.min(3)))?;
            println!("round {round}: {}: {rate:.0} q/s, {cost:.2} µs, p99 {delay:?}", peer.name());
            let row = rows.entry(peer.name()).or_default();
            row.rates.push(rate);
            row.costs.push(cost);
            row.delays.push(delay);
        }
    }
    report(&peers, &mut rows);
    drop(peers);
    std::fs::remove_dir_all(&dir)?;
    if args.server.is_some() { Ok(()) } else { capacity() }
}

/// Median of values, and as a share of what NSD had in the same rounds.
fn report(peers: &[Peer], rows: &mut BTreeMap<&str, Row>) {
    let nsd = rows.get("NSD").map(|row| (median(&row.rates), median(&row.costs))).unwrap_or_default();
    println!(
        "| server | q/s | ratio to NSD | CPU µs/query | ratio to NSD | p99 at 20,000 q/s | resident MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for peer in peers {
        let Some(row) = rows.get_mut(peer.name()) else { continue };
        let (rate, cost) = (median(&row.rates), median(&row.costs));
        row.delays.sort_unstable();
        println!(
            "| {} | {rate:.0} | {:.2} | {cost:.2} | {:.2} | {:.0} µs | {:.0} |",
            peer.name(),
            rate / nsd.0,
            cost / nsd.1,
            row.delays[row.delays.len() / 2].as_secs_f64() * 1e6,
            peer.memory().unwrap_or_default()
        );
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Queries per second, and microseconds of CPU for each.
fn throughput(peer: &Peer, queries: &std::path::Path, seconds: u64) -> Result<(f64, f64), Failure> {
    let before = peer.cpu()?;
    let output = Command::new("taskset")
        .args(["-c", "1", "dnsperf", "-s", "127.0.0.1", "-e", "-c", "8", "-q", "256", "-T", "1", "-S", "0"])
        .args(["-p", &peer.port().to_string(), "-l", &seconds.to_string(), "-d"])
        .arg(queries)
        .output()?;
    let spent = peer.cpu()? - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = |label: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(label))?;
        line.split_once(':')?.1.split_whitespace().next()?.parse::<f64>().ok()
    };
    let rate = figure("Queries per second:").ok_or_else(|| format!("dnsperf said: {text}"))?;
    let completed = figure("Queries completed:").ok_or("dnsperf counted no queries")?;
    Ok((rate, spent.as_secs_f64() * 1e6 / completed))
}

/// Builds the server with made-up names, optimised.
fn build() -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", "tombolo-dns", "--example", "synthetic"]);
    executable(command)
}

/// A million names: memory and time.
fn capacity() -> Outcome {
    let status = cargo()
        .args(["test", "--release", "--quiet", "--package", "tombolo-dns", "--test", "capacity"])
        .args(["--", "--ignored", "--nocapture"])
        .status()?;
    if status.success() { Ok(()) } else { Err("the capacity test failed".into()) }
}
