//! The import in the words of each edition of the API.
//!
//! Labels and annotations that exporting clusters chose never replace the ones by which Tombolo knows its own objects.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::mcs::{ClusterStatus, DERIVED_SERVICE_ANNOTATION, EndpointSliceObjects, ServiceImportType};
use tombolo_api::service::{IpFamily, LAST_APPLIED_ANNOTATION, Protocol, ServicePort};
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER, OfferType, PREFER_ANNOTATION};
use tombolo_api::{kep, mcs};

use super::{Contribution, Import};
use crate::address::family_of;
use crate::complaint::Complaint;

impl Import {
    /// The ImportedService. `vips` are the addresses of the derived Service, empty as long as there are none.
    pub fn kep_import(&self, vips: &[IpAddr]) -> kep::ImportedService {
        let ip_family = self.ip_families.first().copied().unwrap_or_default();
        let ip = self.usable(vips).into_iter().find(|ip| family_of(*ip) == ip_family);
        let spec = kep::ImportedServiceSpec {
            ports: self.ports.clone(),
            clusters: self.clusters.iter().map(Contribution::kep_cluster).collect(),
            ip_family,
            ip: ip.map(|ip| ip.to_string()),
        };
        kep::ImportedService { metadata: self.metadata(), spec }
    }

    /// The ServiceImport with its exporting clusters; conditions are set apart, they have a history. `vips` are the
    /// addresses of the derived Service, empty as long as there are none.
    pub fn mcs_import(&self, vips: &[IpAddr]) -> mcs::ServiceImport {
        let ips = self.usable(vips);
        // One family per address where there are addresses: a cluster need not have all families of the service.
        let families: Vec<IpFamily> = match ips.is_empty() {
            true => self.ip_families.clone(),
            false => ips.iter().map(|ip| family_of(*ip)).collect(),
        };
        let affine = !self.is_headless();
        let spec = mcs::ServiceImportSpec {
            ports: self.ports.iter().map(mcs_port).collect(),
            ips: ips.iter().map(IpAddr::to_string).collect(),
            ip_families: families.iter().map(IpFamily::to_string).collect(),
            type_: match self.type_ {
                OfferType::ClusterIp => ServiceImportType::ClusterSetIp,
                OfferType::Headless => ServiceImportType::Headless,
            },
            session_affinity: affine.then(|| self.session_affinity.to_string()),
            session_affinity_config: self.session_affinity_config.clone().filter(|_| affine),
            internal_traffic_policy: self.internal_traffic_policy.map(|policy| policy.to_string()),
            traffic_distribution: self.traffic_distribution.clone(),
        };
        let status = mcs::ServiceImportStatus {
            clusters: self
                .clusters
                .iter()
                .map(|part| ClusterStatus { cluster: part.cluster.to_string() })
                .collect(),
            conditions: Vec::new(),
            endpoint_slice_objects: Some(EndpointSliceObjects::Present),
        };
        mcs::ServiceImport { metadata: self.metadata(), spec, status: Some(status) }
    }

    /// The addresses that belong to the service, one per family. They stay in their order, which is that of the derived
    /// Service: an address must not change its place when another export becomes the oldest.
    fn usable(&self, vips: &[IpAddr]) -> Vec<IpAddr> {
        if self.is_headless() {
            return Vec::new();
        }
        let mut families = self.ip_families.clone();
        let mut take = |ip: &IpAddr| {
            let place = families.iter().position(|family| *family == family_of(*ip))?;
            families.remove(place);
            Some(*ip)
        };
        vips.iter().filter_map(&mut take).collect()
    }

    fn metadata(&self) -> ObjectMeta {
        let mut labels = self.labels.clone();
        labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned());
        let mut annotations = self.annotations.clone();
        annotations.remove(DERIVED_SERVICE_ANNOTATION);
        // How local and remote endpoints meet under a name of this cluster is not for exporting clusters to say.
        annotations.remove(STRATEGY_ANNOTATION);
        annotations.remove(LAST_APPLIED_ANNOTATION);
        if let Some(derived) = self.derived_service_name() {
            annotations.insert(DERIVED_SERVICE_ANNOTATION.to_owned(), derived);
        }
        if let Some(prefer) = self.prefer_annotation() {
            annotations.insert(PREFER_ANNOTATION.to_owned(), prefer);
        }
        ObjectMeta {
            name: Some(self.service.name.clone()),
            namespace: Some(self.service.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations: &BTreeMap<_, _>| !annotations.is_empty()),
            ..ObjectMeta::default()
        }
    }

    pub(super) fn prefer_annotation(&self) -> Option<String> {
        let tiers: Vec<&str> = self.prefer.iter().map(|tier| tier.as_str()).collect();
        (!tiers.is_empty()).then(|| tiers.join(","))
    }
}

impl Contribution {
    fn kep_cluster(&self) -> kep::ClusterSpec {
        kep::ClusterSpec {
            cluster: self.cluster.to_string(),
            topology_keys: self.topology_keys.clone(),
            publish_not_ready_addresses: self.publish_not_ready_addresses,
            session_affinity: self.session_affinity,
            session_affinity_config: self.session_affinity_config.clone(),
        }
    }
}

fn mcs_port(port: &ServicePort) -> mcs::ServicePort {
    mcs::ServicePort {
        name: port.name.clone(),
        protocol: Some(port.protocol.to_string()),
        app_protocol: port.app_protocol.clone(),
        port: port.port,
    }
}

/// The ports of a ServiceImport that anyone may have written: its CRD takes any text as a protocol.
pub fn read_ports(spec: &mcs::ServiceImportSpec) -> (Vec<ServicePort>, Vec<Complaint>) {
    let mut complaints = Vec::new();
    let mut read = |port: &mcs::ServicePort| {
        let protocol = match port.protocol.as_deref() {
            None | Some("") => Protocol::Tcp,
            Some(word) => {
                let ignored =
                    |error| complaints.push(Complaint::new("spec.ports", format!("{error}; it is ignored")));
                word.parse().map_err(ignored).ok()?
            }
        };
        let name = port.name.clone().filter(|name| !name.is_empty());
        Some(ServicePort { name, protocol, app_protocol: port.app_protocol.clone(), port: port.port })
    };
    let ports = spec.ports.iter().filter_map(&mut read).collect();
    (ports, complaints)
}
