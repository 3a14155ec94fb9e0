//! From a pod to an endpoint: its addresses, its ports, whether traffic may go there.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Node, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::super::pod_state;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The kind of addresses a slice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// The families of a service; the first one where the server names none.
    pub(super) fn of(service: &Service) -> Vec<Self> {
        let named = service.spec.as_ref().and_then(|spec| spec.ip_families.as_ref());
        let named = named.into_iter().flatten().filter_map(|name| Self::parse(name));
        let mut families: Vec<Self> = named.collect();
        if families.is_empty() {
            families.push(Self::V4);
        }
        families
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn is_of(self, address: &str) -> bool {
        match address.parse() {
            Ok(IpAddr::V4(_)) => self == Self::V4,
            Ok(IpAddr::V6(_)) => self == Self::V6,
            Err(_) => false,
        }
    }
}

/// What `pod` is to `service` in one family; nothing when it is not to be listed.
pub(super) fn endpoint(
    service: &Service,
    pod: &Pod,
    node: Option<&Node>,
    family: Family,
) -> Option<Endpoint> {
    let unready = publishes_unready(service);
    if pod_state::is_finished(pod) || (node.is_none() && !unready) {
        return None;
    }
    let address = pod_state::addresses(pod).into_iter().find(|address| family.is_of(address))?;
    let (serving, terminating) = (pod_state::is_ready(pod), pod_state::is_terminating(pod));
    Some(Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(unready || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: pod_state::node(pod).map(str::to_owned),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: pod.metadata.name.clone(),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        zone: node.and_then(|node| node.labels().get(ZONE).cloned()),
        ..Endpoint::default()
    })
}

fn publishes_unready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let here = spec.subdomain.as_deref() == Some(service.name_any().as_str());
    spec.hostname.clone().filter(|name| here && !name.is_empty())
}

/// The service's ports as this pod has them. A port whose name the pod does not know is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let wanted = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    let mut found: Vec<EndpointPort> = wanted
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(number(port, pod)?),
                protocol: Some(protocol(port.protocol.as_deref()).to_owned()),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    found.sort_by(|a, b| (&a.name, a.port, &a.protocol).cmp(&(&b.name, b.port, &b.protocol)));
    found
}

fn protocol(named: Option<&str>) -> &str {
    named.filter(|name| !name.is_empty()).unwrap_or("TCP")
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => named(pod, name, protocol(port.protocol.as_deref())),
    }
}

fn named(pod: &Pod, name: &str, wanted: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let stays = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(stays);
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let mut fitting = ports
        .filter(|port| port.name.as_deref() == Some(name) && protocol(port.protocol.as_deref()) == wanted);
    fitting.next().map(|port| port.container_port)
}
