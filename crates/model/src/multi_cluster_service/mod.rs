//! What a MultiClusterService asks for: which Works are in which execution namespace, and what can be said about it.
//!
//! The hub holds the Service and the MultiClusterService, members confirm and report in the Works of their execution
//! namespaces; from all that [`plan`] makes the Works that shall be there and the three conditions of Karmada's proposal. Slices go
//! from every provision cluster that is alive to every consumption cluster but their own. From a consumer that is not alive
//! itself, or has only just returned, nothing is withdrawn: clusters may lose their way to the hub together.
//!
//! ```text
//! Service template ── service::manifest ──► Work in every provision and consumption cluster's namespace
//! member's slices ── slices::collect ──► Work in its own namespace ── slices::dispatch ──► Works for the consumers
//! ```
//!
//! A MultiClusterService that makes no sense is refused, and nothing is changed on its behalf until it does: a slip of the
//! pen must not take a service down. One whose annotations make no sense goes on with those it had, and one that lists ports
//! which its Service does not have with the others, so that its endpoints are followed meanwhile.

mod balancer;
mod conditions;
mod ports;
mod readiness;
mod service;
mod slices;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use tombolo_api::UnknownWord;
use tombolo_api::condition::Desired;
use tombolo_api::karmada::networking::{
    Clusters, MultiClusterService, NAME_LABEL, NAMESPACE_LABEL, PROVISION_LABEL, SpellingsDiffer,
};
use tombolo_api::karmada::strategy::STRATEGY_ANNOTATION;
use tombolo_api::karmada::work::{
    CONFLICT_RESOLUTION_ANNOTATION, ConflictResolution, Work, WorkSpec, Workload,
};
use tombolo_api::tombolo::{LOCAL_FIRST_MIN_READY_ANNOTATION, MANAGED_BY_LABEL, MANAGER, ServiceRef};

use crate::address::{Declared, Dropped};
use crate::cluster::ClusterId;
use crate::names;
use crate::origin::Limits;
use crate::strategy;
use crate::strategy::local_first::{BadMinReady, MinReady};

pub use balancer::NotBalanceable;
pub use conditions::{events, is_confirmed, reasons_of};
pub use ports::{same_ports, serves, translate};
pub use readiness::{Readiness, ready_condition};
pub use service::Unlisted;
pub use slices::{Collection, collect, is_collectable, is_collected};
pub use version::Version;

/// A cluster that is a member and not leaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether it is alive.
    pub ready: bool,
    /// Whether it was heard just now, and has been ready for so long that a cluster that lost its way to the hub together with it
    /// would be heard by now, too.
    pub settled: bool,
    /// The addresses it may have endpoints at.
    pub declared: Declared,
}

/// All there is to know about one MultiClusterService.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub object: &'a MultiClusterService,
    /// The Service of the same name at the hub.
    pub template: Option<&'a Service>,
    pub members: &'a BTreeMap<ClusterId, Member>,
    /// The Works of this MultiClusterService in all execution namespaces.
    pub works: &'a [&'a Work],
    /// How much one member may report.
    pub limits: &'a Limits,
    /// What was tried for this MultiClusterService, and failed.
    pub unwritten: &'a Unwritten,
}

/// Where a Work is: namespace and name.
pub type Place = (String, String);

/// The Works that could not be written or removed, each with why, if that is worth telling and not just a matter of time.
pub type Unwritten = BTreeMap<Place, Option<String>>;

/// What shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The Works to be written where they differ.
    pub works: BTreeMap<Place, Work>,
    /// The Works that members wrote, or that are newer than what could be written, and stay as they are. Every other one
    /// goes.
    pub keep: BTreeSet<Place>,
    pub conditions: Vec<Desired>,
    /// Why endpoints that clusters reported go to nobody.
    pub left_out: BTreeMap<ClusterId, BTreeSet<Dropped>>,
    /// The addresses of the consumption clusters' load balancers; `None` if what was said of them stays.
    pub load_balancer: Option<LoadBalancerStatus>,
    /// Whether some of what is kept goes once all that are alive have settled.
    pub settling: bool,
}

/// Why nothing is done for a MultiClusterService.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Spellings(#[from] SpellingsDiffer),
    #[error(transparent)]
    Ports(#[from] Unlisted),
    #[error(transparent)]
    Balancer(#[from] NotBalanceable),
    #[error("annotation {STRATEGY_ANNOTATION}: {0}")]
    Strategy(#[from] UnknownWord),
    #[error("annotation {0}")]
    MinReady(#[from] BadMinReady),
    #[error("annotation {CONFLICT_RESOLUTION_ANNOTATION}: {0}")]
    Resolution(UnknownWord),
}

/// The clusters of a list: each with what is known about it if it is a member.
pub(crate) type Listed<'a> = BTreeMap<&'a str, Option<&'a Member>>;

/// Who provides and who consumes.
#[derive(Clone, Debug)]
pub(crate) struct Roles<'a> {
    pub(crate) provision: Listed<'a>,
    pub(crate) consumption: Listed<'a>,
}

impl<'a> View<'a> {
    /// The Service that is shared.
    pub fn service(&self) -> ServiceRef {
        let metadata = &self.object.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        ServiceRef { namespace: text(&metadata.namespace), name: text(&metadata.name) }
    }

    fn roles(&self) -> Result<Roles<'a>, Refusal> {
        let (provision, consumption) = (self.object.spec.provision()?, self.object.spec.consumption()?);
        Ok(Roles { provision: self.listed(provision), consumption: self.listed(consumption) })
    }

    fn listed(&self, clusters: Clusters<'a>) -> Listed<'a> {
        match clusters {
            Clusters::All => self.members.iter().map(|(id, member)| (id.as_str(), Some(member))).collect(),
            Clusters::Named(names) => names.into_iter().map(|name| (name, self.members.get(name))).collect(),
        }
    }

    /// The member in whose execution namespace a Work is.
    fn holder(&self, work: &Work) -> Option<&'a Member> {
        let namespace = work.metadata.namespace.as_ref();
        let is_there = |id: &ClusterId| names::execution_namespace(id).as_ref() == namespace;
        self.members.iter().find(|(id, _)| is_there(id)).map(|(_, member)| member)
    }

    fn annotation(&self, key: &str) -> Option<&'a String> {
        self.object.metadata.annotations.as_ref()?.get(key)
    }
}

/// Whether a change of a cluster can matter to a MultiClusterService.
pub fn concerns(object: &MultiClusterService, cluster: &str) -> bool {
    let names = |list: Result<Clusters<'_>, SpellingsDiffer>| match list {
        Ok(Clusters::Named(names)) => names.contains(cluster),
        // Nobody knows who is meant; and the slices of one that dies are to go in any case.
        Ok(Clusters::All) | Err(_) => true,
    };
    names(object.spec.provision()) || names(object.spec.consumption())
}

/// What shall be at the hub on behalf of a MultiClusterService. An object that is being deleted wants nothing.
pub fn plan(view: &View<'_>) -> Plan {
    if view.object.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    match wanted(view) {
        Ok((roles, plan)) => Plan {
            conditions: conditions::tell(view, &roles, &plan),
            load_balancer: Some(balancer::gather(view, &roles)),
            ..plan
        },
        Err(refusal) => as_before(view, &refusal).unwrap_or_else(|| refused(view, &refusal)),
    }
}

/// The annotations that travel on Works: what the member needs to know to combine local and remote endpoints.
const PASSED_ON: [&str; 2] = [STRATEGY_ANNOTATION, LOCAL_FIRST_MIN_READY_ANNOTATION];

/// A service that is shared goes on with the words it had when the new ones are nobody's: its Works have them still. And with
/// the ports that there are when others are listed, too.
fn as_before(view: &View<'_>, refusal: &Refusal) -> Option<Plan> {
    let former = view.works.iter().find(|work| !is_collected(work))?;
    let mut object = view.object.clone();
    let annotations = object.metadata.annotations.get_or_insert_default();
    match refusal {
        Refusal::Strategy(_) | Refusal::MinReady(_) => {
            let former = former.metadata.annotations.clone().unwrap_or_default();
            annotations.retain(|key, _| !PASSED_ON.contains(&key.as_str()));
            annotations.extend(former.into_iter().filter(|(key, _)| PASSED_ON.contains(&key.as_str())));
        }
        Refusal::Resolution(_) => {
            annotations.remove(CONFLICT_RESOLUTION_ANNOTATION);
            let former = view.works.iter().find_map(|work| service::resolution_in(work));
            let former = former.map(|word| (CONFLICT_RESOLUTION_ANNOTATION.to_owned(), word.to_owned()));
            annotations.extend(former);
        }
        Refusal::Ports(_) => {
            object.spec.ports.retain(|port| view.template.is_some_and(|found| service::has(found, port)));
            // No list at all would mean every port.
            if object.spec.ports.is_empty() {
                return None;
            }
        }
        Refusal::Spellings(_) | Refusal::Balancer(_) => return None,
    }
    let (_, plan) = wanted(&View { object: &object, ..view.clone() }).ok()?;
    Some(Plan { conditions: conditions::refuse(view, refusal), ..plan })
}

/// Nothing is written, and nothing goes but the slices of clusters that are not alive.
fn refused(view: &View<'_>, refusal: &Refusal) -> Plan {
    let lives = |source: &str| view.members.get(source).is_some_and(|member| member.ready);
    let mut plan = Plan { conditions: conditions::refuse(view, refusal), ..Plan::default() };
    for work in view.works {
        match slices::source(work) {
            Some(source) if !lives(source) => slices::keep_for_now(view, work, &mut plan),
            _ => _ = plan.keep.insert(place(work)),
        }
    }
    plan
}

fn wanted<'a>(view: &View<'a>) -> Result<(Roles<'a>, Plan), Refusal> {
    let roles = view.roles()?;
    let annotations = view.object.metadata.annotations.clone().unwrap_or_default();
    strategy::of_multi_cluster_service(&annotations)?;
    MinReady::read(&annotations)?;
    let resolution = annotations.get(CONFLICT_RESOLUTION_ANNOTATION);
    resolution.map(|word| word.parse::<ConflictResolution>()).transpose().map_err(Refusal::Resolution)?;
    let mut plan = Plan::default();
    let Some(template) = view.template else { return Ok((roles, plan)) };
    let exposed = service::exposed(&view.object.spec.ports, template)?;
    balancer::check(view.object, template)?;
    for cluster in roles.provision.keys().chain(roles.consumption.keys()) {
        let Some(cluster) = member(view, cluster) else { continue };
        if let Some((place, work)) = service_work(view, template, &exposed, cluster, &roles) {
            plan.works.insert(place, work);
        }
    }
    slices::dispatch(view, &roles, &exposed, &mut plan);
    Ok((roles, plan))
}

fn member<'a>(view: &View<'a>, name: &str) -> Option<&'a ClusterId> {
    view.members.get_key_value(name).map(|(id, _)| id)
}

/// The Work that brings the Service to a cluster. A provider has all its ports; who only consumes sees the exposed ones. A
/// consumer has a load balancer, if there shall be any.
fn service_work(
    view: &View<'_>,
    template: &Service,
    exposed: &service::Exposed,
    cluster: &ClusterId,
    roles: &Roles<'_>,
) -> Option<(Place, Work)> {
    let provides = roles.provision.contains_key(cluster.as_str());
    let balanced = balancer::is_wanted(view.object) && roles.consumption.contains_key(cluster.as_str());
    let place = (names::execution_namespace(cluster)?, names::service_work(&view.service()));
    let exposed = if provides { &service::Exposed::All } else { exposed };
    let manifest = service::manifest(view, template, exposed, balanced, &place);
    let mut work = work(view, &place, manifest);
    if provides {
        work.metadata.labels.get_or_insert_default().insert(PROVISION_LABEL.to_owned(), "true".to_owned());
    }
    Some((place, work))
}

/// A Work of this MultiClusterService for one object.
fn work(view: &View<'_>, place: &Place, manifest: serde_json::Value) -> Work {
    let service = view.service();
    let spec = WorkSpec { workload: Some(Workload { manifests: vec![manifest] }), ..WorkSpec::default() };
    let mut work = Work::new(&place.1, spec);
    work.metadata.namespace = Some(place.0.clone());
    work.metadata.labels = Some(labels(&service));
    let passed_on: BTreeMap<String, String> = PASSED_ON
        .into_iter()
        .filter_map(|key| view.annotation(key).map(|value| (key.to_owned(), value.clone())))
        .collect();
    work.metadata.annotations = Some(passed_on).filter(|annotations| !annotations.is_empty());
    work
}

/// The labels of every Work of a service.
fn labels(service: &ServiceRef) -> BTreeMap<String, String> {
    let labels = [
        (NAME_LABEL, service.name.as_str()),
        (NAMESPACE_LABEL, &service.namespace),
        (MANAGED_BY_LABEL, MANAGER),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The service whose labels a Work has.
pub fn service_of(work: &Work) -> Option<ServiceRef> {
    let labels = work.metadata.labels.as_ref()?;
    Some(ServiceRef {
        namespace: labels.get(NAMESPACE_LABEL)?.clone(),
        name: labels.get(NAME_LABEL)?.clone(),
    })
}

/// Where a Work is.
pub fn place(work: &Work) -> Place {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (text(&work.metadata.namespace), text(&work.metadata.name))
}
