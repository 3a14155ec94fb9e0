//! Bringing in what the clusters offer: the import, the Service that holds its address, the slices.

mod distribution;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PostParams};
use kube::core::Status;
use kube::{Api, Error, Resource, ResourceExt};
use serde_json::json;
use tombolo_api::mcs::{ImportReadyReason, SOURCE_CLUSTER_LABEL};
use tombolo_api::tombolo::{OFFER_LABEL, ServiceOffer, ServiceRef};
use tombolo_model::address::{DropCount, Dropped};
use tombolo_model::conditions::ImportState;
use tombolo_model::import::{NotDerived, must_be_replaced};
use tombolo_model::slices::{self, Consumption};
use tombolo_model::{ClusterId, Import, happening, merge, names};
use tombolo_runtime::{Change, Controller, Key, LONGEST_ATTEMPT, Next, Queue, in_time, unless_there};

use self::distribution::Distributions;
use crate::edition::Edition;
use crate::metrics::{Direction, add_drops};
use crate::shared::{EditionViews, Shared, hurry_on_return};
use crate::write::{Extent, Ledger, apply_params, delete, find, is_ours, name_taken, put};

/// A server that hangs must leave some of an attempt for taking note of that: one that is given up from outside names no failure,
/// and holds back what is said of all other services.
const LONGEST_IMPORT: Duration = LONGEST_ATTEMPT.saturating_sub(Duration::from_secs(1));

/// The controller of one edition's imports.
pub(crate) struct Imports<E: Edition> {
    shared: Arc<Shared>,
    views: Arc<EditionViews<E>>,
    queue: Arc<Queue<Key>>,
    distributions: Distributions,
}

impl<E: Edition> Imports<E> {
    pub(crate) fn new(shared: &Arc<Shared>, views: &Arc<EditionViews<E>>) -> Self {
        let queue = Arc::new(Queue::new());
        listen::<E>(shared, views, &queue);
        hurry_on_return(shared, &queue);
        let distributions = Distributions::default();
        Self { shared: shared.clone(), views: views.clone(), queue, distributions }
    }
}

/// Every change that may change an import puts it into the queue.
fn listen<E: Edition>(shared: &Arc<Shared>, views: &Arc<EditionViews<E>>, queue: &Arc<Queue<Key>>) {
    listen_to_hub::<E>(shared, queue);
    views.imports.listen_to_changes(unless_echo(&views.ledger, queue, |import| Some(Key::of(import))));
    shared.slices.listen_to_changes(unless_echo(&shared.ledgers.slices, queue, import_of::<E, _>));
    shared.services.listen_to_changes(unless_echo(&shared.ledgers.services, queue, import_of::<E, _>));
    let (add, offers) = (queue.clone(), shared.clone());
    shared.namespaces.listen(move |namespace| {
        let name = namespace.name_any();
        let all = offers.offers.all().into_iter();
        all.filter(|offer| offer.spec.dialect == E::POLICY.dialect && offer.spec.service.namespace == name)
            .for_each(|offer| add.add(key(&offer.spec.service)));
    });
    let (add, offers) = (queue.clone(), shared.clone());
    shared.on_death_or_return(move |cluster| {
        services_of::<E>(&offers, cluster).into_iter().for_each(|key| add.add(key));
    });
}

/// Adds the imports that a change of an object concerns. What this agent wrote is as it wants it.
fn unless_echo<K: ResourceExt>(
    ledger: &Arc<Ledger>,
    queue: &Arc<Queue<Key>>,
    import: impl Fn(&K) -> Option<Key> + Send + Sync + 'static,
) -> impl Fn(&Change<'_, K>) + Send + Sync + 'static {
    let (ledger, add) = (ledger.clone(), queue.clone());
    move |change| {
        let (old, new) = match change {
            Change::Put { old, new } => (*old, *new),
            Change::Gone(last) => (None, *last),
        };
        if !ledger.is_echo(change) {
            old.into_iter().chain([new]).filter_map(&import).for_each(|key| add.add(key));
        }
    }
}

/// The import that a slice or Service belongs to.
fn import_of<E: Edition, K: ResourceExt>(object: &K) -> Option<Key> {
    let name = object.labels().get(E::POLICY.import_label)?;
    Some(Key::new(object.namespace().unwrap_or_default(), name.clone()))
}

/// What the hub shows has to be applied, and how far that has come is told.
fn listen_to_hub<E: Edition>(shared: &Arc<Shared>, queue: &Arc<Queue<Key>>) {
    let (add, seen) = (queue.clone(), shared.clone());
    shared.offers.listen_to_changes(move |change| {
        let (Change::Put { new: offer, .. } | Change::Gone(offer)) = change;
        if offer.spec.dialect == E::POLICY.dialect {
            let key = key(&offer.spec.service);
            seen.progress.saw_offer::<E>(&key, change);
            add.add(key);
        }
        // An offer may come to speak of another service.
        if let Change::Put { old: Some(old), .. } = change {
            add_service::<E>(&add, old);
        }
    });
    let (add, seen) = (queue.clone(), shared.clone());
    shared.hub_slices.listen_to_changes(move |change| {
        let (Change::Put { new: slice, .. } | Change::Gone(slice)) = change;
        let label = slice.labels().get(OFFER_LABEL).cloned().unwrap_or_default();
        let place = Key::new(slice.namespace().unwrap_or_default(), label);
        let Some(offer) = seen.offers.get(&place) else {
            return seen.progress.saw_early_slice(change);
        };
        if offer.spec.dialect == E::POLICY.dialect {
            let key = key(&offer.spec.service);
            seen.progress.saw_slice::<E>(&key, change);
            add.add(key);
        }
    });
    let (add, offers) = (queue.clone(), shared.offers.clone());
    shared.roster.on_displacement(move |place| {
        offers.get(place).iter().for_each(|offer| add_service::<E>(&add, offer));
    });
    let (add, offers) = (queue.clone(), shared.offers.clone());
    shared.roster.on_member(move |namespace| {
        offers.within(namespace).iter().for_each(|offer| add_service::<E>(&add, offer));
    });
}

fn add_service<E: Edition>(queue: &Queue<Key>, offer: &ServiceOffer) {
    if offer.spec.dialect == E::POLICY.dialect {
        queue.add(key(&offer.spec.service));
    }
}

fn key(service: &ServiceRef) -> Key {
    Key::new(service.namespace.clone(), service.name.clone())
}

impl<E: Edition> Controller for Imports<E> {
    type Item = Key;

    const NAME: &'static str = "imports";
    const ABREAST: usize = 8;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, item: &Key) -> Result<Next, Error> {
        let work = self.shared.progress.begin::<E>(item);
        let service = ServiceRef { namespace: item.namespace.clone(), name: item.name.clone() };
        let offers = self.shared.offers_of(E::POLICY.dialect, &service);
        let merged = merge(E::POLICY, &service, offers.iter().map(|offer| &**offer));
        let outcome = in_time(LONGEST_IMPORT, async {
            match &merged.import {
                Some(import) => self.bring_in(item, import).await,
                None => self.take_out(item, &service).await,
            }
        });
        work.end(outcome.await)
    }
}

impl<E: Edition> Imports<E> {
    async fn bring_in(&self, item: &Key, import: &Import) -> Result<Next, Error> {
        if !self.has_namespace(&item.namespace).await? {
            tracing::info!(service = %item, "not imported yet: there is no such namespace");
            return Ok(Next::Rest);
        }
        let api: Api<E::Import> = Api::namespaced(self.shared.member.clone(), &item.namespace);
        let current = find(&api, self.views.imports.get(item), &item.name).await?;
        if let Some(taken) = current.as_deref().filter(|import| !is_ours(*import)) {
            // It may have been ours: what belonged to it goes.
            self.take_out_parts(item, &import.service).await?;
            return if E::USERS_IMPORT { Ok(Next::Rest) } else { Err(name_taken(taken)) };
        }
        let (vips, state) = self.put_derived_service(import).await?;
        let object = self.put_import(item, import, current, &vips).await?;
        self.put_slices(import, &object).await?;
        self.tell(item, &E::import(import, &vips), &object, &state).await?;
        match state {
            ImportState::NotDerived(why @ NotDerived::FamilyNotSupported(_)) if !E::IMPORTS_SPEAK => {
                Err(not_supported(&why))
            }
            _ => Ok(Next::Rest),
        }
    }

    async fn has_namespace(&self, name: &str) -> Result<bool, Error> {
        if let Some(found) = self.shared.namespaces.get(&Key::new("", name)) {
            return Ok(found.metadata.deletion_timestamp.is_none());
        }
        if self.shared.config.create_namespaces {
            let api: Api<Namespace> = Api::all(self.shared.member.clone());
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            // The other edition may have made it meanwhile.
            unless_there(api.create(&PostParams::default(), &namespace).await)?;
        }
        Ok(self.shared.config.create_namespaces)
    }

    /// Makes the Service that holds the address, or removes it where there can be none. Returns the addresses and how the
    /// import does for it.
    async fn put_derived_service(&self, import: &Import) -> Result<(Vec<IpAddr>, ImportState), Error> {
        let name = names::derived_service(import.dialect, &import.service);
        let key = Key::new(import.service.namespace.clone(), name);
        let cached = self.shared.services.get(&key);
        let ours = cached.clone().filter(|service| is_ours(&**service));
        let families = &self.shared.config.ip_families;
        let api: Api<Service> = Api::namespaced(self.shared.member.clone(), &key.namespace);
        let mut desired = match import.derived_service(families, ours.as_deref(), None) {
            Ok(desired) => desired,
            Err(why) => {
                if let Some(stale) = ours {
                    delete(&api, &*stale).await?;
                }
                return Ok((Vec::new(), ImportState::NotDerived(why)));
            }
        };
        self.distributions.adapt(&self.shared.member, &mut desired).await?;
        let mut current = find(&api, cached, &key.name).await?;
        if let Some(taken) = current.as_deref().filter(|service| !is_ours(*service)) {
            // Slices of ours carry its name, so they would stand behind it, and nobody would keep them up to date.
            self.replace_slices(&import.service, BTreeMap::new()).await?;
            return Err(name_taken(taken));
        }
        if let Some(stale) = current.take_if(|held| must_be_replaced(held, &desired)) {
            delete(&api, &*stale).await?;
        }
        let written =
            put(&self.shared.ledgers.services, &api, current.as_deref(), &desired, Extent::Part).await?;
        let held = written.as_ref().or(current.as_deref());
        let spec = held.and_then(|service| service.spec.as_ref());
        let ips = spec.and_then(|spec| spec.cluster_ips.as_ref()).into_iter().flatten();
        let ips: Vec<IpAddr> = ips.filter_map(|ip| ip.parse().ok()).collect();
        let state = match ips.is_empty() {
            true => ImportState::Pending("the service has no address in this cluster yet".to_owned()),
            false => ImportState::Ready,
        };
        Ok((ips, state))
    }

    async fn put_import(
        &self,
        item: &Key,
        import: &Import,
        current: Option<Arc<E::Import>>,
        vips: &[IpAddr],
    ) -> Result<E::Import, Error> {
        let api: Api<E::Import> = Api::namespaced(self.shared.member.clone(), &item.namespace);
        let desired = E::import(import, vips);
        let written = put(&self.views.ledger, &api, current.as_deref(), &desired, Extent::Whole).await?;
        Ok(match (written, current) {
            (Some(written), _) => written,
            (None, Some(current)) => (*current).clone(),
            (None, None) => desired,
        })
    }

    /// Says on the import how it does, where its edition has a place for that.
    async fn tell(
        &self,
        item: &Key,
        desired: &E::Import,
        held: &E::Import,
        state: &ImportState,
    ) -> Result<(), Error> {
        let now = Time(self.shared.config.clock.now());
        let Some(status) = E::import_status(desired, held, state, &now) else { return Ok(()) };
        let body = json!({
            "apiVersion": E::POLICY.import_kind.0,
            "kind": E::POLICY.import_kind.1,
            // The condition's history is that of this version.
            "metadata": {"name": item.name, "resourceVersion": held.meta().resource_version},
            "status": status,
        });
        let api: Api<E::Import> = Api::namespaced(self.shared.member.clone(), &item.namespace);
        let told = api.patch_status(&item.name, &apply_params(), &Patch::Apply(&body)).await?;
        self.views.ledger.note_status(held, &told);
        Ok(())
    }

    async fn put_slices(&self, import: &Import, object: &E::Import) -> Result<(), Error> {
        let owner = object.meta().uid.as_deref().map(|uid| import.owner_reference(uid));
        let offer = names::offer(import.dialect, &import.service);
        let mut wanted: BTreeMap<String, EndpointSlice> = BTreeMap::new();
        let members = self.shared.members();
        for part in import.clusters.iter().filter(|part| !self.shared.is_dead(&part.cluster)) {
            let Some(source) = members.get(&part.cluster) else { continue };
            let consumption = Consumption {
                import,
                source: &part.cluster,
                consumer: &self.shared.config.cluster,
                declared: &source.declared,
                region: source.membership.spec.region.as_deref(),
                owner: owner.as_ref(),
            };
            let (selected, dropped) = self.select(&consumption, &offer);
            wanted.extend(selected.into_iter().map(|slice| (slice.name_any(), slice)));
            let told = happening::of_drops(&part.cluster, &dropped);
            let passage = (Direction::Imported, import.dialect, key(&import.service), part.cluster.clone());
            let is_news = self.shared.metrics.note_drops(passage, dropped);
            if let Some(told) = told.filter(|_| is_news) {
                self.shared.events.tell(object, &told).await;
            }
        }
        let is_part =
            |cluster: &ClusterId| import.contribution(cluster).is_some() && !self.shared.is_dead(cluster);
        self.shared.metrics.forget_drops(Direction::Imported, import.dialect, &key(&import.service), is_part);
        self.replace_slices(&import.service, wanted).await
    }

    /// What one source offers of a service, as it goes into this cluster, and what is left out.
    fn select(&self, consumption: &Consumption<'_>, offer: &str) -> (Vec<EndpointSlice>, DropCount) {
        let source = consumption.source;
        let published = self.shared.offered_slices(source, offer);
        let (admitted, left_out) = self.shared.believed(source, offer, &published);
        let (mut selected, mut dropped) = (Vec::new(), DropCount::new());
        if left_out > 0 {
            dropped.insert(Dropped::TooMany, left_out);
        }
        for slice in admitted {
            let one = slices::import(consumption, slice);
            add_drops(&mut dropped, one.dropped);
            selected.extend(one.slice);
        }
        (selected, dropped)
    }

    /// Makes the slices of a service exactly those that are wanted: first the new and changed, then the ones to go, so
    /// that there is no moment without endpoints.
    async fn replace_slices(
        &self,
        service: &ServiceRef,
        wanted: BTreeMap<String, EndpointSlice>,
    ) -> Result<(), Error> {
        let in_the_way = self.shared.put_slices(&service.namespace, &wanted).await?;
        let held = self.held_slices(service).into_iter();
        let stale = held.filter(|slice| !wanted.contains_key(&slice.name_any()));
        self.shared.delete_slices(&service.namespace, stale).await?;
        in_the_way.map_or(Ok(()), Err)
    }

    fn held_slices(&self, service: &ServiceRef) -> Vec<Arc<EndpointSlice>> {
        let mut held = self.shared.labelled_slices(&service.namespace, E::POLICY.import_label, &service.name);
        held.retain(|slice| is_ours(&**slice) && slice.labels().contains_key(SOURCE_CLUSTER_LABEL));
        held
    }

    /// Removes everything of a service that nobody offers any more, as far as it is ours.
    async fn take_out(&self, item: &Key, service: &ServiceRef) -> Result<Next, Error> {
        self.shared.metrics.forget_drops(Direction::Imported, E::POLICY.dialect, item, |_| false);
        self.take_out_parts(item, service).await?;
        if let Some(import) = self.views.imports.get(item).filter(|import| is_ours(&**import)) {
            delete(&Api::namespaced(self.shared.member.clone(), &item.namespace), &*import).await?;
        }
        Ok(Next::Rest)
    }

    /// Removes what belongs to an import of ours: its slices and the Service that holds its address.
    async fn take_out_parts(&self, item: &Key, service: &ServiceRef) -> Result<(), Error> {
        self.replace_slices(service, BTreeMap::new()).await?;
        let derived = Key::new(item.namespace.clone(), names::derived_service(E::POLICY.dialect, service));
        if let Some(derived) = self.shared.services.get(&derived).filter(|service| is_ours(&**service)) {
            delete(&Api::namespaced(self.shared.member.clone(), &item.namespace), &*derived).await?;
        }
        Ok(())
    }
}

/// The error where nothing but the export can say that this cluster has no address for an import.
fn not_supported(why: &NotDerived) -> Error {
    let reason = ImportReadyReason::IpFamilyNotSupported.as_str();
    Error::Api(Box::new(Status::failure(&why.to_string(), reason).with_code(422)))
}

/// The services of a source, for when it dies or comes back.
fn services_of<E: Edition>(shared: &Shared, cluster: &ClusterId) -> Vec<Key> {
    let namespace = names::hub_namespace(cluster);
    let all = shared.offers.within(&namespace).into_iter();
    all.filter(|offer| offer.spec.dialect == E::POLICY.dialect)
        .map(|offer| key(&offer.spec.service))
        .collect()
}
