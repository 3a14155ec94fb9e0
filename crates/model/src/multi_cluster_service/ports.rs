//! The names of ports on their way from one Service to another.
//!
//! Clients call a Service by a port's number, but a service proxy ties slices to ports by name, and a slice has the names of
//! the Service it was made for. Services that are used as they are may name the same port otherwise than the template at
//! the hub. So slices travel with the names of the template: the provider translates its own names into those, and the
//! consumer those into its own.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;
use tombolo_api::service::HEADLESS;

/// The ports of a slice behind the Service `from`, with the names that the Service `to` has for the same numbers. One that
/// has no counterpart keeps its name, unless another port has that now.
pub fn translate(given: &[EndpointPort], from: &Service, to: &Service) -> Vec<EndpointPort> {
    let counterpart = |port: &EndpointPort| {
        let here = ports(from).find(|one| (name(&one.name), protocol(&one.protocol)) == key(port))?;
        let there = ports(to)
            .find(|one| (one.port, protocol(&one.protocol)) == (here.port, protocol(&here.protocol)))?;
        Some(name(&there.name).to_owned())
    };
    let known: Vec<Option<String>> = given.iter().map(counterpart).collect();
    let mut taken: BTreeSet<String> = known.iter().flatten().cloned().collect();
    let translated = |(port, known): (&EndpointPort, Option<String>)| match known {
        // As it was, down to whether an empty name is said.
        Some(known) if known == name(&port.name) => Some(port.clone()),
        Some(known) => Some(EndpointPort { name: Some(known), ..port.clone() }),
        None => taken.insert(name(&port.name).to_owned()).then(|| port.clone()),
    };
    given.iter().zip(known).filter_map(translated).collect()
}

/// Whether a service proxy gives a Service's traffic to any of these ports of a slice. A slice without ports, and one of a
/// Service without an address, is for whoever asks for its endpoints.
pub fn serves(given: &[EndpointPort], service: &Service) -> bool {
    let is_headless = service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some(HEADLESS));
    let is_called = |port: &EndpointPort| {
        ports(service).any(|one| (name(&one.name), protocol(&one.protocol)) == key(port))
    };
    given.is_empty() || is_headless || given.iter().any(is_called)
}

/// Whether two Services have the same ports, as far as their names, numbers and protocols go.
pub fn same_ports(one: &Service, other: &Service) -> bool {
    let all = |service: &Service| -> BTreeSet<(String, i32, String)> {
        let port = |port: &ServicePort| {
            (name(&port.name).to_owned(), port.port, protocol(&port.protocol).to_owned())
        };
        ports(service).map(port).collect()
    };
    all(one) == all(other)
}

fn ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    service.spec.iter().flat_map(|spec| spec.ports.iter().flatten())
}

fn key(port: &EndpointPort) -> (&str, &str) {
    (name(&port.name), protocol(&port.protocol))
}

fn name(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or_default()
}

fn protocol(protocol: &Option<String>) -> &str {
    protocol.as_deref().unwrap_or("TCP")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    /// `web:80` or `web:80/UDP`; an empty name is none.
    fn service(ports: &[&str]) -> Service {
        let port = |text: &&str| {
            let (name, rest) = text.split_once(':').unwrap();
            let (number, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
            let mut port = json!({"port": number.parse::<i32>().unwrap(), "protocol": protocol});
            if !name.is_empty() {
                port["name"] = json!(name);
            }
            port
        };
        from_value(json!({"spec": {"ports": ports.iter().map(port).collect::<Vec<Value>>()}})).unwrap()
    }

    /// `web:8080`, the number being that of the pods.
    fn given(ports: &[&str]) -> Vec<EndpointPort> {
        let specs = service(ports).spec.unwrap().ports.unwrap();
        let port = |port: ServicePort| EndpointPort {
            name: Some(port.name.unwrap_or_default()),
            port: Some(port.port),
            protocol: port.protocol,
            app_protocol: None,
        };
        specs.into_iter().map(port).collect()
    }

    #[test]
    fn ports_are_called_what_the_other_service_calls_the_same_number() {
        let cases: [[&[&str]; 4]; 8] = [
            [&["http:8080"], &["http:80"], &["http:80"], &["http:8080"]],
            [&["http:8080"], &["http:80"], &["web:80"], &["web:8080"]],
            [&[":8080"], &[":80"], &["web:80"], &["web:8080"]],
            [&["web:8080"], &["web:80"], &[":80"], &[":8080"]],
            // Two that are called crosswise.
            [&["a:1", "b:2"], &["a:80", "b:81"], &["b:80", "a:81"], &["b:1", "a:2"]],
            // Numbers differ: what is called the same is meant.
            [&["http:8080"], &["http:9"], &["http:80"], &["http:8080"]],
            // A name that is taken by the same number is no other port's.
            [&["web:1", "http:2"], &["web:80", "http:9"], &["http:80"], &["http:1"]],
            [
                &["dns:53", "dns-tcp:53"],
                &["dns:53/UDP", "dns-tcp:53"],
                &["d:53/UDP", "t:53"],
                &["dns:53", "t:53"],
            ],
        ];
        for [slice, from, to, expected] in cases {
            assert_eq!(
                translate(&given(slice), &service(from), &service(to)),
                given(expected),
                "{slice:?} {to:?}"
            );
        }
    }

    #[test]
    fn a_slice_serves_a_service_that_has_one_of_its_ports() {
        assert!(serves(&given(&["http:8080"]), &service(&["http:80"])));
        assert!(!serves(&given(&["http:8080"]), &service(&["web:80"])));
        assert!(serves(&[], &service(&["web:80"])));
        let mut headless = service(&["web:80"]);
        headless.spec.as_mut().unwrap().cluster_ip = Some(HEADLESS.to_owned());
        assert!(serves(&given(&["http:8080"]), &headless));
    }
}
