//! Tables of what lies behind and in front of Services: endpoints, slices, ingresses, policies.

use jiff::Timestamp;
use serde_json::Value;

use super::plain::{first_three, row, text_or};
use super::{Column, Printer, service};
use crate::rules::{field, selector};

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        kind: "Endpoints",
        columns: &[Column::NAME, Column::text("Endpoints", "The addresses and ports."), Column::AGE],
        cells: |object, now| row(object, now, [endpoints(object).into()]),
    },
    Printer {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        columns: &[
            Column::NAME,
            Column::text("AddressType", "The type of the addresses."),
            Column::text("Ports", "The ports of every endpoint."),
            Column::text("Endpoints", "The addresses."),
            Column::AGE,
        ],
        cells: slice,
    },
    Printer {
        group: "networking.k8s.io",
        kind: "Ingress",
        columns: &[
            Column::NAME,
            Column::text("Class", "The class that decides who serves the ingress."),
            Column::text("Hosts", "The hosts that the rules are for."),
            Column::text("Address", "The addresses by which the ingress is reached."),
            Column::text("Ports", "The ports that are open."),
            Column::AGE,
        ],
        cells: ingress,
    },
    Printer {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        columns: &[
            Column::NAME,
            Column::text("Pod-Selector", "The pods that the policy is for."),
            Column::AGE,
        ],
        cells: |object, now| row(object, now, [selected(object, "spec.podSelector")]),
    },
];

/// A label selector as text, or `<none>`.
pub(super) fn selected(object: &Value, path: &str) -> Value {
    match selector::text(field::at(object, path)) {
        text if text.is_empty() => "<none>".into(),
        text => text.into(),
    }
}

fn endpoints(object: &Value) -> String {
    let subsets = field::list(object, "subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    first_three(&subsets.iter().flat_map(subset).collect::<Vec<_>>())
}

fn subset(subset: &Value) -> Vec<String> {
    let ips = || field::list(subset, "addresses").iter().map(|address| field::text(address, "ip"));
    let ports = field::list(subset, "ports");
    if ports.is_empty() {
        return ips().map(str::to_owned).collect();
    }
    ports.iter().flat_map(|port| ips().map(|ip| joined(ip, field::number(port, "port")))).collect()
}

fn joined(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<_> = field::list(slice, "ports").iter().map(slice_port).collect();
    let endpoints = field::list(slice, "endpoints").iter();
    let addresses: Vec<_> =
        endpoints.flat_map(|one| field::texts(one, "addresses")).map(str::to_owned).collect();
    let kind = field::text(slice, "addressType").into();
    row(slice, now, [kind, or_unset(&ports), or_unset(&addresses)])
}

fn slice_port(port: &Value) -> String {
    match (field::at(port, "port"), field::at(port, "name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    }
}

fn or_unset(all: &[String]) -> Value {
    match first_three(all) {
        text if text.is_empty() => "<unset>".into(),
        text => text.into(),
    }
}

fn ingress(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let address = service::ingress(ingress).into_iter().collect::<Vec<_>>().join(",");
    let ports = if field::list(ingress, "spec.tls").is_empty() { "80" } else { "80, 443" };
    let class = text_or(ingress, "spec.ingressClassName", "<none>");
    row(ingress, now, [class, hosts(ingress).into(), address.into(), ports.into()])
}

/// The rest is counted by rules, not by hosts.
fn hosts(ingress: &Value) -> String {
    let rules = field::list(ingress, "spec.rules");
    let named = rules.iter().enumerate().filter(|(_, rule)| !field::text(rule, "host").is_empty());
    let three: Vec<_> = named.take(3).map(|(index, rule)| (index, field::text(rule, "host"))).collect();
    let hosts = three.iter().map(|(_, host)| *host).collect::<Vec<_>>().join(",");
    match three.last() {
        None => "*".to_owned(),
        Some((last, _)) if three.len() == 3 && last + 1 < rules.len() => {
            format!("{hosts} + {} more...", rules.len() - 3)
        }
        Some(_) => hosts,
    }
}
