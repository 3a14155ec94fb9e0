//! How much a name costs: memory and time for very many. Run by `cargo xtask bench dns`, optimised.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests panic and report")]
#![allow(unsafe_code, reason = "counting octets needs an allocator of our own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{from_value, json};
use tombolo_api::mcs::ServiceImport;
use tombolo_dns::{Reader, Realm, Zones, key};

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Counts what is held, with the eight octets that an allocator adds to each piece.
struct Counting;

// SAFETY: passes everything on to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() + 8, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() + 8, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn import(number: usize) -> ServiceImport {
    let v4 = std::net::Ipv4Addr::from(0x0a00_0000 + number as u32);
    from_value(json!({
        "metadata": {"name": format!("s{}", number % 100), "namespace": format!("n{}", number / 100)},
        "spec": {"type": "ClusterSetIP", "ips": [v4], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}
    }))
    .unwrap()
}

/// Loads so many services. Returns octets per service without its name, and seconds.
fn load(count: usize) -> (f64, f64) {
    let imports: Vec<ServiceImport> = (0..count).map(import).collect();
    let keys: Vec<Vec<u8>> = imports
        .iter()
        .map(|i| key(i.metadata.namespace.as_deref().unwrap(), i.metadata.name.as_deref().unwrap()).unwrap())
        .collect();
    let names: usize = keys.iter().map(Vec::len).sum();
    let (zones, mut reader) = (Zones::new(), Reader::default());
    let (before, begin) = (HELD.load(Ordering::Relaxed), Instant::now());
    for (import, key) in imports.iter().zip(&keys) {
        zones.put(Realm::Mcs, key, reader.mcs(import, &[], 200).service);
    }
    let (took, held) = (begin.elapsed().as_secs_f64(), HELD.load(Ordering::Relaxed) - before);
    assert_eq!(zones.services(Realm::Mcs), count);
    ((held - names) as f64 / count as f64, took)
}

#[test]
fn a_service_costs_little_more_than_its_name() {
    let (octets, _) = load(20_000);
    // 200 is for a name. A service has four (itself, its port, the protocol, the address) and stays below that with all.
    assert!(octets < 200.0, "{octets} octets per service");
}

#[test]
#[ignore = "for cargo xtask bench dns: takes gigabytes"]
fn a_million() {
    let (octets, seconds) = load(1_000_000);
    println!("| 1,000,000 services: table, per service without its name | {octets:.0} octets |");
    println!("| 1,000,000 services: objects to table | {seconds:.2} s |");
}
