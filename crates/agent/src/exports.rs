//! Offering what the cluster exports, and saying on each export what became of it.

mod awaited;
mod cut_off;
mod departed;
mod listening;
mod overdue;
mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::{ObjectMeta, Patch};
use kube::{Api, Error, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tombolo_api::condition::{self, Stored as _};
use tombolo_api::service::SERVICE_NAME_LABEL;
use tombolo_api::tombolo::{
    EXPORT_FINALIZER, MANAGED_BY_LABEL, MANAGER, ServiceOffer, ServiceOfferSpec, ServiceRef,
};
use tombolo_model::acknowledge::{Acknowledgement, Member, Others, Versions, acknowledge};
use tombolo_model::address::{Declared, DropCount};
use tombolo_model::conditions::{Address, ExportState, Hindrance, of_export};
use tombolo_model::offer::{Offer, Refusal, offer};
use tombolo_model::slices::{self, Publication};
use tombolo_model::{Complaint, Merged, happening, merge, names};
use tombolo_runtime::{Controller, Key, LONGEST_ATTEMPT, Next, Queue, in_time, is_final};

pub(crate) use self::cut_off::CutOff;

use self::awaited::Awaited;
use self::departed::Departed;
use self::overdue::Overdue;
use self::topology::TopologyKeys;
use crate::edition::Edition;
use crate::membership::report_pace;
use crate::metrics::{Direction, add_drops};
use crate::shared::{EditionViews, Shared, hurry_on_return};
use crate::slices::{Call, replaceable, write_all};
use crate::write::{Extent, delete, in_the_way, is_ours, merge_params, put};

/// A hub that does not answer must leave some of an attempt for saying so on the export.
const LONGEST_OFFER: Duration = LONGEST_ATTEMPT.saturating_sub(Duration::from_secs(2));

/// As much as is told of what the hub says.
const LONGEST_WORDS: usize = 1000;

/// The controller of one edition's exports.
pub(crate) struct Exports<E: Edition> {
    shared: Arc<Shared>,
    views: Arc<EditionViews<E>>,
    queue: Arc<Queue<Key>>,
    awaited: Arc<Awaited>,
    departed: Arc<Departed>,
    overdue: Overdue,
    topology_keys: TopologyKeys,
}

impl<E: Edition> Exports<E> {
    pub(crate) fn new(shared: &Arc<Shared>, views: &Arc<EditionViews<E>>) -> Self {
        let (queue, awaited, departed) = (Arc::default(), Arc::default(), Arc::default());
        listening::listen::<E>(shared, views, &queue);
        listening::listen_to_departures::<E>(shared, views, &departed);
        listening::listen_to_members::<E>(shared, views, &queue, &awaited);
        listening::listen_to_reach::<E>(shared, views, &queue);
        hurry_on_return(shared, &queue);
        let (shared, views) = (shared.clone(), views.clone());
        let (overdue, topology_keys) = (Overdue::default(), TopologyKeys::default());
        Self { shared, views, queue, awaited, departed, overdue, topology_keys }
    }
}

impl<E: Edition> Controller for Exports<E> {
    type Item = Key;

    const NAME: &'static str = "exports";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let service = ServiceRef { namespace: item.namespace.clone(), name: item.name.clone() };
        match self.views.exports.get(item) {
            Some(export) if export.meta().deletion_timestamp.is_none() => {
                return self.publish(&service, &export).await;
            }
            Some(export) => {
                self.withdraw(&service).await?;
                self.set_finalizer(&export, false).await?;
            }
            None => self.withdraw(&service).await?,
        }
        Ok(Next::Rest)
    }
}

/// What came of offering an export.
#[derive(Default)]
struct Outcome<'a> {
    refusal: Option<&'a Refusal>,
    complaints: &'a [Complaint],
    hindrance: Option<Hindrance>,
    /// The versions that members have to pass; of what is not at the hub nothing can be awaited.
    versions: Versions,
}

impl<E: Edition> Exports<E> {
    async fn publish(&self, service: &ServiceRef, export: &E::Export) -> Result<Next, Error> {
        self.set_finalizer(export, true).await?;
        let found = self.shared.services.get(&Key::new(service.namespace.clone(), service.name.clone()));
        let topology_keys = self.topology_keys.of(&self.shared.member, service).await?;
        let begun = Instant::now();
        match offer(&self.shared.config.cluster, &E::export(export), found.as_deref(), topology_keys) {
            Ok(Offer { spec, complaints }) => {
                let key = Key::of(export);
                let outcome = Outcome { complaints: &complaints, ..Outcome::default() };
                match in_time(LONGEST_OFFER, self.offer(service, export, spec)).await {
                    Ok(versions) => {
                        self.overdue.forget(&key);
                        self.tell(service, export, Outcome { versions, ..outcome }).await
                    }
                    Err(error) => {
                        if self.overdue.is_over(&key, begun) || self.own_offer(service).is_none() {
                            let hindrance = Some(hindrance(&error));
                            self.tell(service, export, Outcome { hindrance, ..outcome }).await?;
                        }
                        Err(error)
                    }
                }
            }
            Err(refusal) => {
                // What is wrong with the export is said whether or not the hub answers.
                let gone = in_time(LONGEST_OFFER, self.withdraw(service)).await;
                let outcome = Outcome { refusal: Some(&refusal), ..Outcome::default() };
                let next = self.tell(service, export, outcome).await?;
                gone.map(|()| next)
            }
        }
    }

    /// Makes the hub know what the cluster has. Returns the versions that members have to pass.
    async fn offer(
        &self,
        service: &ServiceRef,
        export: &E::Export,
        spec: ServiceOfferSpec,
    ) -> Result<Versions, Error> {
        let stored = self.put_offer(service, spec).await?;
        self.put_slices(service, export, &stored).await
    }

    fn namespace(&self) -> String {
        names::hub_namespace(&self.shared.config.cluster)
    }

    fn own_offer(&self, service: &ServiceRef) -> Option<Arc<ServiceOffer>> {
        let name = names::offer(E::POLICY.dialect, service);
        self.shared.offers.get(&Key::new(self.namespace(), name))
    }

    fn own_slices(&self, service: &ServiceRef) -> BTreeMap<String, Arc<EndpointSlice>> {
        let offer = names::offer(E::POLICY.dialect, service);
        let ours = self.shared.offered_slices(&self.shared.config.cluster, &offer).into_iter();
        ours.map(|slice| (slice.name_any(), slice)).collect()
    }

    async fn put_offer(&self, service: &ServiceRef, spec: ServiceOfferSpec) -> Result<ServiceOffer, Error> {
        let api: Api<ServiceOffer> = Api::namespaced(self.shared.hub.clone(), &self.namespace());
        let mut desired = ServiceOffer::new(&names::offer(E::POLICY.dialect, service), spec);
        desired.metadata.labels = Some([(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned())].into());
        let current = self.own_offer(service);
        let written =
            put(&self.shared.ledgers.offers, &api, current.as_deref(), &desired, Extent::Whole).await?;
        Ok(written.or_else(|| current.as_deref().cloned()).unwrap_or(desired))
    }

    /// The versions of what others offer of the service.
    fn other_offers(&self, service: &ServiceRef) -> Others {
        let mut others = Others::default();
        for offer in self.shared.offers_of(E::POLICY.dialect, service) {
            others.include_offer(offer.resource_version().as_deref());
        }
        let key = Key::new(service.namespace.clone(), service.name.clone());
        others.offers = others.offers.max(self.departed.of(&key));
        others
    }

    /// Makes the slices at the hub those of the Service. Returns the versions that members have to pass.
    async fn put_slices(
        &self,
        service: &ServiceRef,
        export: &E::Export,
        offer: &ServiceOffer,
    ) -> Result<Versions, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.shared.hub.clone(), &self.namespace());
        let declared = Declared::read(&self.shared.config.pod_cidrs).0;
        let owner = owner(offer);
        let publication = Publication {
            cluster: &self.shared.config.cluster,
            dialect: E::POLICY.dialect,
            service,
            declared: &declared,
            owner: owner.as_ref(),
        };
        let held = self.own_slices(service);
        let mut versions = Versions { offer: offer.resource_version(), others: self.other_offers(service) };
        let mut wanted = BTreeMap::new();
        let mut dropped = DropCount::new();
        for source in self.shared.labelled_slices(&service.namespace, SERVICE_NAME_LABEL, &service.name) {
            if !slices::is_source(&source, service) {
                continue;
            }
            let selected = slices::publish(&publication, &source);
            add_drops(&mut dropped, selected.dropped);
            wanted.extend(selected.slice.map(|slice| (slice.name_any(), slice)));
        }
        let calls = wanted.iter().map(|(name, slice)| -> Call<'_, Option<String>> {
            let (api, current, ledger) = (&api, held.get(name).cloned(), &self.shared.ledgers.hub_slices);
            Box::pin(async move {
                let current = replaceable(api, current, slice).await?;
                let written = put(ledger, api, current.as_deref(), slice, Extent::Whole).await?;
                Ok(written.as_ref().or(current.as_deref()).and_then(ResourceExt::resource_version))
            })
        });
        let (written, refusal) = write_all(calls.collect()).await?;
        written.iter().for_each(|version| versions.others.include_slice(version.as_deref()));
        for (_, stale) in held.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
            delete(&api, &**stale).await?;
        }
        let key = Key::new(service.namespace.clone(), service.name.clone());
        let cluster = &self.shared.config.cluster;
        let told = happening::of_drops(cluster, &dropped);
        let passage = (Direction::Published, E::POLICY.dialect, key, cluster.clone());
        let is_news = self.shared.metrics.note_drops(passage, dropped);
        if let Some(told) = told.filter(|_| is_news) {
            self.shared.events.tell(export, &told).await;
        }
        refusal.map_or(Ok(versions), Err)
    }

    /// Takes back the offer and its slices. Other members see the offer go first, and with it the service.
    async fn withdraw(&self, service: &ServiceRef) -> Result<(), Error> {
        let key = Key::new(service.namespace.clone(), service.name.clone());
        self.awaited.forget(&key);
        self.departed.forget(&key);
        self.overdue.forget(&key);
        self.shared.metrics.forget_drops(Direction::Published, E::POLICY.dialect, &key, |_| false);
        if let Some(offer) = self.own_offer(service) {
            delete(&Api::namespaced(self.shared.hub.clone(), &self.namespace()), &*offer).await?;
        }
        for slice in self.own_slices(service).values() {
            delete(&Api::namespaced(self.shared.hub.clone(), &self.namespace()), &**slice).await?;
        }
        Ok(())
    }

    async fn set_finalizer(&self, export: &E::Export, wanted: bool) -> Result<(), Error> {
        let mut finalizers = export.finalizers().to_vec();
        if finalizers.iter().any(|name| name == EXPORT_FINALIZER) == wanted {
            return Ok(());
        }
        finalizers.retain(|name| name != EXPORT_FINALIZER);
        if wanted {
            finalizers.push(EXPORT_FINALIZER.to_owned());
        }
        let metadata = json!({"finalizers": finalizers, "resourceVersion": export.resource_version()});
        patch::<E>(&self.shared, export, &json!({"metadata": metadata}), false).await
    }

    /// Puts what became of the export into its conditions.
    async fn tell(
        &self,
        service: &ServiceRef,
        export: &E::Export,
        outcome: Outcome<'_>,
    ) -> Result<Next, Error> {
        let offers = self.shared.offers_of(E::POLICY.dialect, service);
        let merged = merge(E::POLICY, service, offers.iter().map(|offer| &**offer));
        let awaits = outcome.versions.offer.is_some();
        let seen = awaits.then(|| self.acknowledgement(service, export, &outcome.versions));
        let next = seen.as_ref().map_or(Next::Rest, |(_, next)| *next);
        let hindrance = outcome.hindrance.or_else(|| self.excess(service));
        let state = ExportState {
            refusal: outcome.refusal,
            complaints: outcome.complaints,
            hindrance: hindrance.as_ref(),
            address: self.address(service, &merged),
            verdict: merged.verdicts.get(&self.shared.config.cluster),
            acknowledgement: seen.as_ref().map(|(seen, _)| seen),
            cut_off: self.shared.reach.is_lost(),
            generation: export.meta().generation,
        };
        let now = Time(self.shared.config.clock.now());
        let mut conditions = E::conditions(export);
        let desired = of_export(E::POLICY.dialect, &state);
        let happened = happening::of_export(E::POLICY.dialect, &conditions, &desired);
        let mut changed = false;
        for condition in desired {
            changed |= condition::set(&mut conditions, condition, now.clone());
        }
        if !changed {
            return Ok(next);
        }
        // Over a condition that is newer than the one seen here, the time of its transition would be wrong.
        let metadata = json!({"resourceVersion": export.resource_version()});
        let status = json!({"conditions": conditions});
        patch::<E>(&self.shared, export, &json!({"metadata": metadata, "status": status}), true).await?;
        for happening in &happened {
            self.shared.events.tell(export, happening).await;
        }
        Ok(next)
    }

    /// How far the offer has come, and when to ask again.
    fn acknowledgement(
        &self,
        service: &ServiceRef,
        export: &E::Export,
        versions: &Versions,
    ) -> (Acknowledgement, Next) {
        let members = self.shared.members();
        let ask = |others| {
            let told = members.iter().map(|(cluster, member)| Member {
                cluster,
                live: !self.shared.is_dead(cluster),
                status: member.membership.status.as_ref(),
            });
            let versions = Versions { offer: versions.offer.clone(), others };
            acknowledge(&versions, E::POLICY.dialect, service, told)
        };
        let key = Key::new(service.namespace.clone(), service.name.clone());
        let pace = report_pace(members.len());
        self.awaited.judge(&key, versions.others, is_everywhere::<E>(export), pace, ask)
    }

    /// Whether an offer that is at the hub counts for nobody, not even here, because the cluster has too many.
    fn excess(&self, service: &ServiceRef) -> Option<Hindrance> {
        let beyond = self.own_offer(service).filter(|offer| !self.shared.roster.has_room_for(offer));
        beyond.map(|_| Hindrance::TooMany(self.shared.config.limits.offers))
    }

    /// Whether the service has its address in this cluster.
    fn address(&self, service: &ServiceRef, merged: &Merged) -> Address {
        let Some(import) = &merged.import else { return Address::Settled };
        let Some(name) = import.derived_service_name() else { return Address::Settled };
        if let Err(why) = import.derived_service(&self.shared.config.ip_families, None, None) {
            return Address::Failed(why.to_string());
        }
        match self.shared.services.get(&Key::new(service.namespace.clone(), name)) {
            Some(held) if is_ours(&*held) => Address::Settled,
            Some(taken) => Address::Failed(in_the_way(&*taken)),
            None => Address::Pending,
        }
    }
}

/// Merges into an export, or into its status.
async fn patch<E: Edition>(
    shared: &Shared,
    export: &E::Export,
    body: &Value,
    status: bool,
) -> Result<(), Error> {
    let api: Api<E::Export> = Api::namespaced(shared.member.clone(), &export.namespace().unwrap_or_default());
    let (name, patch) = (export.name_any(), Patch::Merge(body));
    match status {
        true => api.patch_status(&name, &merge_params(), &patch).await.map(|_| ()),
        false => api.patch(&name, &merge_params(), &patch).await.map(|_| ()),
    }
}

/// What to say of an attempt to bring an offer to the hub that failed.
fn hindrance(error: &Error) -> Hindrance {
    match error {
        Error::Api(status) if is_final(error) => {
            let why = format!("{}: {}", status.reason, status.message);
            Hindrance::Refused(why.chars().take(LONGEST_WORDS).collect())
        }
        _ => Hindrance::Untold,
    }
}

/// Whether the export says that it is known everywhere.
fn is_everywhere<E: Edition>(export: &E::Export) -> bool {
    let conditions = E::conditions(export);
    conditions.iter().any(|known| known.type_() == E::EVERYWHERE && known.status() == "True")
}

/// What ties slices at the hub to their offer.
fn owner(offer: &ServiceOffer) -> Option<OwnerReference> {
    let ObjectMeta { uid: Some(uid), name: Some(name), .. } = offer.metadata.clone() else { return None };
    Some(OwnerReference {
        api_version: ServiceOffer::api_version(&()).into_owned(),
        kind: ServiceOffer::kind(&()).into_owned(),
        name,
        uid,
        controller: None,
        block_owner_deletion: None,
    })
}
