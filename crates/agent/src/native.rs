//! Native names: what a ServiceImport with a strategy asks for, under the name of the Service itself.
//!
//! What there shall be is decided in the model; here it is read, compared and written. A Service of somebody else is
//! changed in one respect only, the selector that `RemoteOnly` puts aside, and only as it was when it was looked at: every
//! such write names its resource version. An import that a user wrote gets conditions and a finalizer, nothing else.

mod listening;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PostParams};
use kube::{Api, Error, ResourceExt};
use serde_json::{Value, json};
use tombolo_api::condition::{self, Desired};
use tombolo_api::karmada::strategy::StrategyCondition::StrategyApplied;
use tombolo_api::mcs::{SOURCE_CLUSTER_LABEL, ServiceImport};
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{Dialect, NATIVE_IMPORT_LABEL, NATIVE_NAMING_FINALIZER, ServiceRef};
use tombolo_model::address::DropCount;
use tombolo_model::strategy::{Plan, Situation, Source, Step, plan, refused};
use tombolo_model::{ClusterId, Contribution, Policy, happening, merge, names};
use tombolo_runtime::{
    Cache, Controller, Key, Next, Queue, delete_unchanged, in_time, is_not_found, unless_gone,
};

use crate::metrics::Direction;
use crate::shared::Shared;
use crate::write::{MANAGER, is_ours, merge_params};

/// A plan that takes longer to carry out is given up for now, while there is time left to take note of that. An attempt may
/// take 10 s in all.
const LONGEST_CARRYING_OUT: Duration = Duration::from_secs(8);

/// The controller of native names.
pub(crate) struct NativeNames {
    shared: Arc<Shared>,
    imports: Arc<Cache<ServiceImport>>,
    queue: Arc<Queue<Key>>,
}

impl NativeNames {
    pub(crate) fn new(shared: &Arc<Shared>, imports: &Arc<Cache<ServiceImport>>) -> Self {
        let queue = Arc::new(Queue::new());
        listening::listen(shared, imports, &queue);
        Self { shared: shared.clone(), imports: imports.clone(), queue }
    }
}

impl Controller for NativeNames {
    type Item = Key;

    const NAME: &'static str = "native-names";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let service = ServiceRef { namespace: item.namespace.clone(), name: item.name.clone() };
        let (import, present) = (self.imports.get(item), self.shared.services.get(item));
        let slices = self.shared.labelled_slices(&item.namespace, SERVICE_NAME_LABEL, &item.name);
        let plan = self.plan(&service, import.as_deref(), present.as_deref(), &slices);
        let carrying_out = self.carry_out(item, import, present.as_deref(), &slices, plan);
        let outcome = in_time(LONGEST_CARRYING_OUT, carrying_out).await;
        self.shared.progress.note_native_name(item, outcome.as_ref().err());
        outcome.map(|()| Next::Rest)
    }
}

impl NativeNames {
    fn plan(
        &self,
        service: &ServiceRef,
        import: Option<&ServiceImport>,
        present: Option<&Service>,
        slices: &[Arc<EndpointSlice>],
    ) -> Plan {
        let offers = self.shared.offers_of(Dialect::Mcs, service);
        let merged = merge(&Policy::MCS, service, offers.iter().map(|offer| &**offer)).import;
        let parts = merged.map(|merged| merged.clusters).unwrap_or_default();
        let own = &self.shared.config.cluster;
        let published = self.published(service, &parts);
        let (members, offer) = (self.shared.members(), names::offer(Dialect::Mcs, service));
        let sources = parts.iter().filter_map(|part| {
            let published = published.get(&part.cluster)?;
            let (slices, left_out) = self.shared.believed(&part.cluster, &offer, published);
            let declared = &members.get(&part.cluster)?.declared;
            Some(Source { part, declared, slices, left_out })
        });
        plan(&Situation {
            service,
            import,
            present,
            slices: slices.iter().map(|slice| &**slice).collect(),
            sources: sources.collect(),
            exported: parts.iter().any(|part| part.cluster == *own),
            supported: &self.shared.config.ip_families,
        })
    }

    /// What the other clusters that live publish of a service.
    fn published(
        &self,
        service: &ServiceRef,
        parts: &[Contribution],
    ) -> BTreeMap<ClusterId, Vec<Arc<EndpointSlice>>> {
        let offer = names::offer(Dialect::Mcs, service);
        let clusters = parts.iter().map(|part| &part.cluster);
        clusters
            .filter(|cluster| **cluster != self.shared.config.cluster && !self.shared.is_dead(cluster))
            .map(|cluster| (cluster.clone(), self.shared.offered_slices(cluster, &offer)))
            .collect()
    }

    /// Does what the plan says, in its order. The finalizer is there before anything that has to be undone, and stays until
    /// it is.
    async fn carry_out(
        &self,
        item: &Key,
        import: Option<Arc<ServiceImport>>,
        present: Option<&Service>,
        slices: &[Arc<EndpointSlice>],
        plan: Plan,
    ) -> Result<(), Error> {
        let import = match plan.finalizer {
            true => self.set_finalizer(import, true).await?,
            false => import,
        };
        let in_the_way = self.shared.put_slices(&item.namespace, &plan.slices).await?;
        self.change_service(item, present, &plan.service).await?;
        let goes = |slice: &&Arc<EndpointSlice>| match is_native(slice) {
            true => !plan.slices.contains_key(&slice.name_any()),
            false => plan.evicted.contains(&slice.name_any()),
        };
        self.shared.delete_slices(&item.namespace, slices.iter().filter(goes).cloned()).await?;
        let import = match plan.finalizer {
            true => import,
            false => self.set_finalizer(import, false).await?,
        };
        if let Some(import) = import {
            self.tell_drops(item, &import, plan.dropped).await;
            if let Some(planned) = plan.conditions {
                let conditions = match &in_the_way {
                    Some(error) => refused(&import, planned, &error.to_string()),
                    None => planned,
                };
                self.tell(&import, conditions).await?;
            }
        }
        in_the_way.map_or(Ok(()), Err)
    }

    async fn change_service(&self, item: &Key, present: Option<&Service>, step: &Step) -> Result<(), Error> {
        let api: Api<Service> = Api::namespaced(self.shared.member.clone(), &item.namespace);
        let version = present.and_then(ResourceExt::resource_version);
        match step {
            Step::Leave => Ok(()),
            Step::Create(service) => {
                // Not applied: a Service that somebody made meanwhile must not become ours.
                let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                api.create(&params, service).await.map(|_| ())
            }
            Step::Change(patch) => {
                let mut patch = patch.clone();
                patch["metadata"]["resourceVersion"] = json!(version);
                unless_gone(api.patch(&item.name, &merge_params(), &Patch::Merge(&patch)).await)
            }
            Step::Remove => match present {
                Some(present) => delete_unchanged(&api, present).await,
                None => Ok(()),
            },
        }
    }

    /// Sets or removes the finalizer. Returns the import as it is then.
    async fn set_finalizer(
        &self,
        import: Option<Arc<ServiceImport>>,
        wanted: bool,
    ) -> Result<Option<Arc<ServiceImport>>, Error> {
        let Some(import) = import else { return Ok(None) };
        let mut finalizers = import.finalizers().to_vec();
        if finalizers.iter().any(|name| name == NATIVE_NAMING_FINALIZER) == wanted {
            return Ok(Some(import));
        }
        finalizers.retain(|name| name != NATIVE_NAMING_FINALIZER);
        if wanted {
            finalizers.push(NATIVE_NAMING_FINALIZER.to_owned());
        }
        let metadata = json!({"finalizers": finalizers, "resourceVersion": import.resource_version()});
        let patch = json!({ "metadata": metadata });
        match self.api(&import).patch(&import.name_any(), &merge_params(), &Patch::Merge(&patch)).await {
            Ok(import) => Ok(Some(Arc::new(import))),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn api(&self, import: &ServiceImport) -> Api<ServiceImport> {
        Api::namespaced(self.shared.member.clone(), &import.namespace().unwrap_or_default())
    }

    /// Says on the import how its strategy does, and in an event when that is news.
    async fn tell(&self, import: &ServiceImport, desired: Vec<Desired>) -> Result<(), Error> {
        let mut conditions = import.status.clone().map(|status| status.conditions).unwrap_or_default();
        let told = happening::of_strategy(&conditions, &desired);
        let now = Time(self.shared.config.clock.now());
        let mut changed = desired.is_empty() && condition::remove(&mut conditions, StrategyApplied);
        for condition in desired {
            changed |= condition::set(&mut conditions, condition, now.clone());
        }
        if !changed {
            return Ok(());
        }
        let metadata = json!({"resourceVersion": import.resource_version()});
        let patch: Value = json!({"metadata": metadata, "status": {"conditions": conditions}});
        let api = self.api(import);
        unless_gone(api.patch_status(&import.name_any(), &merge_params(), &Patch::Merge(&patch)).await)?;
        if let Some(told) = told {
            self.shared.events.tell(import, &told).await;
        }
        Ok(())
    }

    /// Says which endpoints are left out; on a derived import whoever derived it does.
    async fn tell_drops(&self, item: &Key, import: &ServiceImport, dropped: BTreeMap<ClusterId, DropCount>) {
        if is_ours(import) {
            return;
        }
        let metrics = &self.shared.metrics;
        metrics
            .forget_drops(Direction::Imported, Dialect::Mcs, item, |cluster| dropped.contains_key(cluster));
        for (cluster, dropped) in dropped {
            let told = happening::of_drops(&cluster, &dropped);
            let passage = (Direction::Imported, Dialect::Mcs, item.clone(), cluster);
            let is_news = metrics.note_drops(passage, dropped);
            if let Some(told) = told.filter(|_| is_news) {
                self.shared.events.tell(import, &told).await;
            }
        }
    }
}

/// Whether a slice is one that was imported here. The stock controller copies the labels of a Service, also ours, to its
/// slices, but it knows of no source.
fn is_native(slice: &EndpointSlice) -> bool {
    let labels = slice.labels();
    is_ours(slice) && labels.contains_key(NATIVE_IMPORT_LABEL) && labels.contains_key(SOURCE_CLUSTER_LABEL)
}
