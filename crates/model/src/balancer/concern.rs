//! Which Services are a provider's business.

use tombolo_api::loadbalancer::Service;

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
    let ours = Record::of(service).is_some_and(|record| record.class == class.unwrap_or_default());
    if service.spec.core.type_.as_deref() != Some("LoadBalancer") {
        return if ours { Concern::Former } else { Concern::None };
    }
    let wanted = service.spec.core.load_balancer_class.as_deref().filter(|wanted| !wanted.is_empty());
    match (wanted == class, service.metadata.deletion_timestamp.is_some()) {
        (false, _) => Concern::None,
        (true, false) => Concern::Wanted,
        (true, true) if ours => Concern::Former,
        (true, true) => Concern::None,
    }
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
