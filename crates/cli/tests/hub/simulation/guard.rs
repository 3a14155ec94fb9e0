//! What must be true at every moment, whatever goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, ResourceExt};
use tokio::time::Instant;
use tombolo_api::condition;
use tombolo_api::karmada::cluster::{Cluster, ClusterCondition};
use tombolo_api::karmada::networking::{MultiClusterService, MultiClusterServiceCondition as Type};
use tombolo_api::karmada::strategy::MultiClusterStrategy;
use tombolo_model::multi_cluster_service::{Version, is_collected};
use tombolo_model::strategy::of_multi_cluster_service;
use tombolo_runtime::{Change, Key};

use super::schedule::Health;
use super::sight::{HubSight, MemberSight, addresses, service_name, source};
use super::truth::listed;
use crate::fleet::{Fleet, NAMESPACE};

/// A cluster is dead after 30 s; looking, writing and removing take the rest.
const DEATH: Duration = Duration::from_secs(45);
/// Who was disturbed has to reach the others again first: two heartbeats and the longest retry of a watch.
const RECOVERY: Duration = Duration::from_secs(50);
/// From a consumer that was away as well nothing is withdrawn for so long after its return.
const SETTLING: Duration = Duration::from_secs(30);
/// One that has left is forgotten within so long.
const LEAVE: Duration = Duration::from_secs(45);
/// A report that is younger may not have been seen by whoever claims something.
const KNOWN: Duration = Duration::from_secs(10);
/// What a restored hub says may be what it said in another time.
const MEMORIES: Duration = Duration::from_secs(90);

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    /// Healed, everything becomes what it should be.
    Convergence,
    /// And then nobody does anything.
    Quiet,
    /// Objects of users stay byte for byte as they are.
    Ownership,
    /// An older generation of a slice never overwrites a newer one.
    Generation,
    /// No slice of a dead cluster, or of one that has left, survives its lease.
    Expiry,
    /// No endpoint appears that its source never had.
    Provenance,
    /// A condition is `True` only when the clusters have what it speaks of.
    Truth,
}

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) invariant: Invariant,
    #[expect(dead_code, reason = "shown when a seed fails")]
    what: String,
}

impl Broken {
    pub(crate) fn new(invariant: Invariant, what: String) -> Self {
        Self { invariant, what }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happened, for whoever has to understand a failing seed. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<(Option<Instant>, Vec<String>)>>);

impl Log {
    pub(crate) fn note(&self, what: &str) {
        tracing::info!("{what}");
        let (now, mut log) = (Instant::now(), locked(&self.0));
        let at = now.duration_since(*log.0.get_or_insert(now));
        log.1.push(format!("{:>9.3}s {what}", at.as_secs_f64()));
    }

    pub(crate) fn text(&self) -> String {
        locked(&self.0).1.join("\n")
    }
}

/// What listeners find.
#[derive(Default)]
struct Findings {
    broken: Option<Broken>,
    /// Addresses that a cluster has had.
    published: BTreeSet<(String, String)>,
    /// Objects whose conditions came true, and how often users had touched the service then.
    claims: Vec<(Type, Arc<MultiClusterService>, u64)>,
    /// How often users have touched a service.
    touches: BTreeMap<String, u64>,
    /// Since when reports of slices are known.
    reports: BTreeMap<Key, Instant>,
}

/// Watches over one run.
pub(crate) struct Guard {
    findings: Arc<Mutex<Findings>>,
    log: Log,
    protected: Vec<(usize, Service)>,
    left: BTreeMap<String, Instant>,
    /// Members and services whose slices were tampered with.
    tampered: BTreeSet<(String, String)>,
    restored: Option<Instant>,
}

impl Guard {
    pub(crate) fn new(hub: &HubSight, log: Log) -> Self {
        let findings = Arc::new(Mutex::new(Findings::default()));
        let found = findings.clone();
        hub.objects.listen_to_changes(move |change| {
            if let Change::Put { old, new } = change {
                note_claims(&mut locked(&found), *old, new);
            }
        });
        let found = findings.clone();
        hub.works.listen_to_changes(move |change| match change {
            Change::Put { new, .. } if is_collected(new) => {
                locked(&found).reports.entry(Key::of(*new)).or_insert_with(Instant::now);
            }
            Change::Put { .. } => {}
            Change::Gone(last) => drop(locked(&found).reports.remove(&Key::of(*last))),
        });
        Self {
            findings,
            log,
            protected: Vec::new(),
            left: BTreeMap::new(),
            tampered: BTreeSet::new(),
            restored: None,
        }
    }

    /// Watches the slices of a member, change by change.
    pub(crate) fn watch(&self, name: &str, sight: &MemberSight) {
        let (findings, log, name) = (self.findings.clone(), self.log.clone(), name.to_owned());
        sight.slices.listen_to_changes(move |change| {
            let Change::Put { old, new } = change else { return };
            let Some(source) = source(new) else { return };
            let mut findings = locked(&findings);
            let mut broken = Vec::new();
            let versions = old.map(|old| (Version::of_copy(&old.metadata), Version::of_copy(&new.metadata)));
            if let Some((before, after)) = versions.filter(|(before, after)| !after.may_replace(before)) {
                let what = format!("{name}: {} went from {before:?} to {after:?}", new.name_any());
                broken.push(Broken::new(Invariant::Generation, what));
            }
            let had = |address: &String| findings.published.contains(&(source.to_owned(), address.clone()));
            if let Some(strange) = addresses(new).find(|address| !had(address)) {
                let what = format!("{name} has {strange} from {source}, which never had it");
                broken.push(Broken::new(Invariant::Provenance, what));
            }
            for broken in broken {
                log.note(&format!("{broken:?}"));
                findings.broken.get_or_insert(broken);
            }
        });
    }

    pub(crate) fn protect(&mut self, place: usize, service: Service) {
        self.protected.push((place, service));
    }

    pub(crate) fn is_protected(&self, place: usize, service: &str) -> bool {
        self.protected.iter().any(|(where_, mine)| *where_ == place && mine.name_any() == service)
    }

    /// A user is about to touch a service.
    pub(crate) fn touch(&self, service: &str) {
        *locked(&self.findings).touches.entry(service.to_owned()).or_default() += 1;
    }

    pub(crate) fn publish<'a>(&self, cluster: &str, addresses: impl Iterator<Item = &'a String>) {
        let had = addresses.map(|address| (cluster.to_owned(), address.clone()));
        locked(&self.findings).published.extend(had);
    }

    pub(crate) fn note_leave(&mut self, cluster: &str) {
        self.left.insert(cluster.to_owned(), Instant::now());
    }

    pub(crate) fn forget_leave(&mut self, cluster: &str) {
        self.left.remove(cluster);
    }

    /// A slice of a service was changed or deleted in a member. A member that cannot look now does not know.
    pub(crate) fn note_tampering(&mut self, member: &str, service: &str) {
        self.tampered.insert((member.to_owned(), service.to_owned()));
    }

    pub(crate) fn note_restore(&mut self) {
        self.restored = Some(Instant::now());
        // Whoever had left may be back.
        self.left.clear();
    }

    /// Looks at what has to be looked at.
    pub(crate) async fn look(
        &mut self,
        fleet: &Fleet,
        hub_sight: &HubSight,
        sights: &[MemberSight],
        members: &[Health],
        hub: &Health,
    ) -> Result<(), Broken> {
        if let Some(broken) = locked(&self.findings).broken.take() {
            return Err(broken);
        }
        self.check_ownership(fleet).await?;
        self.check_expiry(fleet, sights, members, hub)?;
        self.check_leaves(fleet, hub_sight, hub).await?;
        self.check_claims(fleet, hub_sight, sights, members, hub)
    }

    async fn check_ownership(&self, fleet: &Fleet) -> Result<(), Broken> {
        for (place, mine) in &self.protected {
            let member = &fleet.members[*place];
            let found = member.api::<Service>().get_opt(&mine.name_any()).await.unwrap();
            if found.as_ref() != Some(mine) {
                let what = format!("{}: a user's Service is {found:?}, not {mine:?}", member.name());
                return Err(Broken::new(Invariant::Ownership, what));
            }
        }
        Ok(())
    }

    fn check_expiry(
        &self,
        fleet: &Fleet,
        sights: &[MemberSight],
        members: &[Health],
        hub: &Health,
    ) -> Result<(), Broken> {
        if !lasts(hub.well, DEATH + SETTLING) {
            return Ok(());
        }
        for (place, dead) in members.iter().enumerate().filter(|(_, health)| lasts(health.silent, DEATH)) {
            let name = fleet.members[place].name();
            for (consumer, sight) in sights.iter().enumerate() {
                let slices = sight.slices.all();
                let left = slices.iter().find(|slice| source(slice) == Some(name));
                if let Some(left) = left.filter(|_| lasts(members[consumer].well, RECOVERY + SETTLING)) {
                    let what = format!(
                        "{} has {} although {name} is silent since {:?}",
                        fleet.members[consumer].name(),
                        left.name_any(),
                        dead.silent.map(|since| since.elapsed())
                    );
                    return Err(Broken::new(Invariant::Expiry, what));
                }
            }
        }
        Ok(())
    }

    /// A cluster that was made to leave is gone from the hub, although it cannot answer.
    async fn check_leaves(&self, fleet: &Fleet, hub_sight: &HubSight, hub: &Health) -> Result<(), Broken> {
        for (name, _) in self.left.iter().filter(|(_, when)| when.elapsed() >= LEAVE) {
            if !lasts(hub.well, LEAVE) {
                continue;
            }
            let namespaces: Api<Namespace> = Api::all(fleet.hub.client());
            let namespace = namespaces.get_opt(&format!("karmada-es-{name}")).await.unwrap();
            let cluster = hub_sight.clusters.get(&Key::new("", name.clone()));
            if namespace.is_some() || cluster.is_some() {
                let what = format!("{name} has left, but its Cluster or its namespace is there");
                return Err(Broken::new(Invariant::Expiry, what));
            }
        }
        Ok(())
    }

    fn check_claims(
        &mut self,
        fleet: &Fleet,
        hub_sight: &HubSight,
        sights: &[MemberSight],
        members: &[Health],
        hub: &Health,
    ) -> Result<(), Broken> {
        let looks = fleet.members.iter().zip(members).filter(|(_, health)| lasts(health.well, RECOVERY));
        let looks: Vec<&str> = looks.map(|(member, _)| member.name()).collect();
        self.tampered.retain(|(member, _)| !looks.contains(&member.as_str()));
        let claims = std::mem::take(&mut locked(&self.findings).claims);
        let remembers = self.restored.is_some_and(|when| when.elapsed() < MEMORIES);
        for (type_, object, touches) in claims {
            let current = hub_sight.objects.get(&Key::of(&*object));
            let stands = current.is_some_and(|now| claim(type_, &now).is_some() && now.spec == object.spec);
            let touched = locked(&self.findings).touches.get(&object.name_any()) != Some(&touches);
            if remembers || !stands || touched || !lasts(hub.well, KNOWN) {
                continue;
            }
            let there = |name: &str| is_ready(hub_sight, name);
            let places = fleet.members.iter().map(|member| member.name().to_owned());
            let places: Vec<String> = places.filter(|name| there(name)).collect();
            let sight = |name: &str| {
                let place = fleet.members.iter().position(|member| member.name() == name);
                place.map(|place| &sights[place])
            };
            let missing = match type_ {
                Type::ServiceApplied => missing_services(&object, &places, sight),
                _ => self.missing_slices(&object, &places, sight),
            };
            if let Some(missing) = missing {
                let what = format!("{type_} of {} is True, but {missing}", object.name_any());
                return Err(Broken::new(Invariant::Truth, what));
            }
        }
        Ok(())
    }

    /// A slice that was reported long enough ago and is not in a consumer.
    fn missing_slices<'a>(
        &self,
        object: &MultiClusterService,
        places: &[String],
        sight: impl Fn(&str) -> Option<&'a MemberSight>,
    ) -> Option<String> {
        if of_multi_cluster_service(object.annotations()) != Ok(MultiClusterStrategy::RemoteAndLocal) {
            return None;
        }
        let known = locked(&self.findings).reports.clone();
        let provision = listed(&object.spec.service_provision_clusters, places);
        let consumption = listed(&object.spec.service_consumption_clusters, places);
        for from in provision.iter().filter(|name| places.iter().any(|place| place == *name)) {
            if !has_reported(&known, from, &object.name_any()) {
                continue;
            }
            let unaware = |to: &str| self.tampered.contains(&(to.to_owned(), object.name_any()));
            for to in consumption.iter().filter(|to| *to != from && !unaware(to)) {
                let Some(sight) = sight(to).filter(|_| places.iter().any(|place| place == to)) else {
                    continue;
                };
                let slices = sight.slices.all();
                let has = slices
                    .iter()
                    .any(|slice| source(slice) == Some(*from) && service_name(slice) == object.name_any());
                if !has {
                    return Some(format!("{to} has nothing from {from}"));
                }
            }
        }
        None
    }
}

/// Whether a cluster has reported a slice of a service, long enough ago. A report is called after its service.
fn has_reported(known: &BTreeMap<Key, Instant>, cluster: &str, service: &str) -> bool {
    let namespace = format!("karmada-es-{cluster}");
    let slice = format!("{service}-abc");
    known.iter().any(|(key, since)| {
        key.namespace == namespace && key.name.contains(&slice) && since.elapsed() >= KNOWN
    })
}

fn missing_services<'a>(
    object: &MultiClusterService,
    places: &[String],
    sight: impl Fn(&str) -> Option<&'a MemberSight>,
) -> Option<String> {
    let mut targets = listed(&object.spec.service_provision_clusters, places);
    targets.extend(listed(&object.spec.service_consumption_clusters, places));
    let key = Key::new(NAMESPACE, object.name_any());
    let lacks = |name: &&str| sight(name).is_none_or(|sight| sight.services.get(&key).is_none());
    targets.into_iter().find(lacks).map(|name| format!("{name} has no such Service"))
}

fn is_ready(hub: &HubSight, name: &str) -> bool {
    let is_true = |cluster: Arc<Cluster>| {
        let conditions = cluster.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        condition::is_true(&conditions, ClusterCondition::Ready)
            && cluster.metadata.deletion_timestamp.is_none()
    };
    hub.clusters.get(&Key::new("", name)).is_some_and(is_true)
}

fn lasts(since: Option<Instant>, long: Duration) -> bool {
    since.is_some_and(|since| since.elapsed() >= long)
}

/// The generation of which a condition is true, if it is the present one.
fn claim(type_: Type, object: &MultiClusterService) -> Option<i64> {
    let conditions = object.status.as_ref().map(|status| status.conditions.as_slice());
    let found = condition::find(conditions.unwrap_or_default(), type_).cloned();
    let found = found.filter(|found| found.status == "True")?.observed_generation?;
    (Some(found) == object.metadata.generation).then_some(found)
}

/// Takes note of conditions that have come true, or are true of a new generation.
fn note_claims(findings: &mut Findings, old: Option<&MultiClusterService>, new: &MultiClusterService) {
    for type_ in [Type::ServiceApplied, Type::EndpointSliceApplied] {
        let now = claim(type_, new);
        if now.is_some() && now != old.and_then(|old| claim(type_, old)) {
            let touches = findings.touches.get(&new.name_any()).copied().unwrap_or_default();
            findings.claims.push((type_, Arc::new(new.clone()), touches));
        }
    }
}
