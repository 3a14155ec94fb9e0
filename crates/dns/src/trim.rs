//! What names do not depend on, and caches therefore do not keep: it would be most of the memory of the server.

use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use tombolo_api::mcs::DERIVED_SERVICE_ANNOTATION;
use tombolo_api::{kep, mcs};
use tombolo_runtime::{trim_annotations, trim_metadata};

pub(crate) fn kep(import: &mut kep::ImportedService) {
    trim_metadata(&mut import.metadata);
    trim_annotations(&mut import.metadata, &[DERIVED_SERVICE_ANNOTATION]);
    import.metadata.labels = None;
}

pub(crate) fn mcs(import: &mut mcs::ServiceImport) {
    trim_metadata(&mut import.metadata);
    import.metadata.annotations = None;
    import.metadata.labels = None;
    import.status = None;
}

pub(crate) fn namespace(namespace: &mut Namespace) {
    trim_metadata(&mut namespace.metadata);
    namespace.metadata.annotations = None;
    namespace.metadata.labels = None;
    (namespace.spec, namespace.status) = (None, None);
}

pub(crate) fn service(service: &mut Service) {
    trim_metadata(&mut service.metadata);
    service.metadata.annotations = None;
    service.status = None;
    service.spec = service.spec.take().map(|spec| ServiceSpec {
        type_: spec.type_,
        cluster_ip: spec.cluster_ip,
        cluster_ips: spec.cluster_ips,
        external_name: spec.external_name,
        ports: spec.ports,
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        ..ServiceSpec::default()
    });
}

pub(crate) fn slice(slice: &mut EndpointSlice) {
    trim_metadata(&mut slice.metadata);
    slice.metadata.annotations = None;
    for endpoint in slice.endpoints.iter_mut().flatten() {
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        *endpoint = Endpoint {
            addresses: std::mem::take(&mut endpoint.addresses),
            hostname: endpoint.hostname.take(),
            conditions: ready.map(|ready| EndpointConditions { ready: Some(ready), ..Default::default() }),
            ..Endpoint::default()
        };
    }
}
