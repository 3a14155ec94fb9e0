//! The embedded API server against a real one: the same random requests to both, and the same answers and events expected.
//!
//! A seed gives the requests, one after the other; what they refer to (resource versions, uids) is taken from the answers of
//! the server they go to. Answers and watch streams are compared after everything that no two servers have in common has
//! been given a name: uids, versions, times, addresses. Where they differ the embedded server is wrong.

#![allow(clippy::unwrap_used, reason = "tests panic")]
#![allow(clippy::print_stdout, reason = "what could not be compared is said")]

mod generate;
mod kinds;
mod normalize;
mod side;

use serde_json::Value;
use tombolo_apiserver::Options;
use tombolo_testkit::{Cluster, real_only};

use crate::generate::{Action, Generator, Operation};
use crate::kinds::KINDS;
use crate::side::{NO_ANSWER, Side};

/// Enough that every kind meets every operation.
const OPERATIONS: usize = 150;
const SEEDS: std::ops::Range<u64> = 0..5;

/// The namespaces where everything happens.
const NAMESPACES: [&str; 2] = ["arena", "backstage"];

/// Sends the requests of a seed to both and returns where their answers differ. A request that only one of them accepts ends
/// it: after that they hold different things.
async fn run(seed: u64, operations: usize) -> Vec<String> {
    let embedded = Cluster::from(&tombolo_apiserver::Cluster::new(Options::named("embedded")));
    embedded.define(&tombolo_api::crd::crds()).await;
    // Nobody else may write: controllers would change what depends on others whenever they get to it.
    let real = Cluster::bare(Options::named("real"));
    real.define(&tombolo_api::crd::crds()).await;
    let (mut embedded, mut real) = (Side::new(&embedded).await, Side::new(&real).await);
    let (mut generator, mut found) = (Generator::new(seed), Vec::new());
    for number in 0..operations {
        let operation = generator.next();
        let answers = (embedded.perform(&operation).await, real.perform(&operation).await);
        if answers.1.code == NO_ANSWER && may_panic(&operation) {
            println!("seed {seed}, {number}: the real server did not answer {operation}");
            continue;
        }
        if answers.0 != answers.1 {
            let (codes, what) =
                ((answers.0.code, answers.1.code), difference(&answers.0.body, &answers.1.body));
            found.push(format!("seed {seed}, {number}: {operation}\nembedded and real: {codes:?}\n{what}\n"));
            if codes.0 != codes.1 {
                return found;
            }
        }
    }
    for (place, kind) in KINDS.iter().enumerate() {
        let told = (embedded.events(place).await, real.events(place).await);
        for (watch, (embedded, real)) in told.0.iter().zip(&told.1).enumerate() {
            let what = format!("seed {seed}, watch {watch} of {}", kind.plural);
            let pairs = embedded.iter().zip(real).enumerate().filter(|(_, pair)| pair.0 != pair.1);
            found.extend(pairs.map(|(number, (embedded, real))| {
                format!("{what}, event {number}: {}\n", difference(embedded, real))
            }));
            if embedded.len() != real.len() {
                found.push(format!("{what}: {:?} events\n", (embedded.len(), real.len())));
            }
        }
    }
    found
}

/// The real server panics where a Service that came to be through its status, and so without an address, becomes an
/// ExternalName. Whether the other one refused it as well shows later, in what both have.
fn may_panic(operation: &Operation) -> bool {
    KINDS[operation.kind].plural == "services"
        && matches!(operation.action, Action::Update { .. } | Action::Patch { .. })
}

/// The same for many seeds.
async fn agree(seeds: std::ops::Range<u64>, operations: usize) {
    let mut found = Vec::new();
    for seed in seeds {
        found.extend(run(seed, operations).await);
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// Where two values differ, the embedded one first.
fn difference(embedded: &Value, real: &Value) -> String {
    let mut found = Vec::new();
    walk(String::new(), embedded, real, &mut found);
    found.join("\n")
}

fn walk(path: String, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let empty = Value::Null;
                let (a, b) = (one.get(key).unwrap_or(&empty), other.get(key).unwrap_or(&empty));
                walk(format!("{path}/{key}"), a, b, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (place, (a, b)) in one.iter().zip(other).enumerate() {
                walk(format!("{path}/{place}"), a, b, found);
            }
        }
        _ if one != other => found.push(format!("{path}: {one}, real: {other}")),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_answer_the_same_to_random_requests_and_tell_watchers_the_same() {
    real_only!("there is nothing to compare with");
    agree(SEEDS, OPERATIONS).await;
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes FROM, SEEDS and OPERATIONS"]
async fn many() {
    let from = number("FROM", 0);
    let operations = usize::try_from(number("OPERATIONS", 300)).unwrap();
    agree(from..from + number("SEEDS", 100), operations).await;
}
