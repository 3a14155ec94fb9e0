//! One look at a Service: everything from what it asks for to what its status shall say.
//!
//! A provider calls [`decide`] whenever something may have changed, makes the API server hold what [`Decision::apply`]
//! returns, and looks again after a while if the decision says so. Nothing is remembered between two looks but the ledger
//! and whether a slow step has been waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus};
use tombolo_api::loadbalancer::{CLEANUP_FINALIZER, FailStep, Service};
use tombolo_api::tombolo::{LOAD_BALANCER_RECORD_ANNOTATION, ServiceRef};

use super::capabilities::{Capabilities, Pace};
use super::fingerprint::{seen, serves};
use super::ledger::{Claim, Ledger, Sharing};
use super::pools::Pools;
use super::record::Record;
use super::report::{Phase, Report, clear};
use super::settle::{Settled, settle};
use super::verdict::{Degradation, Terms, Verdict, judge};
use super::wish::Wish;

/// What a decision depends on beside the Service.
#[derive(Clone, Debug)]
pub struct Around<'a> {
    pub capabilities: &'a Capabilities,
    /// The class of load balancers that the provider serves.
    pub class: Option<&'a str>,
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// The mark ([`serves`]) of a slow step that has been waited for.
    pub built: Option<&'a str>,
    /// Why no node announces addresses, if none does: [`unannounced`](super::unannounced()).
    pub unannounced: Option<&'a str>,
    /// The addresses of nodes.
    pub nodes: &'a BTreeSet<IpAddr>,
}

/// What is to be said about a Service's load balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub report: Report,
    pub ingress: Vec<LoadBalancerIngress>,
    /// The mark of a slow step that is to be waited for before the next look.
    pub building: Option<String>,
}

/// What becomes of a Service that wants a load balancer. The ledger is changed accordingly.
pub fn decide(service: &Service, ledger: &mut Ledger, around: &Around<'_>) -> Decision {
    let wish = Wish::read(service);
    let look = Look { service, around, before: Record::of(service).unwrap_or_default() };
    let terms = match judge(&wish, around.capabilities) {
        Verdict::Refuse(why) => return look.nothing(ledger, Phase::Refused(why.join("; "))),
        Verdict::Serve(terms) => terms,
    };
    if wish.fail.contains(&FailStep::Allocate) {
        return look.nothing(ledger, Phase::Failed(on_purpose(FailStep::Allocate)));
    }
    let has = rightful(service, ledger.pools(), around.namespace_labels, around.nodes);
    let before = (look.owner(), has, sharing(service, &wish));
    let grant = ledger.assign(&look.claim(&wish, &terms, before.1.clone(), before.2.clone()));
    match settle(&wish, &terms, &grant) {
        Settled::Refuse(why) => look.nothing(ledger, Phase::Refused(why.join("; "))),
        Settled::Fail(why) => look.nothing(ledger, Phase::Failed(why)),
        Settled::Serve { addresses, degraded, notes } => {
            let terms = Terms { degraded, ..terms };
            let decision = look.serve(&wish, &terms, &addresses, notes);
            if decision.building.is_some() || !matches!(decision.report.phase, Phase::Serving) {
                // What is served still must not go to somebody else.
                ledger.keep(&before.0, &before.1, &before.2);
            }
            decision
        }
    }
}

/// The Service without anything that a provider put there.
pub fn forget(service: &Service) -> Service {
    let mut service = service.clone();
    if let Some(finalizers) = &mut service.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
    }
    if let Some(annotations) = &mut service.metadata.annotations {
        annotations.remove(LOAD_BALANCER_RECORD_ANNOTATION);
    }
    let conditions = clear(service.conditions());
    service.status.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    service.status.load_balancer = Some(LoadBalancerStatus::default());
    service
}

/// Why a Service that is to be forgotten is not yet, if its user wants it so.
pub fn unreleasable(service: &Service) -> Option<String> {
    Wish::read(service).fail.contains(&FailStep::Release).then(|| on_purpose(FailStep::Release))
}

/// What a Service's status says it has.
pub fn addresses(service: &Service) -> Vec<IpAddr> {
    service.ingress().iter().filter_map(|entry| entry.ip.as_deref()?.parse().ok()).collect()
}

/// Those of them that a Service keeps.
///
/// One that no pool has for it stays only where a provider of ours served before, and never if it is a node's: other providers, as
/// the one that comes with k3s, write addresses of nodes there, and whoever answered for these would cut the nodes off.
pub fn rightful(
    service: &Service,
    pools: &Pools,
    namespace_labels: &BTreeMap<String, String>,
    nodes: &BTreeSet<IpAddr>,
) -> Vec<IpAddr> {
    let served = Record::of(service).is_some_and(|record| !record.serves.is_empty());
    let mut addresses = addresses(service);
    addresses.retain(|address| {
        let admitted = pools.admitting(*address, namespace_labels, labels(service)).is_some();
        admitted || (served && !nodes.contains(address))
    });
    addresses
}

fn labels(service: &Service) -> &BTreeMap<String, String> {
    const NONE: &BTreeMap<String, String> = &BTreeMap::new();
    service.metadata.labels.as_ref().unwrap_or(NONE)
}

/// On what terms a Service shares its address.
pub fn sharing(service: &Service, wish: &Wish) -> Sharing {
    let selector = service.spec.core.selector.as_ref().filter(|selector| !selector.is_empty());
    // Whose endpoints are written by hand has them for itself.
    let unknown = wish.local && selector.is_none();
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    Sharing {
        key: wish.sharing_key.clone().filter(|_| !unknown),
        ports: wish.ports.iter().copied().collect(),
        backends: selector.filter(|_| wish.local).map(|selector| format!("{namespace} {selector:?}")),
    }
}

fn on_purpose(step: FailStep) -> String {
    format!("the step {step} fails because the annotation tombolo.dev/fail says so")
}

struct Look<'a> {
    service: &'a Service,
    around: &'a Around<'a>,
    before: Record,
}

impl Look<'_> {
    fn owner(&self) -> ServiceRef {
        let metadata = &self.service.metadata;
        ServiceRef {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    fn claim<'c>(&'c self, wish: &Wish, terms: &'c Terms, has: Vec<IpAddr>, sharing: Sharing) -> Claim<'c> {
        let asked = wish.asked.iter().filter_map(|asked| asked.address);
        let allowed = self.around.capabilities.explicit_addresses;
        Claim {
            owner: self.owner(),
            families: &terms.families,
            asked: asked.filter(|_| allowed).collect(),
            has,
            sharing,
            namespace_labels: self.around.namespace_labels,
            service_labels: labels(self.service),
        }
    }

    /// No load balancer, and no address.
    fn nothing(&self, ledger: &mut Ledger, phase: Phase) -> Decision {
        ledger.release(&self.owner());
        let report = self.report(phase, Vec::new(), Vec::new(), String::new());
        Decision { report, ingress: Vec::new(), building: None }
    }

    fn serve(&self, wish: &Wish, terms: &Terms, addresses: &[IpAddr], notes: Vec<String>) -> Decision {
        let wanted = serves(self.service, wish, terms, addresses);
        let phase = self.phase(wish, &wanted);
        let waits = matches!(phase, Phase::Building | Phase::Rebuilding);
        let (mark, ingress) = match phase {
            Phase::Serving => (wanted.clone(), terms.ingress(addresses)),
            _ => (self.before.serves.clone(), self.service.ingress().to_vec()),
        };
        let report = self.report(phase, terms.degraded.clone(), notes, mark);
        Decision { report, ingress, building: waits.then_some(wanted) }
    }

    /// Where the load balancer is on its way from what is served to what is wanted.
    fn phase(&self, wish: &Wish, wanted: &str) -> Phase {
        let (first, unchanged) = (self.before.serves.is_empty(), self.before.serves == wanted);
        let built = self.around.built == Some(wanted);
        let fails = |step: FailStep| wish.fail.contains(&step);
        if let Some(why) = self.around.unannounced {
            return Phase::Failed(why.to_owned());
        }
        if unchanged {
            return match fails(FailStep::Serve) {
                true => Phase::Failed(on_purpose(FailStep::Serve)),
                false => Phase::Serving,
            };
        }
        if !first && fails(FailStep::Update) {
            return Phase::Stuck(on_purpose(FailStep::Update));
        }
        if first && fails(FailStep::Provision) {
            return if built { Phase::Failed(on_purpose(FailStep::Provision)) } else { Phase::Building };
        }
        match self.around.capabilities.pace {
            _ if built => Phase::Serving,
            Pace::Instant => Phase::Serving,
            Pace::Hitless if !first => Phase::Rebuilding,
            Pace::Hitless | Pace::Cutover => Phase::Building,
        }
    }

    fn report(&self, phase: Phase, degraded: Vec<Degradation>, notes: Vec<String>, serves: String) -> Report {
        let class = self.around.class.unwrap_or_default().to_owned();
        let record = Record { class, seen: seen(self.service), serves };
        Report { phase, degraded, notes, record, generation: self.service.metadata.generation }
    }
}

impl Decision {
    /// The Service as it shall be: finalizer, record, conditions and ingress in one write.
    pub fn apply(&self, service: &Service, now: Timestamp) -> Service {
        let mut next = service.clone();
        next.status.conditions = Some(self.report.conditions(service, now));
        let ingress = Some(self.ingress.clone()).filter(|ingress| !ingress.is_empty());
        next.status.load_balancer = Some(LoadBalancerStatus { ingress });
        let finalizers = next.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
            finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        let annotations = next.metadata.annotations.get_or_insert_default();
        annotations.insert(LOAD_BALANCER_RECORD_ANNOTATION.to_owned(), self.report.record.to_text());
        next
    }
}
