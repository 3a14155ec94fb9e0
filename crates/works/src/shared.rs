//! What executing and collecting both look at.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::multi_cluster_service::service_of;
use tombolo_model::names;
use tombolo_runtime::{Cache, Key};

use crate::manifest::{Manifest, Target, read_all, targets};
use crate::mark::{self, Made};
use crate::{Config, Member, Metrics};

/// Who the API servers see writing.
pub(crate) const WRITER: &str = "tombolo-works";

pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The execution namespace.
    pub(crate) namespace: String,
    pub(crate) member: Member,
    pub(crate) hub: Client,
    /// The Works of the member, grouped by the objects they hold and by the service they are for.
    pub(crate) works: Arc<Cache<Work>>,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        namespace: String,
        member: Member,
        hub: Client,
        metrics: Metrics,
    ) -> Self {
        let works = Cache::grouped(|work: &Work| {
            let held = targets(work).into_iter().map(|target| target.group());
            held.chain(service_of(work).map(|service| by_service(&service))).collect()
        });
        Self { config, namespace, member, hub, works, metrics }
    }

    pub(crate) async fn synced(&self) {
        self.member.synced().await;
        self.works.synced().await;
    }

    pub(crate) fn work(&self, name: &str) -> Option<Arc<Work>> {
        self.works.get(&Key::new(self.namespace.clone(), name))
    }

    /// The Works that want an object.
    pub(crate) fn wanting(&self, target: &Target) -> Vec<Arc<Work>> {
        self.works.group(&target.group())
    }

    /// The Works of a service.
    pub(crate) fn works_of(&self, service: &ServiceRef) -> Vec<Arc<Work>> {
        self.works.group(&by_service(service))
    }

    /// The Service as the hub wants it here, in whose words slices travel.
    pub(crate) fn template(&self, service: &ServiceRef) -> Option<Service> {
        template_in(&*self.work(&names::service_work(service))?)
    }

    /// The Service as it is here.
    pub(crate) fn service(&self, service: &ServiceRef) -> Option<Arc<Service>> {
        self.member.services.get(&Key::new(service.namespace.clone(), service.name.clone()))
    }

    /// The Work that put an object into the member, if one of this member did.
    pub(crate) fn maker<K: Made>(&self, object: &K) -> Option<String> {
        mark::maker(object, &self.namespace)
    }
}

/// The Service that a Work holds.
pub(crate) fn template_in(work: &Work) -> Option<Service> {
    read_all(work).into_iter().find_map(|manifest| match manifest {
        Ok(Manifest::Service(service)) => Some(*service),
        _ => None,
    })
}

fn by_service(service: &ServiceRef) -> Key {
    Key::new(service.namespace.clone(), format!("of {}", service.name))
}
