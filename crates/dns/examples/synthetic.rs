//! A server with as many made-up names as wanted, for benchmarks: `synthetic PORT NAMES CHANGES_PER_SECOND`.
//!
//! Everything but the way to an API server is real. The names are those of `cargo xtask bench dns`; changes begin as the JSON
//! of a watch event and go through the same reader as events do, on the cores the process may use.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for developers")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo_api::mcs::ServiceImport;
use tombolo_apiserver::{Cluster, Options};
use tombolo_dns::{Config, Dns, Reader, Realm, Zones, key};

const PER_NAMESPACE: u32 = 100;

/// A service as a watch tells of it; `turn` makes it differ from before.
fn event(number: u32, turn: u32) -> String {
    let (namespace, name) = (number / PER_NAMESPACE, number % PER_NAMESPACE);
    let v4 = std::net::Ipv4Addr::from(0x0a00_0000 + number + (turn % 2) * 0x0080_0000);
    let v6 = if number.is_multiple_of(2) {
        format!(",\"fd00::{:x}:{:x}\"", number >> 16, number & 0xffff)
    } else {
        String::new()
    };
    format!(
        "{{\"apiVersion\":\"multicluster.x-k8s.io/v1beta1\",\"kind\":\"ServiceImport\",\"metadata\":{{\"name\":\"s{name}\",\
         \"namespace\":\"n{namespace}\",\"resourceVersion\":\"{turn}\",\"uid\":\"7ba3cf3e-2c30-4f84-a4c1-7c8d46b2f2e5\"}},\
         \"spec\":{{\"type\":\"ClusterSetIP\",\"ips\":[\"{v4}\"{v6}],\"ports\":[{{\"name\":\"http\",\"protocol\":\"TCP\",\
         \"port\":80}}]}}}}"
    )
}

fn apply(zones: &Zones, reader: &mut Reader, event: &str) {
    let import: ServiceImport = serde_json::from_str(event).unwrap();
    let read = reader.mcs(&import, &[], 200);
    let place = key(import.metadata.namespace.as_deref().unwrap(), import.metadata.name.as_deref().unwrap());
    zones.put(Realm::Mcs, &place.unwrap(), read.service);
}

fn change(zones: Arc<Zones>, mut reader: Reader, names: u32, rate: u32) {
    let pause = Duration::from_millis(1);
    let (begin, mut done) = (Instant::now(), 0_u32);
    loop {
        std::thread::sleep(pause);
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        while done < due {
            let number = done.wrapping_mul(2_654_435_761) % names;
            apply(&zones, &mut reader, &event(number, done / names + 1));
            done += 1;
        }
        zones.advance(begin.elapsed().as_secs() as u32);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>().unwrap());
    let (port, names, rate) =
        (arguments.next().unwrap(), arguments.next().unwrap(), arguments.next().unwrap());
    let cluster = Cluster::new(Options::named("bench"));
    for definition in tombolo_api::crd::crds() {
        let _ = kube::Api::all(cluster.client()).create(&Default::default(), &definition).await.unwrap();
    }
    let config = Config {
        listen: vec![([127, 0, 0, 1], u16::try_from(port).unwrap()).into()],
        workers: 1,
        rate_limit: 0,
        ..Config::default()
    };
    let dns = Dns::bind(config, cluster.client()).unwrap();
    let (zones, mut reader) = (dns.answerer().zones, Reader::default());
    for namespace in 0..names.div_ceil(PER_NAMESPACE) {
        zones.put_namespace(&format!("n{namespace}"), true);
    }
    for number in 0..names {
        apply(&zones, &mut reader, &event(number, 0));
    }
    println!("ready");
    if rate > 0 {
        std::thread::spawn(move || change(zones, reader, names, rate));
    }
    dns.run(std::future::pending()).await.unwrap();
}
