//! What the hub and the clusters hold of a Service that is shared: Works, reports, slices.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use tombolo_api::karmada::networking::{PROVISION_CLUSTER_ANNOTATION, WORK_PROVISION_CLUSTER_ANNOTATION};
use tombolo_api::karmada::work::Work;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::multi_cluster_service::{is_collectable, is_collected, service_of};
use tombolo_model::{ClusterId, names};

use super::Sharing;
use crate::survey::MemberFacts;

impl<'a> Sharing<'a> {
    /// The Works of this service in the namespace of a cluster.
    pub(super) fn works(&self, cluster: &str) -> impl Iterator<Item = &'a Work> {
        let namespace = cluster.parse::<ClusterId>().ok().and_then(|id| names::execution_namespace(&id));
        let is_it = move |work: &&Work| {
            namespace.is_some()
                && work.namespace() == namespace
                && service_of(work).as_ref() == Some(self.service)
        };
        self.hub.works.iter().filter(is_it)
    }

    pub(super) fn service_work(&self, cluster: &str) -> Option<&'a Work> {
        let name = names::service_work(self.service);
        self.works(cluster).find(|work| work.name_any() == name)
    }

    /// The slices that a cluster reported.
    pub(super) fn reports(&self, cluster: &str) -> Vec<EndpointSlice> {
        let collected = self.works(cluster).filter(|work| is_collected(work));
        let manifests =
            collected.filter_map(|work| work.spec.workload.as_ref()).flat_map(|all| &all.manifests);
        manifests.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
    }

    /// The Works that bring slices of `source` to a cluster.
    pub(super) fn dispatched(&self, cluster: &str, source: &str) -> Vec<&'a Work> {
        let from = |work: &&Work| {
            work.annotations().get(WORK_PROVISION_CLUSTER_ANNOTATION).is_some_and(|one| one == source)
        };
        self.works(cluster).filter(from).collect()
    }

    /// All slices of the Service that a cluster has; its own; and those that came from another.
    pub(super) fn slices<'f>(&self, facts: &'f MemberFacts) -> Vec<&'f EndpointSlice> {
        let is_it = |slice: &&EndpointSlice| {
            slice.namespace().as_deref() == Some(self.service.namespace.as_str())
                && slice.labels().get(SERVICE_NAME_LABEL) == Some(&self.service.name)
        };
        facts.slices.iter().filter(is_it).collect()
    }

    pub(super) fn own<'f>(&self, facts: &'f MemberFacts) -> Vec<&'f EndpointSlice> {
        self.slices(facts).into_iter().filter(|slice| is_collectable(slice, self.service)).collect()
    }

    pub(super) fn slices_from<'f>(&self, facts: &'f MemberFacts, source: &str) -> Vec<&'f EndpointSlice> {
        let from = |slice: &&EndpointSlice| {
            slice.annotations().get(PROVISION_CLUSTER_ANNOTATION).is_some_and(|one| one == source)
        };
        self.slices(facts).into_iter().filter(from).collect()
    }
}

pub(super) fn find_service<'a>(services: &'a [Service], service: &ServiceRef) -> Option<&'a Service> {
    let namespace = service.namespace.as_str();
    services
        .iter()
        .find(|one| one.name_any() == service.name && one.namespace().as_deref() == Some(namespace))
}

pub(super) fn address(service: &Service) -> String {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.clone()).unwrap_or_default()
}
