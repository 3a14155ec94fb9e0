//! Remote slices as they stand behind a Service of this cluster.
//!
//! Clients here call the Service by a number, so a remote endpoint serves a port if its own Service has the same number and
//! protocol, whatever either of them calls it. The slice gets the names that the Service here uses, because a service
//! proxy ties slices to ports by name.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::{
    IpFamily, MANAGED_BY_LABEL as SLICE_MANAGED_BY_LABEL, SERVICE_NAME_LABEL, ServicePort,
};
use tombolo_api::tombolo::{MANAGED_BY_LABEL, MANAGER, NATIVE_IMPORT_LABEL, SLICE_MANAGER, ServiceRef};

use super::plan::Source;
use super::service::is_headless;
use crate::names;
use crate::offer::reading;
use crate::slices::{Selected, family, metadata, selection};

/// A Service that remote slices shall stand behind.
pub(super) struct Target<'a> {
    service: &'a ServiceRef,
    ports: Vec<ServicePort>,
    families: Vec<IpFamily>,
    headless: bool,
    owner: Option<OwnerReference>,
}

impl<'a> Target<'a> {
    pub(super) fn new(service: &'a ServiceRef, object: &Service, owner: Option<OwnerReference>) -> Self {
        let empty = ServiceSpec::default();
        let spec = object.spec.as_ref().unwrap_or(&empty);
        Target {
            service,
            ports: reading::ports(spec, &mut Vec::new()),
            families: reading::families(spec, &mut Vec::new()),
            headless: is_headless(object),
            owner,
        }
    }

    /// Whether a source has any of the Service's ports.
    pub(super) fn is_served_by(&self, source: &Source<'_>) -> bool {
        self.headless || self.ports.iter().any(|port| counterpart(source, port).is_some())
    }

    /// What becomes of one slice of a source: nothing if the Service does not have its family.
    pub(super) fn attach(&self, source: &Source<'_>, published: &EndpointSlice) -> Selected {
        let Some(family) = family(published).filter(|family| self.families.contains(family)) else {
            return Selected::default();
        };
        let (mut endpoints, dropped) = selection::endpoints(published, family, source.declared, false);
        let given = selection::ports(published);
        let ports: Vec<EndpointPort> =
            self.ports.iter().filter_map(|port| rename(source, port, &given)).collect();
        if ports.is_empty() && !self.headless {
            endpoints.clear();
        }
        let hub_name = published.metadata.name.as_deref().unwrap_or_default();
        let place = ObjectMeta {
            name: Some(names::native_slice(self.service, &source.part.cluster, hub_name)),
            namespace: Some(self.service.namespace.clone()),
            ..metadata(&self.labels(source), self.owner.as_ref(), published)
        };
        let slice = EndpointSlice {
            metadata: place,
            address_type: family.to_string(),
            endpoints: Some(endpoints),
            ports: Some(ports),
        };
        Selected { slice: Some(slice), dropped }
    }

    fn labels<'b>(&'b self, source: &'b Source<'_>) -> [(&'b str, &'b str); 5] {
        [
            (SERVICE_NAME_LABEL, &self.service.name),
            (NATIVE_IMPORT_LABEL, &self.service.name),
            (SOURCE_CLUSTER_LABEL, source.part.cluster.as_str()),
            (SLICE_MANAGED_BY_LABEL, SLICE_MANAGER),
            (MANAGED_BY_LABEL, MANAGER),
        ]
    }
}

/// The port of the source's Service that stands behind a port here.
fn counterpart<'a>(source: &'a Source<'_>, port: &ServicePort) -> Option<&'a ServicePort> {
    source.part.ports.iter().find(|other| (other.protocol, other.port) == (port.protocol, port.port))
}

fn rename(source: &Source<'_>, port: &ServicePort, given: &[EndpointPort]) -> Option<EndpointPort> {
    let theirs = counterpart(source, port)?;
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let found = given.iter().find(|given| {
        name(&given.name) == name(&theirs.name)
            && given.protocol.as_deref().unwrap_or("TCP") == theirs.protocol.as_str()
    })?;
    Some(EndpointPort { name: Some(name(&port.name)), ..found.clone() })
}
