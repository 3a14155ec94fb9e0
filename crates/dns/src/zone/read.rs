//! From Kubernetes objects to what DNS knows of a service.
//!
//! The objects may have been written by anyone: an address that is none, a port out of range, a host whose name does not
//! fit are left out and counted; the rest is answered.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use tombolo_api::mcs::{self, DERIVED_SERVICE_ANNOTATION, SOURCE_CLUSTER_LABEL, ServiceImportType};
use tombolo_api::service::HEADLESS;
use tombolo_api::{kep, service};
use tombolo_model::import::read_ports;

use super::name::{LONGEST_NAME, Name, push_label};
use super::service::{Addresses, Endpoints, Host, Port, Ports, Service};

/// What was made of the objects of one service.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Read {
    /// `None`: the name does not exist.
    pub service: Option<Service>,
    /// Endpoints that were left out because their names do not fit.
    pub unfit: usize,
}

impl From<Option<Service>> for Read {
    fn from(service: Option<Service>) -> Self {
        Self { service, unfit: 0 }
    }
}

/// Reads objects; shares equal lists of ports between services.
#[derive(Debug, Default)]
pub struct Reader {
    ports: HashSet<Ports>,
}

/// Distinct lists of ports that are kept; beyond it, those that nobody uses any more are dropped.
const PORT_LISTS: usize = 1024;

/// How the endpoints of a slice are named and chosen.
struct Choice<'a> {
    /// Labels after the hostname: the cluster id, or nothing in the cluster's own zone.
    origin: &'a str,
    /// Not-ready endpoints are published, too.
    not_ready: bool,
}

/// What all slices say about one host.
type Gathered = (Vec<IpAddr>, Vec<Port>);

impl Reader {
    /// An import of the first edition. It says nothing of headless services, but one that has an address, or waits for
    /// it, names the Service that holds it. `room`: octets left for the names of hosts.
    pub fn kep(&mut self, import: &kep::ImportedService, slices: &[Arc<EndpointSlice>], room: usize) -> Read {
        let annotations = import.metadata.annotations.as_ref();
        let derived = annotations.is_some_and(|all| all.contains_key(DERIVED_SERVICE_ANNOTATION));
        let spec = &import.spec;
        if spec.ip.is_some() || derived {
            return Some(self.address(spec.ip.as_slice(), &spec.ports)).into();
        }
        let early = |cluster: &str| {
            spec.clusters.iter().any(|part| part.cluster == cluster && part.publish_not_ready_addresses)
        };
        let slices = slices.iter().filter_map(|slice| {
            let origin = source(slice)?;
            Some((&**slice, Choice { origin, not_ready: early(origin) }))
        });
        self.endpoints(slices, room)
    }

    /// An import of today's edition.
    pub fn mcs(&mut self, import: &mcs::ServiceImport, slices: &[Arc<EndpointSlice>], room: usize) -> Read {
        let spec = &import.spec;
        if spec.type_ == ServiceImportType::ClusterSetIp {
            return Some(self.address(&spec.ips, &read_ports(spec).0)).into();
        }
        let slices = slices
            .iter()
            .filter_map(|slice| Some((&**slice, Choice { origin: source(slice)?, not_ready: false })));
        self.endpoints(slices, room)
    }

    /// A Service of the cluster itself.
    pub fn cluster(&mut self, service: &core::Service, slices: &[Arc<EndpointSlice>], room: usize) -> Read {
        let Some(spec) = &service.spec else { return Read::default() };
        if spec.type_.as_deref() == Some("ExternalName") {
            let target = spec.external_name.as_deref().and_then(|name| Name::parse(name).ok());
            return target.map(|name| Service::Alias(name.bytes().into())).into();
        }
        if spec.cluster_ip.as_deref() == Some(HEADLESS) {
            let not_ready = spec.publish_not_ready_addresses.unwrap_or_default();
            let slices = slices.iter().map(|slice| (&**slice, Choice { origin: "", not_ready }));
            return self.endpoints(slices, room);
        }
        let ips = spec.cluster_ips.clone().unwrap_or_else(|| spec.cluster_ip.iter().cloned().collect());
        let ports = spec.ports.iter().flatten().map(|port| service::ServicePort {
            name: port.name.clone(),
            protocol: port.protocol.as_deref().and_then(|word| word.parse().ok()).unwrap_or_default(),
            app_protocol: None,
            port: port.port,
        });
        Some(self.address(&ips, &ports.collect::<Vec<_>>())).into()
    }

    fn address(&mut self, ips: &[String], ports: &[service::ServicePort]) -> Service {
        let (mut v4, mut v6) = (None, None);
        for ip in ips {
            match ip.parse() {
                Ok(IpAddr::V4(ip)) => v4 = v4.or(Some(ip)),
                Ok(IpAddr::V6(ip)) => v6 = v6.or(Some(ip)),
                Err(_) => {}
            }
        }
        let ports = ports
            .iter()
            .filter_map(|port| read_port(port.name.as_deref(), port.protocol.as_str(), port.port));
        let ports = ports.collect();
        Service::Address { v4, v6, ports: self.share(ports) }
    }

    /// Nothing ready: no name (KEP-1645 today, DNS specification, 2.4.1).
    fn endpoints<'a>(
        &mut self,
        slices: impl Iterator<Item = (&'a EndpointSlice, Choice<'a>)>,
        room: usize,
    ) -> Read {
        let mut hosts: BTreeMap<Box<[u8]>, Gathered> = BTreeMap::new();
        let mut unfit = 0;
        for (slice, choice) in slices {
            let ports: Vec<Port> = slice.ports.iter().flatten().filter_map(slice_port).collect();
            for endpoint in slice.endpoints.as_deref().unwrap_or_default().iter().filter(|e| choice.takes(e))
            {
                for ip in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
                    let Some(path) = choice.path(endpoint, ip).filter(|path| path.len() <= room) else {
                        unfit += 1;
                        continue;
                    };
                    let host = hosts.entry(path).or_default();
                    host.0.push(ip);
                    host.1.extend(ports.iter().cloned());
                }
            }
        }
        let all: Vec<IpAddr> = hosts.values().flat_map(|(ips, _)| ips.iter().copied()).collect();
        let hosts: Box<[Host]> = hosts
            .into_iter()
            .map(|(path, (ips, ports))| Host {
                path,
                addresses: Addresses::from(ips),
                ports: self.share(ports),
            })
            .collect();
        let service = (!hosts.is_empty())
            .then(|| Service::Endpoints(Box::new(Endpoints { addresses: all.into(), hosts })));
        Read { service, unfit }
    }

    /// One copy of each list of ports.
    fn share(&mut self, mut ports: Vec<Port>) -> Ports {
        ports.sort_unstable();
        ports.dedup();
        let ports: Box<[Port]> = ports.into();
        if let Some(known) = self.ports.get(&ports) {
            return known.clone();
        }
        if self.ports.len() >= PORT_LISTS {
            self.ports.retain(|ports| Arc::strong_count(ports) > 1);
        }
        let ports = Ports::new(ports);
        if self.ports.len() < PORT_LISTS {
            self.ports.insert(ports.clone());
        }
        ports
    }
}

impl Choice<'_> {
    /// An endpoint that does not say whether it is ready is (discovery.k8s.io/v1, `EndpointConditions`).
    fn takes(&self, endpoint: &Endpoint) -> bool {
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        self.not_ready || ready.unwrap_or(true)
    }

    fn path(&self, endpoint: &Endpoint, ip: IpAddr) -> Option<Box<[u8]>> {
        let mut path = Vec::with_capacity(32);
        let named = endpoint.hostname.as_deref().is_some_and(|hostname| push_label(&mut path, hostname));
        if !named {
            push_label(&mut path, &dashed(ip));
        }
        let origin = self.origin.split('.').filter(|label| !label.is_empty());
        origin.into_iter().all(|label| push_label(&mut path, label)).then(|| path.into())
    }
}

/// The cluster that the endpoints of an imported slice are in.
fn source(slice: &EndpointSlice) -> Option<&str> {
    slice.metadata.labels.as_ref()?.get(SOURCE_CLUSTER_LABEL).map(String::as_str)
}

fn slice_port(port: &k8s_openapi::api::discovery::v1::EndpointPort) -> Option<Port> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    read_port(port.name.as_deref(), protocol, port.port?)
}

fn read_port(name: Option<&str>, protocol: &str, number: i32) -> Option<Port> {
    let number = u16::try_from(number).ok().filter(|number| *number > 0)?;
    let mut path = Vec::new();
    let name = name.filter(|name| !name.is_empty());
    let named = name.is_some_and(|name| {
        push_label(&mut path, &format!("_{name}")) && push_label(&mut path, &format!("_{protocol}"))
    });
    Some(Port { path: if named { path.into() } else { Box::default() }, number })
}

/// An address as one label: where an endpoint has no hostname (Kubernetes DNS specification, 2.4.1).
fn dashed(ip: IpAddr) -> String {
    let mut label = ip.to_string().replace(['.', ':'], "-");
    if label.ends_with('-') {
        label.push('0');
    }
    label
}

/// Octets that are left for a host's labels before `<service>.<namespace>.svc.<zone>`.
pub fn room(key: &[u8], longest_apex: usize) -> usize {
    LONGEST_NAME.saturating_sub(key.len() + b"\x03svc".len() + longest_apex)
}
