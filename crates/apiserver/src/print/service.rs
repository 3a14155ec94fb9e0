//! The table of Services.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Printer, age, plain};
use crate::rules::field;

pub(super) const PRINTERS: &[Printer] = &[Printer {
    group: "",
    kind: "Service",
    columns: &[
        Column::NAME,
        Column::text("Type", "How the service is offered."),
        Column::text("Cluster-IP", "The address inside the cluster."),
        Column::text("External-IP", "The addresses by which the service is reached from outside."),
        Column::text("Port(s)", "The ports, with their node ports and protocols."),
        Column::AGE,
        Column::text("Selector", "The labels of the pods behind the service.").wide(),
    ],
    cells,
}];

fn cells(service: &Value, now: Timestamp) -> Vec<Value> {
    let cluster_ip = field::texts(service, "spec.clusterIPs").first().copied().unwrap_or("<none>");
    vec![
        plain::name(service),
        field::text(service, "spec.type").into(),
        cluster_ip.into(),
        external(service).into(),
        ports(service).into(),
        age::of(service, now),
        plain::labels(service, "spec.selector"),
    ]
}

fn external(service: &Value) -> String {
    let mut addresses = Vec::new();
    let missing = match field::text(service, "spec.type") {
        "ClusterIP" | "NodePort" => "<none>",
        "LoadBalancer" => {
            addresses.extend(ingress(service));
            "<pending>"
        }
        "ExternalName" => return field::text(service, "spec.externalName").to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    addresses.extend(field::texts(service, "spec.externalIPs"));
    if addresses.is_empty() { missing.to_owned() } else { addresses.join(",") }
}

/// The addresses of a load balancer, each once, sorted; a name stands in where there is no address.
pub(super) fn ingress(object: &Value) -> BTreeSet<&str> {
    let points = field::list(object, "status.loadBalancer.ingress").iter();
    points
        .map(|point| match field::text(point, "ip") {
            "" => field::text(point, "hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect()
}

fn ports(service: &Value) -> String {
    let ports: Vec<_> = field::list(service, "spec.ports").iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn port(port: &Value) -> String {
    let (number, protocol) = (field::number(port, "port"), field::text(port, "protocol"));
    match field::number(port, "nodePort") {
        node_port @ 1.. => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}
