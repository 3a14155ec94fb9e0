//! Reporting the slices of Services that the member provides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Error, ResourceExt};
use tokio::time::Instant;
use tombolo_api::karmada::networking::PROVISION_LABEL;
use tombolo_api::karmada::work::Work;
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::ServiceRef;
use tombolo_model::address::DropCount;
use tombolo_model::multi_cluster_service::{
    Collection, collect, is_collectable, is_collected, same_ports, service_of, translate,
};
use tombolo_model::names;
use tombolo_runtime::{Change, Controller, Extent, Key, Next, Queue, delete, is_final, put};

use crate::metrics::Way;
use crate::shared::{Shared, WRITER};
use crate::status::tell_collected;

/// The controller of reports. An item is a Service.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    queue: Arc<Queue<Key>>,
    detected: Arc<Detected>,
}

/// Since when slices of a Service differ from what was reported.
#[derive(Default)]
struct Detected(Mutex<BTreeMap<Key, Instant>>);

impl Detected {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let (queue, detected) = (Arc::new(Queue::new()), Arc::new(Detected::default()));
        let add = queue.clone();
        shared.works.listen(move |work| {
            if let Some(service) = service_of(work) {
                add.add(Key::new(service.namespace, service.name));
            }
        });
        let (add, look, seen) = (queue.clone(), shared.clone(), detected.clone());
        shared.member.slices.listen(move |slice| {
            let Some(name) = slice.labels().get(SERVICE_NAME_LABEL) else { return };
            let service = ServiceRef { namespace: slice.namespace().unwrap_or_default(), name: name.clone() };
            // Slices change often, and most are of Services that nobody else uses.
            if is_collectable(slice, &service) && provided(&look, &service).is_some() {
                let key = Key::new(service.namespace, service.name);
                seen.lock().entry(key.clone()).or_insert_with(Instant::now);
                add.add(key);
            }
        });
        let (add, look) = (queue.clone(), shared.clone());
        shared.member.services.listen_to_changes(move |change| {
            let Change::Put { old, new } = change else { return };
            let service = ServiceRef { namespace: new.namespace().unwrap_or_default(), name: new.name_any() };
            // Slices have the names of its ports.
            if !old.is_some_and(|old| same_ports(old, new)) && provided(&look, &service).is_some() {
                add.add(Key::new(service.namespace, service.name));
            }
        });
        Self { shared: shared.clone(), queue, detected }
    }
}

/// The Work of a Service that the member is to provide.
fn provided(shared: &Shared, service: &ServiceRef) -> Option<Arc<Work>> {
    let work = shared.work(&names::service_work(service))?;
    work.labels().contains_key(PROVISION_LABEL).then_some(work)
}

impl Controller for Collector {
    type Item = Key;

    const NAME: &'static str = "collected slices";

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let service = ServiceRef { namespace: item.namespace.clone(), name: item.name.clone() };
        match provided(&self.shared, &service) {
            Some(work) => {
                let outcome = self.report(&service).await;
                tell_collected(&self.shared, &work, Some(outcome.as_ref())).await?;
                outcome?;
            }
            None => {
                self.shared.metrics.note_left_out(item, DropCount::new());
                self.replace(&service, &BTreeMap::new()).await?;
                if let Some(work) = self.shared.work(&names::service_work(&service)) {
                    tell_collected(&self.shared, &work, None).await?;
                }
            }
        }
        self.detected.lock().remove(item);
        Ok(Next::Rest)
    }
}

impl Collector {
    /// Reports the slices of a Service, and says what is left out of them.
    async fn report(&self, service: &ServiceRef) -> Result<DropCount, Error> {
        let group = Key::of_label(service.namespace.clone(), SERVICE_NAME_LABEL, &service.name);
        let config = &self.shared.config;
        let collection = Collection { cluster: &config.cluster, service, declared: &config.declared };
        let slices = self.shared.member.slices.group(&group);
        let slices = slices.iter().filter(|slice| is_collectable(slice, service));
        let (here, template) = (self.shared.service(service), self.shared.template(service));
        let wanted = slices.filter_map(|slice| match (&here, &template) {
            (Some(here), Some(template)) => {
                let ports = translate(slice.ports.as_deref().unwrap_or_default(), here, template);
                collect(&collection, &EndpointSlice { ports: Some(ports), ..(**slice).clone() })
            }
            _ => collect(&collection, slice),
        });
        let (mut works, mut left_out) = (BTreeMap::new(), DropCount::new());
        for (work, dropped) in wanted {
            works.insert(work.name_any(), work);
            dropped.into_iter().for_each(|(reason, count)| *left_out.entry(reason).or_default() += count);
        }
        self.shared.metrics.note_left_out(&Key::new(&*service.namespace, &*service.name), left_out.clone());
        self.replace(service, &works).await?;
        Ok(left_out)
    }

    /// Makes the reports of a Service exactly those that are wanted, also where a slice went while nobody looked. One that is
    /// refused keeps no other from being written, nor an old one from going, unless it may be taken in a moment. Returns the
    /// first failure.
    async fn replace(&self, service: &ServiceRef, wanted: &BTreeMap<String, Work>) -> Result<(), Error> {
        let api: Api<Work> = Api::namespaced(self.shared.hub.clone(), &self.shared.namespace);
        let held = self.shared.works_of(service).into_iter().filter(|work| is_collected(work));
        let held: BTreeMap<String, Arc<Work>> = held.map(|work| (work.name_any(), work)).collect();
        let since =
            self.detected.lock().get(&Key::new(service.namespace.clone(), service.name.clone())).copied();
        let mut failures = Vec::new();
        for (name, work) in wanted {
            let current = held.get(name).map(|work| &**work);
            match put(WRITER, &api, current, work, Extent::Whole).await {
                // One that no slice caused, but a Work that came, has taken no time that anybody could tell.
                Ok(written) => {
                    let took = written.and(since).map(|since| since.elapsed());
                    took.into_iter().for_each(|took| self.shared.metrics.note_slice(Way::Collected, took));
                }
                Err(error) => failures.push(error),
            }
        }
        if !failures.iter().all(is_final) {
            return failures.into_iter().next().map_or(Ok(()), Err);
        }
        for (_, stale) in held.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
            delete(&api, &**stale).await?;
        }
        failures.into_iter().next().map_or(Ok(()), Err)
    }
}
