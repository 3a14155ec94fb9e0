//! From a source's EndpointSlices to the ones at the hub, and from those to the ones a consumer holds.
//!
//! One slice in, at most one slice out, with a name that follows from the first: a change of one endpoint is one write at
//! each step, and nothing has to be remembered. A slice whose endpoints are all left out stays, empty, because each
//! exporting cluster has one or more (KEP-1645 first edition, EndpointSlice).
//!
//! What describes the endpoint travels unchanged: conditions, hostname, zone, application protocols. What points into the
//! source cluster does not: target reference, hints, the old topology map. A node's name travels to the hub, but only the
//! cluster it comes from takes it over: elsewhere a node of the same name would look like the endpoint's.

pub(crate) mod selection;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
use tombolo_api::service::{
    IpFamily, LAST_CHANGE_TRIGGER_TIME_ANNOTATION, MANAGED_BY_LABEL as SLICE_MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL, ServicePort,
};
use tombolo_api::tombolo::{
    Dialect, MANAGED_BY_LABEL, MANAGER, OFFER_LABEL, REGION_ANNOTATION, SLICE_MANAGER, ServiceRef,
};

use crate::address::{Declared, DropCount, Dropped};
use crate::cluster::ClusterId;
use crate::import::{Contribution, Import};
use crate::merge::exposes;
use crate::names;

pub use selection::MAX_ENDPOINTS;

/// The slice to be written, if any, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    pub slice: Option<EndpointSlice>,
    pub dropped: DropCount,
}

/// What an exporting agent knows when it publishes slices of one Service.
#[derive(Clone, Debug)]
pub struct Publication<'a> {
    pub cluster: &'a ClusterId,
    pub dialect: Dialect,
    pub service: &'a ServiceRef,
    /// What the cluster itself declares, so that the operator hears of useless endpoints on both sides.
    pub declared: &'a Declared,
    /// The offer at the hub, with which the slices shall go.
    pub owner: Option<&'a OwnerReference>,
}

/// What an importing agent knows when it takes over the slices of one source.
#[derive(Clone, Debug)]
pub struct Consumption<'a> {
    pub import: &'a Import,
    pub source: &'a ClusterId,
    pub consumer: &'a ClusterId,
    /// What the source declares.
    pub declared: &'a Declared,
    /// The region the source declares to be in. A proxy sees no Membership, so it travels on every slice.
    pub region: Option<&'a str>,
    /// The import in the consuming cluster.
    pub owner: Option<&'a OwnerReference>,
}

/// Whether a slice holds endpoints of this Service itself, and not imported ones.
pub fn is_source(slice: &EndpointSlice, service: &ServiceRef) -> bool {
    let label = |key| slice.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    slice.metadata.namespace.as_deref() == Some(service.namespace.as_str())
        && label(SERVICE_NAME_LABEL) == Some(service.name.as_str())
        && label(SOURCE_CLUSTER_LABEL).is_none()
        && label(SLICE_MANAGED_BY_LABEL) != Some(SLICE_MANAGER)
}

/// What the exporting cluster publishes of one of its slices: nothing of slices without IP addresses.
pub fn publish(publication: &Publication<'_>, source: &EndpointSlice) -> Selected {
    let Some(family) = family(source) else { return Selected::default() };
    let (endpoints, dropped) = selection::endpoints(source, family, publication.declared, true);
    let Publication { cluster, dialect, service, .. } = *publication;
    let source_name = source.metadata.name.as_deref().unwrap_or_default();
    let offer = names::offer(dialect, service);
    let labels = [
        (OFFER_LABEL, offer.as_str()),
        (SOURCE_CLUSTER_LABEL, cluster.as_str()),
        (SLICE_MANAGED_BY_LABEL, SLICE_MANAGER),
        (MANAGED_BY_LABEL, MANAGER),
    ];
    let place = ObjectMeta {
        name: Some(names::hub_slice(dialect, service, source_name)),
        namespace: Some(names::hub_namespace(cluster)),
        ..metadata(&labels, publication.owner, source)
    };
    let slice = EndpointSlice {
        metadata: place,
        address_type: family.to_string(),
        endpoints: Some(endpoints),
        ports: Some(selection::ports(source)),
    };
    Selected { slice: Some(slice), dropped }
}

/// What the consumer holds of one slice at the hub: nothing of one whose source does not export the service, or whose
/// family the service does not have.
pub fn import(consumption: &Consumption<'_>, published: &EndpointSlice) -> Selected {
    let Consumption { import, source, consumer, declared, region, owner } = *consumption;
    let Some(part) = import.contribution(source) else { return Selected::default() };
    let has_family =
        |family: &IpFamily| import.ip_families.contains(family) && part.ip_families.contains(family);
    let Some(family) = family(published).filter(has_family) else { return Selected::default() };

    let (mut endpoints, mut dropped) = selection::endpoints(published, family, declared, source == consumer);
    let given = selection::ports(published);
    let ports: Vec<EndpointPort> = given.iter().filter(|port| serves(import, part, port)).cloned().collect();
    // Behind an address, endpoints without any of its ports get no traffic; a headless service has their names all the same.
    if ports.is_empty() && !given.is_empty() && !import.is_headless() && !endpoints.is_empty() {
        // Where they have a port of their own Service, a conflict with other exports leaves them none, and is told as one.
        if !given.iter().any(|port| part.ports.iter().any(|own| is_port(own, port))) {
            dropped.insert(Dropped::NotExposed, endpoints.len());
        }
        endpoints.clear();
    }
    let derived = import.derived_service_name();
    let mut labels = vec![
        (import.policy().import_label, import.service.name.as_str()),
        (SOURCE_CLUSTER_LABEL, source.as_str()),
        (SLICE_MANAGED_BY_LABEL, SLICE_MANAGER),
        (MANAGED_BY_LABEL, MANAGER),
    ];
    labels.extend(derived.as_deref().map(|name| (SERVICE_NAME_LABEL, name)));
    let hub_name = published.metadata.name.as_deref().unwrap_or_default();
    let mut place = ObjectMeta {
        name: Some(names::imported_slice(&import.service, source, hub_name)),
        namespace: Some(import.service.namespace.clone()),
        ..metadata(&labels, owner, published)
    };
    if let Some(region) = region.filter(|region| !region.is_empty()) {
        let annotations = place.annotations.get_or_insert_default();
        annotations.insert(REGION_ANNOTATION.to_owned(), region.to_owned());
    }
    let slice = EndpointSlice {
        metadata: place,
        address_type: family.to_string(),
        endpoints: Some(endpoints),
        ports: Some(ports),
    };
    Selected { slice: Some(slice), dropped }
}

pub(crate) fn family(slice: &EndpointSlice) -> Option<IpFamily> {
    slice.address_type.parse().ok()
}

/// Slice ports are tied to service ports by name alone, so a source whose port of that name has another number would get
/// traffic meant for others: it must expose exactly the port that the import has (kubernetes-sigs/mcs-api
/// conformance, StrictPortConflict).
fn serves(import: &Import, part: &Contribution, port: &EndpointPort) -> bool {
    let mut merged = import.ports.iter().filter(|merged| is_port(merged, port));
    merged.any(|merged| exposes(&part.ports, merged))
}

/// Whether a port of a slice is one of a service.
fn is_port(declared: &ServicePort, port: &EndpointPort) -> bool {
    declared.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default()
        && declared.protocol.as_str() == port.protocol.as_deref().unwrap_or("TCP")
}

/// Labels, owner, and the time of the change that is on its way, by which its journey is measured.
pub(crate) fn metadata(
    labels: &[(&str, &str)],
    owner: Option<&OwnerReference>,
    from: &EndpointSlice,
) -> ObjectMeta {
    let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let annotations = from.metadata.annotations.as_ref();
    let changed = annotations.and_then(|annotations| annotations.get(LAST_CHANGE_TRIGGER_TIME_ANNOTATION));
    let changed = changed.filter(|time| time.parse::<Timestamp>().is_ok()).cloned();
    ObjectMeta {
        labels: Some(labels.collect()),
        annotations: changed
            .map(|time| BTreeMap::from([(LAST_CHANGE_TRIGGER_TIME_ANNOTATION.to_owned(), time)])),
        owner_references: owner.map(|owner| vec![owner.clone()]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
