//! What a Service asks of a node: its addresses, ports and policies, read once and checked.
//!
//! An API server has checked all of this, but not every server has every rule, and a proxy must not fail for all Services
//! because one is odd. What makes no sense is left out and complained about.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, Service, ServicePort, ServiceSpec, SessionAffinityConfig,
};
use tombolo_api::service::{HEADLESS, IpFamily, Protocol, SERVICE_PROXY_NAME_LABEL, SessionAffinity};

use super::gathered::Gathered;
use super::ranges::Ranges;
use crate::address::family_of;
use crate::offer::{AFFINITY_SECONDS, affinity_seconds};

/// A Service that has an address.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// One per family at most.
    pub(super) cluster_ips: Vec<IpAddr>,
    pub(super) external_ips: BTreeSet<IpAddr>,
    /// Those that packets arrive with (`ipMode: VIP`).
    pub(super) balancer_ips: BTreeSet<IpAddr>,
    /// What the load balancer says it does not serve (`ingress.ports.error`): an address and a port of it.
    pub(super) unserved: BTreeSet<(IpAddr, Protocol, u16)>,
    pub(super) ports: Vec<Port<'a>>,
    pub(super) internal_local: bool,
    pub(super) external_local: bool,
    pub(super) sticky: Option<Duration>,
    pub(super) ranges: Ranges,
    pub(super) health_check_port: Option<u16>,
}

#[derive(Debug)]
pub(super) struct Port<'a> {
    pub(super) name: &'a str,
    pub(super) protocol: Protocol,
    pub(super) number: u16,
    pub(super) node_port: Option<u16>,
}

impl<'a> Wanted<'a> {
    /// `None` for what has no address, headless Services and names for something outside, and for what another proxy routes.
    pub(super) fn read(service: &'a Service, gathered: &mut Gathered) -> Option<Wanted<'a>> {
        if other_proxy(service).is_some() {
            return None;
        }
        let spec = service.spec.as_ref()?;
        let cluster_ips = cluster_ips(spec, gathered);
        if spec.type_.as_deref() == Some("ExternalName") || cluster_ips.is_empty() {
            return None;
        }
        let families: Vec<IpFamily> = cluster_ips.iter().copied().map(family_of).collect();
        let external_ips =
            addresses("spec.externalIPs", spec.external_ips.iter().flatten(), &families, gathered);
        let is_balancer = spec.type_.as_deref() == Some("LoadBalancer");
        let has_node_ports = is_balancer || spec.type_.as_deref() == Some("NodePort");
        // Without any address for clients from outside, the policy for them means nothing.
        let external_local = (has_node_ports || !external_ips.is_empty())
            && is_local("spec.externalTrafficPolicy", &spec.external_traffic_policy, gathered);
        let wanted = Wanted {
            ports: ports(spec, has_node_ports, gathered),
            internal_local: is_local("spec.internalTrafficPolicy", &spec.internal_traffic_policy, gathered),
            external_local,
            sticky: sticky(spec, gathered),
            balancer_ips: if is_balancer {
                balancer_ips(service, &families, gathered)
            } else {
                BTreeSet::new()
            },
            unserved: unserved(service),
            ranges: Ranges::read(spec.load_balancer_source_ranges.as_deref().unwrap_or_default(), gathered),
            health_check_port: spec
                .health_check_node_port
                .filter(|_| is_balancer && external_local)
                .and_then(number),
            cluster_ips,
            external_ips,
        };
        Some(wanted)
    }

    /// The external addresses of a family.
    pub(super) fn external(&self, family: IpFamily) -> impl Iterator<Item = IpAddr> {
        self.external_ips.iter().copied().filter(move |ip| family_of(*ip) == family)
    }

    /// The load balancer's addresses of a family.
    pub(super) fn balancers(&self, family: IpFamily) -> impl Iterator<Item = IpAddr> {
        self.balancer_ips.iter().copied().filter(move |ip| family_of(*ip) == family)
    }

    /// Those at which the load balancer serves a port.
    pub(super) fn serving(&self, family: IpFamily, port: &Port<'_>) -> impl Iterator<Item = IpAddr> {
        let (protocol, number) = (port.protocol, port.number);
        self.balancers(family).filter(move |ip| !self.unserved.contains(&(*ip, protocol, number)))
    }
}

/// Who routes the Service in place of the node's proxy. The value of the label does not matter, as it does not to kube-proxy.
pub(super) fn other_proxy(service: &Service) -> Option<&str> {
    service.metadata.labels.as_ref()?.get(SERVICE_PROXY_NAME_LABEL).map(String::as_str)
}

fn cluster_ips(spec: &ServiceSpec, gathered: &mut Gathered) -> Vec<IpAddr> {
    let listed = spec.cluster_ips.iter().flatten();
    let single = spec.cluster_ip.iter().filter(|_| spec.cluster_ips.as_ref().is_none_or(Vec::is_empty));
    let mut kept: Vec<IpAddr> = Vec::new();
    for text in listed.chain(single).filter(|text| !text.is_empty() && *text != HEADLESS) {
        match text.parse::<IpAddr>() {
            Ok(ip) if kept.iter().any(|other| family_of(*other) == family_of(ip)) => {
                gathered.note(
                    "spec.clusterIPs",
                    "a second address of its family; left out",
                    format!("{text:?}"),
                );
            }
            Ok(ip) => kept.push(ip),
            Err(_) => gathered.note("spec.clusterIPs", "no IP address; left out", format!("{text:?}")),
        }
    }
    kept
}

fn addresses<'t>(
    field: &'static str,
    texts: impl Iterator<Item = &'t String>,
    families: &[IpFamily],
    gathered: &mut Gathered,
) -> BTreeSet<IpAddr> {
    let mut read = |text: &String| match text.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() => {
            gathered.note(field, "no address that clients can connect to; left out", format!("{text:?}"));
            None
        }
        Ok(ip) if families.contains(&family_of(ip)) => Some(ip),
        Ok(_) => {
            gathered.note(field, "of a family that the Service does not have; left out", format!("{text:?}"));
            None
        }
        Err(_) => {
            gathered.note(field, "no IP address; left out", format!("{text:?}"));
            None
        }
    };
    texts.filter_map(&mut read).collect()
}

fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.and_then(|status| status.ingress.as_deref()).unwrap_or_default()
}

fn unserved(service: &Service) -> BTreeSet<(IpAddr, Protocol, u16)> {
    let of_entry = |entry: &LoadBalancerIngress| {
        let ip = entry.ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
        let ports = entry.ports.iter().flatten().filter(|port| port.error.is_some());
        ports
            .filter_map(|port| Some((ip?, protocol(Some(&port.protocol))?, number(port.port)?)))
            .collect::<Vec<_>>()
    };
    ingress(service).iter().flat_map(of_entry).collect()
}

fn balancer_ips(service: &Service, families: &[IpFamily], gathered: &mut Gathered) -> BTreeSet<IpAddr> {
    // Behind a balancer that is a proxy, packets arrive at a node port; its address is best reached through it.
    let arrives = |mode: &Option<String>| mode.as_deref().is_none_or(|mode| mode == "VIP");
    let texts =
        ingress(service).iter().filter(|entry| arrives(&entry.ip_mode)).filter_map(|entry| entry.ip.as_ref());
    let texts = texts.filter(|text| !text.is_empty());
    addresses("status.loadBalancer.ingress", texts, families, gathered)
}

fn is_local(field: &'static str, text: &Option<String>, gathered: &mut Gathered) -> bool {
    match text.as_deref() {
        Some("Local") => true,
        None | Some("" | "Cluster") => false,
        Some(other) => {
            gathered.note(field, "neither Cluster nor Local; taken for Cluster", format!("{other:?}"));
            false
        }
    }
}

fn ports<'a>(spec: &'a ServiceSpec, has_node_ports: bool, gathered: &mut Gathered) -> Vec<Port<'a>> {
    let declared = spec.ports.iter().flatten();
    declared.filter_map(|port| read_port(port, has_node_ports, gathered)).collect()
}

fn read_port<'a>(port: &'a ServicePort, has_node_ports: bool, gathered: &mut Gathered) -> Option<Port<'a>> {
    let name = port.name.as_deref().unwrap_or_default();
    let Some(protocol) = protocol(port.protocol.as_deref()) else {
        gathered.note(
            "spec.ports",
            "unknown protocol; left out",
            format!("{:?}", port.protocol.as_deref().unwrap_or_default()),
        );
        return None;
    };
    let Some(number_) = number(port.port) else {
        gathered.note("spec.ports", "no port number; left out", port.port.to_string());
        return None;
    };
    let node_port = port.node_port.filter(|node_port| has_node_ports && *node_port != 0);
    if let Some(odd) = node_port.filter(|node_port| number(*node_port).is_none()) {
        gathered.note("spec.ports", "no port number; there is no node port", odd.to_string());
    }
    Some(Port { name, protocol, number: number_, node_port: node_port.and_then(number) })
}

/// TCP where nothing is said.
pub(super) fn protocol(word: Option<&str>) -> Option<Protocol> {
    word.filter(|word| !word.is_empty()).map_or(Some(Protocol::Tcp), |word| word.parse().ok())
}

/// A port that packets can have.
pub(super) fn number(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}

fn sticky(spec: &ServiceSpec, gathered: &mut Gathered) -> Option<Duration> {
    let word = spec.session_affinity.as_deref().filter(|word| !word.is_empty())?;
    match word.parse() {
        Ok(affinity) => stickiness(affinity, spec.session_affinity_config.as_ref(), gathered),
        Err(_) => {
            gathered.note(
                "spec.sessionAffinity",
                "neither None nor ClientIP; taken for None",
                format!("{word:?}"),
            );
            None
        }
    }
}

/// For how long a client stays with an endpoint.
pub(super) fn stickiness(
    affinity: SessionAffinity,
    config: Option<&SessionAffinityConfig>,
    gathered: &mut Gathered,
) -> Option<Duration> {
    if affinity == SessionAffinity::None {
        return None;
    }
    let seconds = affinity_seconds(config);
    let allowed = seconds.clamp(*AFFINITY_SECONDS.start(), *AFFINITY_SECONDS.end());
    if allowed != seconds {
        let field = "spec.sessionAffinityConfig";
        gathered.note(
            field,
            "outside of 1 s to 86400 s; the nearest of these is used",
            format!("{seconds} s"),
        );
    }
    Some(Duration::from_secs(allowed.unsigned_abs().into()))
}
