//! How fast the proxy brings Services into the kernel, against the same Services in kube-proxy's layout through `nft`.
//!
//! Everything happens in fresh namespaces, in a process of its own that is built as users run it. Times of the proxy are
//! from routes to the kernel's yes; times of `nft` are those of the command.

mod layout;
mod rate;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tombolo_api::service::IpFamily;
use tombolo_model::routing::{
    Action, Backend, Balance, Frontend, FrontendKind, Protocol, Route, Routes, Tier,
};
use tombolo_proxy::Settings;
use tombolo_proxy::kernel::Kernel;
use tombolo_proxy::plan::{Plan, Update};
use tombolo_runtime::Key;

use super::sample::Sample;
use crate::Outcome;
use crate::cargo::release;

type Failure = Box<dyn std::error::Error>;

/// Endpoints of each Service.
const ENDPOINTS: u32 = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Services in the comparison with `nft`
    #[arg(long, default_value_t = 10_000)]
    services: u32,
    /// In the process that has namespaces of its own
    #[arg(long, hide = true)]
    inside: bool,
}

pub(crate) async fn run(args: &Args) -> Outcome {
    if args.inside {
        return measure(args);
    }
    let program = release("xtask")?;
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(program)
        .args(["bench", "proxy", "--inside", "--services", &args.services.to_string()])
        .status()?;
    if status.success() { Ok(()) } else { Err("the benchmark failed; it needs root and nft".into()) }
}

fn measure(args: &Args) -> Outcome {
    shell("mount -t tmpfs bench /run")?;
    shell("ip link set lo up")?;
    let ours = compare_and_load(args.services)?;
    let theirs = layout::measure(args.services)?;
    row("full load, kube-proxy's layout through nft -f", &span(theirs.full));
    row("one endpoint, the same", &span(theirs.change));
    let ratio = |one: Duration, other: Duration| format!("{:.0}x", one.as_secs_f64() / other.as_secs_f64());
    row("ratio, full load", &ratio(theirs.full, ours.full));
    row("CPU time of the full load, ours and theirs", &format!("{}, {}", span(ours.cpu), span(theirs.cpu)));
    row("ratio, CPU time of the full load", &ratio(theirs.cpu, ours.cpu));
    row("ratio, one endpoint in place", &ratio(theirs.change, ours.in_place));
    row("ratio, one endpoint more or less", &ratio(theirs.change, ours.counted));
    for services in [1_000, 5_000, 20_000, 50_000] {
        let times = load(services)?.times;
        let figure = format!("{}, {}, {}", span(times.full), span(times.in_place), span(times.counted));
        row(&format!("{services} services: full load, in place, count-changing"), &figure);
    }
    rate::measure()
}

/// Medians, but for the full load.
struct Times {
    full: Duration,
    cpu: Duration,
    in_place: Duration,
    counted: Duration,
}

struct Loaded {
    times: Times,
    restart: Duration,
    memory: f64,
}

fn compare_and_load(services: u32) -> Result<Times, Failure> {
    let loaded = load(services)?;
    let times = loaded.times;
    row(&format!("full load, {services} services x {ENDPOINTS} endpoints"), &span(times.full));
    row("restart: read all, compare, nothing to write", &span(loaded.restart));
    row("one endpoint replaced in place", &span(times.in_place));
    row("one endpoint more or less", &span(times.counted));
    row("resident memory of the process with the plan", &format!("{:.1} MB", loaded.memory));
    Ok(times)
}

fn load(services: u32) -> Result<Loaded, Failure> {
    let namespace = make_namespace()?;
    let updates: Vec<Update> = (0..services).map(|service| update(service, ENDPOINTS, 0)).collect();
    let mut kernel = Kernel::open(Some(&namespace), &Settings::default())?;
    let mut plan = Plan::new();
    let (begin, spent) = (Instant::now(), cpu(Charged::Own)?);
    plan.load(updates);
    kernel.adopt(&plan)?;
    let (full, spent) = (begin.elapsed(), cpu(Charged::Own)? - spent);
    let memory = resident()?;
    let mut time = |endpoints: &dyn Fn(u32) -> (u32, u32)| -> Result<Duration, Failure> {
        let mut sample = Sample::default();
        for turn in 0..200 {
            let (count, offset) = endpoints(turn);
            let update = update(turn * 37 % services, count, offset);
            let begin = Instant::now();
            let outcome = plan.update([update]);
            kernel.apply(&outcome.changes)?;
            sample.add(begin.elapsed());
        }
        Ok(sample.quantile(0.5))
    };
    let in_place = time(&|turn| (ENDPOINTS, turn % 2 + 1))?;
    let counted = time(&|turn| (ENDPOINTS + 1 - turn % 2 * 2, 0))?;
    let mut fresh = Kernel::open(Some(&namespace), &Settings::default())?;
    let begin = Instant::now();
    fresh.adopt(&plan)?;
    let restart = begin.elapsed();
    shell("ip netns del bench")?;
    Ok(Loaded { times: Times { full, cpu: spent, in_place, counted }, restart, memory })
}

/// Whose CPU time.
#[derive(Clone, Copy)]
enum Charged {
    Own,
    /// That of ended children.
    Children,
}

/// CPU time spent so far, in steps of 10 ms: what neighbours on the same cores disturb least.
fn cpu(whose: Charged) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').ok_or("no stat")?.1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // utime and stime are the fields 14 and 15 of all, those of children 16 and 17; two came before.
    let places = match whose {
        Charged::Own => [11, 12],
        Charged::Children => [13, 14],
    };
    let ticks = places.iter().filter_map(|place| fields.get(*place)?.parse::<u64>().ok());
    Ok(Duration::from_millis(ticks.sum::<u64>() * 10))
}

fn make_namespace() -> Result<PathBuf, Failure> {
    shell("ip netns add bench")?;
    Ok(PathBuf::from("/run/netns/bench"))
}

fn vip(service: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a60_0000 + service)
}

/// The last of them differs by `offset`.
fn endpoint(service: u32, number: u32, count: u32, offset: u32) -> Ipv4Addr {
    let other = if number + 1 == count { offset * 20 } else { 0 };
    Ipv4Addr::from(0x0b00_0000 + service * 100 + number + other)
}

fn update(service: u32, count: u32, offset: u32) -> Update {
    let backends = (0..count).map(|number| Backend {
        address: IpAddr::V4(endpoint(service, number, count, offset)),
        port: 8080,
        weight: 1,
        sticky: None,
        local: false,
        source: None,
    });
    let action = Action::Balance(Balance { backends: backends.collect(), tier: Tier::All });
    let frontend = Frontend {
        kind: FrontendKind::ClusterIp,
        family: IpFamily::V4,
        address: Some(IpAddr::V4(vip(service))),
        protocol: Protocol::Tcp,
        port: 80,
    };
    let route = Route {
        frontend,
        port_name: String::new(),
        action,
        from_this_node: None,
        masquerade: false,
        allowed_sources: None,
    };
    let routes = Routes { routes: vec![route], health_check: None };
    Update { service: Key::new("bench", format!("service-{service}")), routes, serving: Default::default() }
}

fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}

fn span(duration: Duration) -> String {
    match duration {
        long if long >= Duration::from_secs(1) => format!("{:.2} s", long.as_secs_f64()),
        middle if middle >= Duration::from_millis(1) => format!("{:.2} ms", middle.as_secs_f64() * 1e3),
        short => format!("{:.0} µs", short.as_secs_f64() * 1e6),
    }
}

/// Resident memory of this process in megabytes.
fn resident() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse()?;
    Ok(kilobytes / 1024.0)
}

fn shell(line: &str) -> Outcome {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let status = Command::new(program).args(words).status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line} failed").into()) }
}
