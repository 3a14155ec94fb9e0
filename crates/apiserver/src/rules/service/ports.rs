//! The ports of a Service, one by one and among each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_headless, kind};
use crate::invalid::{FieldError, Problem};
use crate::rules::{field, metadata, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// What is wrong with the ports.
pub(super) fn validate(service: &Value) -> Vec<FieldError> {
    let ports = field::list(service, "spec.ports");
    let mut wrong = Vec::new();
    if ports.is_empty() && !is_headless(service) && kind(service) != "ExternalName" {
        wrong.push(FieldError::required("spec.ports", ""));
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        wrong.extend(name(port, &path, ports.len() > 1, &mut seen));
        wrong.extend(single(port, &path));
    }
    wrong
}

/// What is wrong with node ports that the type does not have, and with ports that are there twice.
pub(super) fn validate_together(service: &Value) -> Vec<FieldError> {
    let ports = field::list(service, "spec.ports");
    let mut wrong = Vec::new();
    if kind(service) == "ClusterIP" {
        let with_node_port =
            ports.iter().enumerate().filter(|(_, port)| field::number(port, "nodePort") != 0);
        wrong.extend(with_node_port.map(|(index, _)| {
            let detail = "may not be used when `type` is 'ClusterIP'";
            FieldError::forbidden(format!("spec.ports[{index}].nodePort"), detail)
        }));
    }
    wrong.extend(node_port_twins(ports));
    wrong.extend(port_twins(ports));
    wrong
}

/// What is wrong with a port number.
pub(super) fn number(path: &str, port: i64) -> Option<FieldError> {
    (!(1..=65535).contains(&port)).then(|| FieldError::invalid(path, port, PORT_RANGE))
}

fn name<'a>(port: &'a Value, path: &str, required: bool, seen: &mut BTreeSet<&'a str>) -> Vec<FieldError> {
    let path = format!("{path}.name");
    match field::text(port, "name") {
        "" if required => vec![FieldError::required(path, "")],
        "" => Vec::new(),
        name => {
            let mut wrong: Vec<_> = metadata::complaints(&path, name, names::dns_label(name)).collect();
            if !seen.insert(name) {
                wrong.push(FieldError::duplicate(path, name));
            }
            wrong
        }
    }
}

fn single(port: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong: Vec<FieldError> =
        number(&format!("{path}.port"), field::number(port, "port")).into_iter().collect();
    match field::text(port, "protocol") {
        "" => wrong.push(FieldError::required(format!("{path}.protocol"), "")),
        protocol if !PROTOCOLS.contains(&protocol) => {
            wrong.push(FieldError::not_supported(format!("{path}.protocol"), protocol, &PROTOCOLS));
        }
        _ => {}
    }
    wrong.extend(target(port, &format!("{path}.targetPort")));
    if let Some(protocol) = field::at(port, "appProtocol").and_then(Value::as_str) {
        let path = format!("{path}.appProtocol");
        wrong.extend(metadata::complaints(&path, protocol, names::label_key(protocol)));
    }
    wrong
}

fn target(port: &Value, path: &str) -> Vec<FieldError> {
    match field::at(port, "targetPort") {
        Some(Value::String(name)) => metadata::complaints(path, name, names::port_name(name)).collect(),
        _ => number(path, field::number(port, "targetPort")).into_iter().collect(),
    }
}

/// The same number may be opened for TCP and for UDP, as DNS needs it.
fn node_port_twins(ports: &[Value]) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let number = field::number(port, "nodePort");
        if number != 0 && !seen.insert((field::text(port, "protocol"), number)) {
            wrong.push(FieldError::duplicate(format!("spec.ports[{index}].nodePort"), number));
        }
    }
    wrong
}

fn port_twins(ports: &[Value]) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (field::text(port, "protocol"), field::number(port, "port"));
        if !seen.insert((protocol, number)) {
            let problem = Problem::DuplicateStruct(internal(protocol, number));
            wrong.push(FieldError::new(format!("spec.ports[{index}]"), problem, ""));
        }
    }
    wrong
}

/// A port as the server shows its internal struct: all fields of it, in their order.
fn internal(protocol: &str, number: i64) -> String {
    let protocol = Value::from(protocol);
    format!(
        r#"{{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
    )
}
