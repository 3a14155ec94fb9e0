//! What a Service asks of its load balancer, read once and checked.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tombolo_api::loadbalancer::{FailStep, Service};
use tombolo_api::service::{IpFamily, Protocol, SessionAffinity};
use tombolo_api::tombolo::{
    ADDRESS_SHARING_KEY_ANNOTATION, FAIL_ANNOTATION, LOAD_BALANCER_ADDRESSES_ANNOTATION,
    REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION,
};

use crate::address::family_of;
use crate::complaint::Complaint;

/// An address that a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub text: String,
    /// `None`: the text is no address that clients can connect to.
    pub address: Option<IpAddr>,
}

/// What a Service asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Those the API server settled on, in its order.
    pub families: Vec<IpFamily>,
    /// `ipFamilyPolicy: RequireDualStack`.
    pub dual_stack_required: bool,
    /// In the order of the Service, none twice.
    pub ports: Vec<(Protocol, u16)>,
    /// `sessionAffinity: ClientIP`.
    pub sticky: bool,
    /// `loadBalancerSourceRanges`, as they are written.
    pub source_ranges: Vec<String>,
    /// `loadBalancerIP` or the annotation `tombolo.dev/load-balancer-addresses`.
    pub asked: Vec<Asked>,
    /// `externalTrafficPolicy: Local`.
    pub local: bool,
    /// `allocateLoadBalancerNodePorts` is not false.
    pub node_ports: bool,
    /// The field, or the annotation where the server does not have the field.
    pub required: Vec<String>,
    pub sharing_key: Option<String>,
    pub fail: BTreeSet<FailStep>,
    /// What could not be read.
    pub complaints: Vec<Complaint>,
}

impl Wish {
    pub fn read(service: &Service) -> Wish {
        let spec = &service.spec.core;
        let mut complaints = Vec::new();
        let policy = spec.ip_family_policy.as_deref();
        Wish {
            families: families(service),
            dual_stack_required: policy == Some("RequireDualStack"),
            ports: ports(service),
            sticky: spec.session_affinity.as_deref() == Some(SessionAffinity::ClientIp.as_str()),
            source_ranges: spec.load_balancer_source_ranges.clone().unwrap_or_default(),
            asked: asked(service, &mut complaints),
            local: spec.external_traffic_policy.as_deref() == Some("Local"),
            node_ports: spec.allocate_load_balancer_node_ports != Some(false),
            required: required(service),
            sharing_key: service
                .annotation(ADDRESS_SHARING_KEY_ANNOTATION)
                .map(|key| key.trim().to_owned())
                .filter(|key| !key.is_empty()),
            fail: fail(service, &mut complaints),
            complaints,
        }
    }
}

/// A server that does not resolve families at least gives addresses.
fn families(service: &Service) -> Vec<IpFamily> {
    let spec = &service.spec.core;
    let declared = spec.ip_families.iter().flatten().filter_map(|family| family.parse().ok());
    let addresses = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let derived = addresses.filter_map(|text| text.parse().ok()).map(family_of);
    let mut families: Vec<IpFamily> = Vec::new();
    let declared: Vec<IpFamily> = declared.collect();
    let found = if declared.is_empty() { derived.collect() } else { declared };
    for family in found {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if families.is_empty() { vec![IpFamily::V4] } else { families }
}

fn ports(service: &Service) -> Vec<(Protocol, u16)> {
    let mut ports = Vec::new();
    for port in service.spec.core.ports.iter().flatten() {
        let protocol = port.protocol.as_deref().map_or(Ok(Protocol::Tcp), str::parse);
        let (Ok(protocol), Ok(number)) = (protocol, u16::try_from(port.port)) else { continue };
        if !ports.contains(&(protocol, number)) {
            ports.push((protocol, number));
        }
    }
    ports
}

/// Words of a list in an annotation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn required(service: &Service) -> Vec<String> {
    if !service.spec.required_features.is_empty() {
        return service.spec.required_features.clone();
    }
    let text = service.annotation(REQUIRED_LOAD_BALANCER_FEATURES_ANNOTATION).unwrap_or_default();
    words(text).map(str::to_owned).collect()
}

/// One address per family: a second one is left out. The annotation, which can name both families, goes before the field.
fn asked(service: &Service, complaints: &mut Vec<Complaint>) -> Vec<Asked> {
    let field = service.spec.core.load_balancer_ip.as_deref().unwrap_or_default();
    let annotation = service.annotation(LOAD_BALANCER_ADDRESSES_ANNOTATION).unwrap_or_default();
    let mut asked: Vec<Asked> = Vec::new();
    for text in words(annotation).chain(words(field)) {
        let address = text.parse().ok().filter(|ip: &IpAddr| usable(*ip));
        let family = address.map(family_of);
        let taken = asked.iter().find(|other| family.is_some() && other.address.map(family_of) == family);
        match taken {
            Some(taken) if taken.address == address => {}
            Some(taken) => complaints.push(Complaint::new(
                "the address asked for",
                format!("{} is of the same family as {text}, which is left out", taken.text),
            )),
            None => asked.push(Asked { text: text.to_owned(), address }),
        }
    }
    asked
}

fn usable(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()
}

fn fail(service: &Service, complaints: &mut Vec<Complaint>) -> BTreeSet<FailStep> {
    let text = service.annotation(FAIL_ANNOTATION).unwrap_or_default();
    let mut read = |word: &str| {
        let unknown = |error: tombolo_api::UnknownWord| {
            complaints.push(Complaint::new(FAIL_ANNOTATION, error.to_string()));
        };
        word.parse().map_err(unknown).ok()
    };
    words(text).filter_map(&mut read).collect()
}
