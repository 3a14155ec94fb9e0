//! How a case ends: it passes, or it is skipped because conditions say so. All else is a panic.

use tombolo_api::loadbalancer::Service;

/// Why a case does not apply to this provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip(pub(crate) String);

/// What a case comes to.
pub(crate) type Outcome = Result<(), Skip>;

/// Skips a case whose subject is what the load balancer says it lacks.
pub(crate) fn skip_if_degraded(service: &Service, reason: &str) -> Outcome {
    let degraded = service.conditions().iter().find(|condition| condition.type_ == "LoadBalancerDegraded");
    match degraded {
        Some(found) if found.reason == reason || found.reason == "Multiple" => {
            Err(Skip(format!("degraded: {}", found.reason)))
        }
        _ => Ok(()),
    }
}
