//! Which Services are a provider's business.

use tombolo_api::condition;
use tombolo_api::loadbalancer::{CLEANUP_FINALIZER, Condition, Service};

use super::decision::unreleasable;
use super::fingerprint::seen;
use super::record::Record;

/// What a Service is to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// It wants a load balancer of this provider.
    Wanted,
    /// It had one of this provider and wants none any more: what is left of it has to go.
    Former,
    /// It is not touched at all.
    None,
}

/// What a Service is to the provider of load balancers of this class; `None`: of those without a class.
///
/// A class that a provider was not told to serve means that it does nothing at all (KEP-4631, Newly-Required Behavior). A
/// provider with a class leaves Services without one to the default provider.
pub fn concern(service: &Service, class: Option<&str>) -> Concern {
    let wanted = service.spec.core.load_balancer_class.as_deref().filter(|wanted| !wanted.is_empty());
    let ours = match Record::of(service) {
        Some(record) => record.class == class.unwrap_or_default(),
        None => wanted == class && is_orphaned(service),
    };
    if service.spec.core.type_.as_deref() != Some("LoadBalancer") {
        return if ours { Concern::Former } else { Concern::None };
    }
    match (wanted == class, service.metadata.deletion_timestamp.is_some()) {
        (false, _) => Concern::None,
        (true, false) => Concern::Wanted,
        (true, true) if ours => Concern::Former,
        (true, true) => Concern::None,
    }
}

/// Whether a provider left something on a Service, of whatever class it was.
pub fn is_marked(service: &Service) -> bool {
    Record::of(service).is_some() || is_orphaned(service)
}

/// Whether a Service has lost its record, as it does when somebody writes all its annotations anew, and nothing else. The finalizer
/// alone says nothing: it is that of all providers. The conditions are written by none but those that keep records.
fn is_orphaned(service: &Service) -> bool {
    let finalizers = service.metadata.finalizers.iter().flatten();
    let held = finalizers.into_iter().any(|finalizer| finalizer == CLEANUP_FINALIZER);
    let told = Condition::ALL.iter().any(|kind| condition::find(service.conditions(), *kind).is_some());
    Record::of(service).is_none() && held && told
}

/// Whether the provider of this class has said all there is to say about a Service as it is now.
///
/// If not for long, the provider is dead or slow, and somebody else should say that.
pub fn is_answered(service: &Service, class: Option<&str>) -> bool {
    match concern(service, class) {
        Concern::Wanted => Record::of(service).is_some_and(|record| record.seen == seen(service)),
        Concern::Former => unreleasable(service).is_some(),
        Concern::None => true,
    }
}
