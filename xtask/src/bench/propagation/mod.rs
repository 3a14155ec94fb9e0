//! How long it takes from a change of endpoints in one member to the imported slice in another, and what it costs.
//!
//! Everything runs on one machine, as processes of their own: the API servers, one agent per member, and this load. What
//! is reported is therefore what a machine shared by all of them can do; next to it stands what the servers alone need
//! for the three writes and watches on the way, under the same load.

mod agents;
mod fleet;
mod load;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::fleet::Fleet;
use super::client::Failure;
use super::sample::{Sample, milliseconds};
use crate::Outcome;
use crate::cargo::release;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// On which servers
    #[arg(long, value_enum, default_value = "embedded")]
    on: Server,
    /// How many members; several numbers make several runs
    #[arg(long, value_delimiter = ',', default_values_t = [3, 10, 50, 100])]
    members: Vec<usize>,
    /// Exported services, spread over the members
    #[arg(long, default_value_t = 1000)]
    services: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = 20)]
    endpoints: usize,
    /// Changes per second
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Seconds under load
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// A tombolo to use instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Server {
    /// The embedded one, all clusters in one process
    Embedded,
    /// kube-apiserver and etcd
    Kube,
}

pub(crate) async fn run(args: &Args) -> Outcome {
    println!("{} services of {} endpoints, {} changes a second", args.services, args.endpoints, args.rate);
    let binary = args.binary.clone().map_or_else(|| release("tombolo-cli"), Ok)?;
    for members in &args.members {
        measure(args, &binary, *members)
            .await
            .map_err(|failure| -> Box<dyn std::error::Error> { failure })?;
    }
    Ok(())
}

async fn measure(args: &Args, binary: &Path, members: usize) -> Result<(), Failure> {
    println!("\n| {members} members | |\n|---|---|");
    let begin = Instant::now();
    let mut fleet = Fleet::start(args, binary.to_owned(), members).await?;
    row("everything imported everywhere after", &format!("{:.1} s", begin.elapsed().as_secs_f64()));
    come_to_rest(&fleet).await?;
    row("nothing more to write after", &format!("{:.1} s", begin.elapsed().as_secs_f64()));
    idle(&fleet).await?;
    under_load(args, &fleet).await?;
    cold_start(&mut fleet).await?;
    let memory = fleet.agents.iter().map(agents::Agent::memory).collect::<Result<Vec<_>, _>>()?;
    row("largest agent, resident", &format!("{:.1} MB", memory.into_iter().fold(0.0, f64::max)));
    fleet.stop().await
}

/// Longer than it takes a hundred members to tell how far they have come.
const REST: Duration = Duration::from_secs(5);

/// Waits until agents write nothing but heartbeats and leases. What is imported is not yet all: exports have to say so.
async fn come_to_rest(fleet: &Fleet) -> Result<(), Failure> {
    const PATIENCE: Duration = Duration::from_secs(600);
    let begin = Instant::now();
    let mut before = fleet.writes().await?;
    while begin.elapsed() < PATIENCE {
        tokio::time::sleep(REST).await;
        let after = fleet.writes().await?;
        if after.others == before.others {
            return Ok(());
        }
        before = after;
    }
    Err(format!("agents were still writing after {PATIENCE:?}").into())
}

/// What is written while nothing changes.
async fn idle(fleet: &Fleet) -> Result<(), Failure> {
    /// Twice as long as leases rest.
    const PERIOD: Duration = Duration::from_secs(30);
    let before = fleet.writes().await?;
    tokio::time::sleep(PERIOD).await;
    let after = fleet.writes().await?;
    let rate = |now: f64, then: f64| format!("{:.1}/s", (now - then) / PERIOD.as_secs_f64());
    row("idle: heartbeats and leases", &rate(after.leases, before.leases));
    row("idle: other writes", &rate(after.others, before.others));
    Ok(())
}

async fn under_load(args: &Args, fleet: &Fleet) -> Result<(), Failure> {
    let before = fleet.writes().await?;
    let mut outcome = load::run(fleet, args.rate, Duration::from_secs(args.seconds)).await?;
    // Watermarks follow the last change.
    tokio::time::sleep(REST).await;
    let after = fleet.writes().await?;
    row("change to imported slice", &quantiles(&mut outcome.delays));
    row("one write and watch of the servers alone", &quantiles(&mut outcome.hops));
    let hops = outcome.hops.quantile(0.5).as_secs_f64() * 3.0;
    let ratio = outcome.delays.quantile(0.5).as_secs_f64() / hops.max(f64::EPSILON);
    row("p50 as a multiple of three such hops", &format!("{ratio:.2}"));
    row("changes made, seen", &format!("{}, {}", outcome.changes, outcome.delays.len()));
    let writes = (after.others - before.others) / f64::from(outcome.changes.max(1));
    row("writes of agents per change", &format!("{writes:.2}"));
    Ok(())
}

/// A member that joins with nothing.
async fn cold_start(fleet: &mut Fleet) -> Result<(), Failure> {
    let begin = Instant::now();
    fleet.join_spare().await?;
    row("a new member has all after", &format!("{:.2} s", begin.elapsed().as_secs_f64()));
    Ok(())
}

fn quantiles(sample: &mut Sample) -> String {
    let [half, most, nearly_all] = [0.5, 0.99, 0.999].map(|share| milliseconds(sample.quantile(share)));
    format!("p50 {half}, p99 {most}, p99.9 {nearly_all}")
}

fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}
