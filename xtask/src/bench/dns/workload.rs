//! The names that all servers hold, and the questions they get.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Services per namespace, as in the server with made-up names.
const PER_NAMESPACE: u32 = 100;

pub(super) fn name(number: u32) -> String {
    format!("s{}.n{}.svc.clusterset.local", number % PER_NAMESPACE, number / PER_NAMESPACE)
}

/// A sequence without a pattern that repeats with every run.
pub(super) fn scattered(step: u32, below: u32) -> u32 {
    ((u64::from(step.wrapping_mul(2_654_435_761)) * u64::from(below)) >> 32) as u32
}

/// Writes `zone` and `queries` and returns where the latter are: 45 % A, 30 % AAAA of which half have none, 15 % misses of
/// the search path, 10 % SRV.
pub(super) fn write(dir: &Path, names: u32) -> io::Result<PathBuf> {
    let mut zone =
        "$ORIGIN clusterset.local.\n$TTL 5\n@ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\n\
                    ns.dns A 127.0.0.1\n"
            .to_owned();
    for number in 0..names {
        let owner = name(number);
        let v4 = std::net::Ipv4Addr::from(0x0a00_0000 + number);
        let _ = writeln!(zone, "{owner}. A {v4}\n_http._tcp.{owner}. SRV 0 100 80 {owner}.");
        if number.is_multiple_of(2) {
            let _ = writeln!(zone, "{owner}. AAAA fd00::{:x}:{:x}", number >> 16, number & 0xffff);
        }
    }
    std::fs::write(dir.join("zone"), zone)?;
    let mut queries = String::new();
    for step in 0..200_000 {
        let owner = name(scattered(step, names));
        let _ = match scattered(step ^ 0x5555, 100) {
            0..45 => writeln!(queries, "{owner} A"),
            45..75 => writeln!(queries, "{owner} AAAA"),
            75..90 => writeln!(queries, "{owner}.svc.clusterset.local A"),
            _ => writeln!(queries, "_http._tcp.{owner} SRV"),
        };
    }
    let path = dir.join("queries");
    std::fs::write(&path, queries)?;
    Ok(path)
}
