//! What executing and collecting both look at.

use std::sync::Arc;

use kube::Client;
use tombolo_api::karmada::work::Work;
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::multi_cluster_service::service_of;
use tombolo_runtime::{Cache, Key};

use crate::manifest::{Target, targets};
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

    /// The Work that put an object into the member, if one of this member did.
    pub(crate) fn maker<K: Made>(&self, object: &K) -> Option<String> {
        mark::maker(object, &self.namespace)
    }
}

fn by_service(service: &ServiceRef) -> Key {
    Key::new(service.namespace.clone(), format!("of {}", service.name))
}
