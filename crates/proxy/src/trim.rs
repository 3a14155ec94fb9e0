//! What routes do not depend on, and caches therefore do not keep. A node of a large cluster watches every endpoint there is.

use k8s_openapi::api::core::v1::{Node, NodeStatus, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use tombolo_api::service::LAST_CHANGE_TRIGGER_TIME_ANNOTATION;
use tombolo_api::tombolo::{PREFER_ANNOTATION, REGION_ANNOTATION};
use tombolo_runtime::{trim_annotations, trim_metadata};

pub(crate) fn slice(slice: &mut EndpointSlice) {
    trim_metadata(&mut slice.metadata);
    trim_annotations(&mut slice.metadata, &[LAST_CHANGE_TRIGGER_TIME_ANNOTATION, REGION_ANNOTATION]);
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.target_ref = None;
        endpoint.hostname = None;
        // Only the first counts.
        endpoint.addresses.truncate(1);
        endpoint.addresses.shrink_to_fit();
    }
}

pub(crate) fn service(service: &mut Service) {
    trim_metadata(&mut service.metadata);
    trim_annotations(&mut service.metadata, &[PREFER_ANNOTATION]);
    if let Some(spec) = &mut service.spec {
        spec.selector = None;
    }
    if let Some(status) = &mut service.status {
        status.conditions = None;
    }
}

/// Of a Node mostly the list of its images is large.
pub(crate) fn node(node: &mut Node) {
    trim_metadata(&mut node.metadata);
    node.metadata.annotations = None;
    let addresses = node.status.take().and_then(|status| status.addresses);
    node.status =
        addresses.map(|addresses| NodeStatus { addresses: Some(addresses), ..NodeStatus::default() });
}
