//! Connections a second through a Service's address, against the same connections straight to the backend.
//!
//! A client pod, a node that forwards, a backend pod; 10,000 Services loaded. Rounds of both kinds alternate. All of it runs
//! on one core: whether the scheduler happens to put client and backend on the same one makes more of a difference than
//! anything else.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use tombolo_nft::within;
use tombolo_proxy::Settings;
use tombolo_proxy::kernel::Kernel;
use tombolo_proxy::plan::Plan;

use super::{Failure, endpoint, row, shell, update, vip};
use crate::Outcome;

const ROUNDS: usize = 12;
const CONNECTIONS: u32 = 1_500;
const SERVICES: u32 = 10_000;

pub(super) fn measure() -> Outcome {
    let [node, client, server] = ["node", "client", "server"].map(namespace);
    wire(&[&client, &server])?;
    let mut kernel = Kernel::open(Some(&node), &Settings::default())?;
    let mut plan = Plan::new();
    plan.update((0..SERVICES).map(|service| update(service, 1, 0)));
    kernel.adopt(&plan)?;
    pin()?;
    let listener = within(&server, || TcpListener::bind("0.0.0.0:8080"))??;
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let direct: SocketAddr = (endpoint(0, 0, 1, 0), 8080).into();
    let through: SocketAddr = (vip(0), 80).into();
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (place, to) in [direct, through].into_iter().enumerate() {
            best[place] = best[place].min(round(&client, to)?);
        }
    }
    let rate = best.map(|took| f64::from(CONNECTIONS) / took.as_secs_f64());
    row("connections/s straight to the backend, best round", &format!("{:.0}", rate[0]));
    row("connections/s through the Service, best round", &format!("{:.0}", rate[1]));
    row("ratio, connection rate", &format!("{:.2}", rate[1] / rate[0]));
    Ok(())
}

/// Keeps this thread, and those it starts, on one core.
fn pin() -> Outcome {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    Ok(sched_setaffinity(None, &core)?)
}

fn namespace(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Client and backend behind a node, each at the end of a wire.
fn wire(pods: &[&PathBuf]) -> Outcome {
    let addresses = ["11.1.1.1".to_owned(), endpoint(0, 0, 1, 0).to_string()];
    shell("ip netns add node")?;
    shell("ip -n node link set lo up")?;
    for (pod, address) in pods.iter().zip(addresses) {
        let name = pod.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        shell(&format!("ip netns add {name}"))?;
        shell(&format!("ip -n node link add w-{name} type veth peer name eth0 netns {name}"))?;
        shell(&format!("ip -n node addr add 172.18.0.1/32 dev w-{name}"))?;
        shell(&format!("ip -n node link set w-{name} up"))?;
        shell(&format!("ip -n node route add {address} dev w-{name}"))?;
        shell(&format!("ip -n {name} addr add {address} dev eth0"))?;
        shell(&format!("ip -n {name} link set eth0 up"))?;
        shell(&format!("ip -n {name} route add 172.18.0.1 dev eth0"))?;
        shell(&format!("ip -n {name} route add default via 172.18.0.1 dev eth0"))?;
    }
    within(&namespace("node"), || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    Ok(())
}

/// So many connections one after the other, each until the backend ends it.
fn round(client: &Path, to: SocketAddr) -> Result<Duration, Failure> {
    let connect = || {
        let begin = Instant::now();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(to)?;
            stream.read_to_end(&mut Vec::new())?;
        }
        Ok::<_, std::io::Error>(begin.elapsed())
    };
    Ok(within(client, connect)??)
}
