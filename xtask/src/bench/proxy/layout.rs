//! The same Services as kube-proxy's nftables mode lays them out: a chain and an anonymous map for each, through `nft -f`.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::sample::Sample;
use super::{Charged, ENDPOINTS, Failure, cpu, endpoint, make_namespace, shell, vip};

pub(super) struct Times {
    pub(super) full: Duration,
    pub(super) cpu: Duration,
    pub(super) change: Duration,
}

pub(super) fn measure(services: u32) -> Result<Times, Failure> {
    make_namespace()?;
    let file = std::env::temp_dir().join(format!("tombolo-bench-{}.nft", std::process::id()));
    let before = cpu(Charged::Children)?;
    let full = load(&file, &text(services)?)?;
    let spent = cpu(Charged::Children)? - before;
    let mut changes = Sample::default();
    for turn in 0..5_u32 {
        let service = turn * 37 % services;
        let mut change = format!("flush chain ip bench {0}\nadd rule ip bench {0} ", chain(service));
        choose(&mut change, service, turn + 1)?;
        changes.add(load(&file, &change)?);
    }
    std::fs::remove_file(&file)?;
    shell("ip netns del bench")?;
    Ok(Times { full, cpu: spent, change: changes.quantile(0.5) })
}

fn load(file: &std::path::Path, text: &str) -> Result<Duration, Failure> {
    std::fs::write(file, text)?;
    let begin = Instant::now();
    let status = Command::new("ip").args(["netns", "exec", "bench", "nft", "-f"]).arg(file).status()?;
    let took = begin.elapsed();
    if status.success() { Ok(took) } else { Err("nft did not take the rules".into()) }
}

fn chain(service: u32) -> String {
    format!("service-ABCDEFGH-bench/service-{service}/tcp/http")
}

fn choose(out: &mut String, service: u32, offset: u32) -> std::fmt::Result {
    write!(out, "meta l4proto tcp dnat ip to numgen random mod {ENDPOINTS} map {{ ")?;
    for number in 0..ENDPOINTS {
        write!(out, "{number} : {} . 8080, ", endpoint(service, number, ENDPOINTS, offset))?;
    }
    writeln!(out, "}}")
}

fn text(services: u32) -> Result<String, std::fmt::Error> {
    let mut out = String::from(
        "table ip bench {\n map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }\n \
         chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }\n \
         chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }\n",
    );
    for service in 0..services {
        write!(out, " chain {} {{ ", chain(service))?;
        choose(&mut out, service, 0)?;
        writeln!(out, " }}")?;
    }
    out.push_str("}\nadd element ip bench service-ips {\n");
    for service in 0..services {
        writeln!(out, "{} . tcp . 80 : goto {},", vip(service), chain(service))?;
    }
    out.push_str("}\n");
    Ok(out)
}
