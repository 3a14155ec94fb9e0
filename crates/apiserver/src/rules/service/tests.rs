//! What becomes of a Service that is written.

mod addresses;
mod changes;
mod creation;
mod mistakes;

use serde_json::{Value, json};

use super::*;
use crate::invalid::FieldError;

fn single_stack() -> Network {
    Network { service_cidrs: vec!["10.0.0.0/24".parse().expect("a network")], node_ports: 30000..=32767 }
}

fn dual_stack() -> Network {
    let cidrs = ["10.0.0.0/24", "fd00::/112"].map(|cidr| cidr.parse().expect("a network"));
    Network { service_cidrs: cidrs.to_vec(), node_ports: 30000..=32767 }
}

fn object(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "a"}, "spec": spec})
}

fn one_port() -> Value {
    json!([{"port": 80}])
}

/// Lets the pool choose the first free place of every range.
fn lowest(_: u64) -> u64 {
    0
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The whole way of a write, as the server goes it.
fn write(
    pool: &mut Addresses,
    old: Option<&Value>,
    spec: Value,
    gates: &Features,
) -> Result<Value, Vec<String>> {
    let mut new = object(spec);
    let network = pool.network().clone();
    default(&mut new, gates);
    match old {
        None => prepare_create(&mut new, gates, &network),
        Some(old) => prepare_update(old, &mut new, gates, &network),
    }
    .map_err(|wrong| texts(&wrong))?;
    let wrong = validate(&new, old);
    if !wrong.is_empty() {
        return Err(texts(&wrong));
    }
    allocate(pool, old, &mut new, &mut lowest).map_err(|wrong| texts(&wrong))?;
    Ok(new)
}

fn create(spec: Value) -> Result<Value, Vec<String>> {
    write(&mut Addresses::new(single_stack()), None, spec, &Features::default())
}

fn created(spec: Value) -> Value {
    create(spec).expect("a good service")
}

/// Creates a service and replaces it in the same pool.
fn update(before: Value, after: Value) -> Result<(Value, Value, Addresses), Vec<String>> {
    let mut pool = Addresses::new(single_stack());
    let old = write(&mut pool, None, before, &Features::default())?;
    let new = write(&mut pool, Some(&old), after, &Features::default())?;
    Ok((old, new, pool))
}

impl Addresses {
    /// Takes a port, to see whether it is free.
    fn take_port_for_test(&mut self, port: i64) -> Result<u16, String> {
        let mut service = object(
            json!({"type": "NodePort", "ipFamilies": ["IPv4"], "ports": [{"port": 1, "nodePort": port}]}),
        );
        allocate(self, None, &mut service, &mut lowest).map_err(|wrong| wrong[0].detail.clone())?;
        u16::try_from(port).map_err(|error| error.to_string())
    }
}
