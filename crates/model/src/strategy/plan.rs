//! What a ServiceImport with a strategy asks for in its cluster.
//!
//! The plan is made of everything there is and holds everything there shall be, so it is the same after a restart. It is
//! carried out in the order of its fields: new slices, then the Service, then the local slices that have to go, then the
//! slices that are no longer wanted; so a change of strategy leaves no gap between the old endpoints and the new.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;
use tombolo_api::condition::{Desired, Status};
use tombolo_api::karmada::strategy::{ImportStrategy, StrategyCondition, StrategyReason as Reason};
use tombolo_api::mcs::{ImportCondition, ImportReadyReason, ServiceImport};
use tombolo_api::service::{IpFamily, MANAGED_BY_LABEL as SLICE_MANAGED_BY_LABEL, STOCK_SLICE_CONTROLLER};
use tombolo_api::tombolo::ServiceRef;

use super::attach::Target;
use super::service::{Standing, difference, is_another, native};
use super::{is_user_written, of_import, ready_endpoints, selector};
use crate::address::{Declared, DropCount, Dropped};
use crate::cluster::ClusterId;
use crate::import::Contribution;
use crate::policy::Policy;
use crate::slices::is_source;
use crate::syntax::is_dns_label;
use crate::verdict::listing;

/// Everything that is known about one name in one cluster.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    pub service: &'a ServiceRef,
    pub import: Option<&'a ServiceImport>,
    /// The Service of the name, whoever made it.
    pub present: Option<&'a Service>,
    /// The slices with the name of that Service, whoever wrote them.
    pub slices: Vec<&'a EndpointSlice>,
    /// The other clusters that offer the service and live.
    pub sources: Vec<Source<'a>>,
    /// Whether this cluster offers the Service itself.
    pub exported: bool,
    /// The families in which this cluster gives Services addresses.
    pub supported: &'a [IpFamily],
}

/// What another cluster offers.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    pub part: &'a Contribution,
    /// What it declares.
    pub declared: &'a Declared,
    /// Its slices at the hub, as far as they are believed.
    pub slices: Vec<&'a EndpointSlice>,
    /// How many endpoints are in slices beyond its limit.
    pub left_out: usize,
}

/// What is to be done with the Service. Patches are merge patches, for exactly the Service that was looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Step {
    #[default]
    Leave,
    Create(Box<Service>),
    Change(Value),
    Remove,
}

/// What there shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Imported slices, by name.
    pub slices: BTreeMap<String, EndpointSlice>,
    pub service: Step,
    /// Slices of the stock controller whose endpoints no connection may reach any more, by name.
    pub evicted: Vec<String>,
    /// Whether something will have to be undone when the import goes.
    pub finalizer: bool,
    /// What the import says; nothing is said on one that is not there or on its way out.
    pub conditions: Option<Vec<Desired>>,
    /// Endpoints of each source that are not believed.
    pub dropped: BTreeMap<ClusterId, DropCount>,
}

/// What there is to say about a strategy.
struct Finding {
    reason: Reason,
    message: String,
}

impl Finding {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Finding { reason, message: message.into() }
    }

    fn holds(&self) -> bool {
        matches!(self.reason, Reason::Applied | Reason::LocalServicePresent)
    }
}

/// Decides about one name.
pub fn plan(situation: &Situation<'_>) -> Plan {
    let import = situation.import.filter(|import| import.metadata.deletion_timestamp.is_none());
    let Some(import) = import else { return situation.withdraw() };
    let (mut plan, finding) = match of_import(import) {
        None => (situation.withdraw(), None),
        Some(Err(unknown)) => {
            let effect = match situation.standing().ours() {
                Some(_) => "what was made stays",
                None => "nothing is imported",
            };
            let finding = Finding::new(Reason::UnknownStrategy, format!("{unknown}; {effect}"));
            (situation.go_on(import), Some(finding))
        }
        Some(Ok(strategy)) => {
            let (plan, finding) = situation.carry_out(strategy, import);
            (plan, Some(finding))
        }
    };
    plan.conditions = Some(conditions(import, finding));
    plan
}

impl Situation<'_> {
    fn standing(&self) -> Standing<'_> {
        Standing::of(self.present)
    }

    /// As if there were no import: what is ours goes, what was put aside comes back.
    fn withdraw(&self) -> Plan {
        let service = match self.standing() {
            Standing::Absent => Step::Leave,
            Standing::Ours(_) => Step::Remove,
            Standing::Local(service) | Standing::TakenOver(service) => {
                change(self.standing().let_go(), selector::give_back(service))
            }
        };
        Plan { service, ..Plan::default() }
    }

    /// For an import that makes no sense: what was made for it before stays as it is, with the endpoints that its sources have
    /// now; all else is as if there were no import.
    fn go_on(&self, import: &ServiceImport) -> Plan {
        match self.standing() {
            Standing::Ours(service) => self.attach_all(service, owner(self.service, import)),
            _ => self.withdraw(),
        }
    }

    fn carry_out(&self, strategy: ImportStrategy, import: &ServiceImport) -> (Plan, Finding) {
        let standing = self.standing();
        if strategy == ImportStrategy::LocalOnly && standing.local().is_some() {
            let message = "a Service of the name is there, so nothing is imported";
            return (self.withdraw(), Finding::new(Reason::LocalServicePresent, message));
        }
        let prepared = match standing.local() {
            Some(local) => self.use_local(strategy, local).map(|step| (step, local.clone(), Vec::new())),
            None => self.make(import),
        };
        match prepared {
            Err(why) => (self.go_on(import), Finding::new(Reason::ServiceNotUsable, why)),
            Ok((service, object, complaints)) => {
                let mut plan = self.attach_all(&object, owner(self.service, import));
                plan.service = service;
                let remote_only = strategy == ImportStrategy::RemoteOnly;
                plan.finalizer = remote_only;
                if remote_only && standing.local().is_some_and(|local| !selector::wanted(local).is_empty()) {
                    plan.evicted = self.stock_slices();
                }
                let finding = self.judge(strategy, &plan, &object);
                let finding = complain(finding, &complaints);
                (plan, finding)
            }
        }
    }

    /// What has to be done with a Service that is there.
    fn use_local(&self, strategy: ImportStrategy, local: &Service) -> Result<Step, String> {
        let type_ = local.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        if type_ == Some("ExternalName") {
            return Err("the Service of the name is of type ExternalName, which has no endpoints".to_owned());
        }
        let selector = match strategy {
            ImportStrategy::RemoteOnly => selector::put_aside(local),
            ImportStrategy::LocalOnly | ImportStrategy::LocalAndRemote => selector::give_back(local),
        };
        Ok(change(self.standing().let_go(), selector))
    }

    /// The Service that is made where there is none.
    fn make(&self, import: &ServiceImport) -> Result<(Step, Service, Vec<String>), String> {
        let name = &self.service.name;
        if !is_dns_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err(format!("{name:?} is no name that a Service can have"));
        }
        let ours = self.standing().ours();
        let (made, complaints) = native(import, self.service, self.supported, ours);
        let made = made.map_err(|why| why.to_string())?;
        let step = match ours {
            None => Step::Create(Box::new(made.clone())),
            Some(old) if is_another(old, &made) => Step::Remove,
            Some(old) => difference(old, &made).map_or(Step::Leave, Step::Change),
        };
        Ok((step, made, complaints.iter().map(ToString::to_string).collect()))
    }

    fn attach_all(&self, object: &Service, owner: Option<OwnerReference>) -> Plan {
        let target = Target::new(self.service, object, owner);
        let mut plan = Plan::default();
        for source in &self.sources {
            let dropped: &mut DropCount = plan.dropped.entry(source.part.cluster.clone()).or_default();
            if source.left_out > 0 {
                dropped.insert(Dropped::TooMany, source.left_out);
            }
            for published in &source.slices {
                let selected = target.attach(source, published);
                selected
                    .dropped
                    .into_iter()
                    .for_each(|(why, count)| *dropped.entry(why).or_default() += count);
                let named =
                    selected.slice.map(|slice| (slice.metadata.name.clone().unwrap_or_default(), slice));
                plan.slices.extend(named);
            }
        }
        plan
    }

    fn local_slices(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.iter().copied().filter(|slice| is_source(slice, self.service))
    }

    fn stock_slices(&self) -> Vec<String> {
        let is_stock = |slice: &&EndpointSlice| {
            let manager =
                slice.metadata.labels.as_ref().and_then(|labels| labels.get(SLICE_MANAGED_BY_LABEL));
            manager.is_some_and(|manager| manager == STOCK_SLICE_CONTROLLER)
                && slice.endpoints.as_ref().is_some_and(|endpoints| !endpoints.is_empty())
        };
        self.local_slices().filter(is_stock).filter_map(|slice| slice.metadata.name.clone()).collect()
    }

    /// Whether all is as the strategy wants it, once the plan is carried out.
    fn judge(&self, strategy: ImportStrategy, plan: &Plan, object: &Service) -> Finding {
        let name = |slice: &&EndpointSlice| slice.metadata.name.clone().unwrap_or_default();
        let stays =
            |slice: &&EndpointSlice| ready_endpoints([*slice]) > 0 && !plan.evicted.contains(&name(slice));
        let remaining: Vec<String> = self.local_slices().filter(stays).map(|slice| name(&slice)).collect();
        let remote_only = strategy == ImportStrategy::RemoteOnly;
        if remote_only && !remaining.is_empty() {
            let names = listing(remaining.iter(), ", ");
            let message = format!("slices that somebody else wrote still lead to local endpoints: {names}");
            return Finding::new(Reason::LocalEndpointsRemain, message);
        }
        let exported = match self.exported && remote_only {
            true => "; this cluster exports the Service and offers no endpoints meanwhile",
            false => "",
        };
        let served = self.served(plan);
        match served.is_empty() {
            false => {
                let clusters = listing(served.iter(), ", ");
                Finding::new(Reason::Applied, format!("{strategy}: remote endpoints of {clusters}{exported}"))
            }
            true => {
                let unfit = self.unfit(object);
                let effect =
                    if remote_only { "no connection is possible" } else { "only local endpoints, if any" };
                let message = format!(
                    "{strategy}, but no other cluster has a ready endpoint: {effect}{unfit}{exported}"
                );
                Finding::new(Reason::NoRemoteEndpoints, message)
            }
        }
    }

    /// The clusters with ready endpoints.
    fn served<'a>(&'a self, plan: &Plan) -> Vec<&'a ClusterId> {
        let label = tombolo_api::mcs::SOURCE_CLUSTER_LABEL;
        let is_of = |slice: &&EndpointSlice, cluster: &ClusterId| {
            slice.metadata.labels.as_ref().and_then(|labels| labels.get(label)).map(String::as_str)
                == Some(cluster.as_str())
        };
        let clusters = self.sources.iter().map(|source| &source.part.cluster);
        clusters
            .filter(|cluster| ready_endpoints(plan.slices.values().filter(|slice| is_of(slice, cluster))) > 0)
            .collect()
    }

    /// Who offers the service, but on other ports.
    fn unfit(&self, object: &Service) -> String {
        let target = Target::new(self.service, object, None);
        let unfit = self.sources.iter().filter(|source| !target.is_served_by(source));
        match listing(unfit.map(|source| &source.part.cluster), ", ") {
            none if none.is_empty() => none,
            clusters => format!("; the ports of {clusters} are others than those of the Service"),
        }
    }
}

/// Adds what was wrong with the import to what is said about it.
fn complain(mut finding: Finding, complaints: &[String]) -> Finding {
    if !complaints.is_empty() {
        finding.message = format!("{}; {}", finding.message, listing(complaints.iter(), "; "));
    }
    finding
}

/// One change of the Service out of two.
fn change(first: Option<Value>, second: Option<Value>) -> Step {
    match (first, second) {
        (None, None) => Step::Leave,
        (Some(one), None) | (None, Some(one)) => Step::Change(one),
        (Some(mut first), Some(second)) => {
            combine(&mut first, second);
            Step::Change(first)
        }
    }
}

/// A merge patch that does what both do.
fn combine(first: &mut Value, second: Value) {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            second
                .into_iter()
                .for_each(|(key, value)| combine(first.entry(key).or_insert(Value::Null), value));
        }
        (first, second) => *first = second,
    }
}

fn owner(service: &ServiceRef, import: &ServiceImport) -> Option<OwnerReference> {
    let (api_version, kind) = Policy::MCS.import_kind;
    Some(OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: service.name.clone(),
        uid: import.metadata.uid.clone()?,
        controller: Some(false),
        block_owner_deletion: None,
    })
}

/// What there is to say instead of what was `planned` when slices of the plan could not be written. What does not hold anyway
/// is said as before.
pub fn refused(import: &ServiceImport, planned: Vec<Desired>, why: &str) -> Vec<Desired> {
    if planned.iter().all(|condition| condition.status != Status::True) {
        return planned;
    }
    let why: String = why.chars().take(1000).collect();
    let message = format!("slices could not be written: {why}");
    conditions(import, Some(Finding::new(Reason::SlicesRefused, message)))
}

/// All conditions that are ours to set. On a derived import `Ready` is said by whoever derived it.
fn conditions(import: &ServiceImport, finding: Option<Finding>) -> Vec<Desired> {
    let Some(finding) = finding else { return Vec::new() };
    let (holds, message) = (finding.holds(), finding.message);
    let applied = Desired::new(StrategyCondition::StrategyApplied, holds, finding.reason, message.clone());
    let reason = if holds { ImportReadyReason::Ready } else { ImportReadyReason::Pending };
    let ready = is_user_written(import).then(|| Desired::new(ImportCondition::Ready, holds, reason, message));
    let generation = import.metadata.generation;
    [Some(applied), ready].into_iter().flatten().map(|condition| condition.observed(generation)).collect()
}
