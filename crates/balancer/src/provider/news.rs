//! What is told beside a Service when something has changed about its load balancer: the words of the stock service
//! controller, which people look for.

use jiff::Timestamp;
use tombolo_api::condition;
use tombolo_api::loadbalancer::{Condition, ProvisioningReason, Service};
use tombolo_model::balancer::{Decision, Phase, Record, set_condition};
use tombolo_runtime::News;

/// An event to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    warning: bool,
    reason: &'static str,
    note: String,
}

impl Told {
    fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Told { warning: false, reason, note: note.into() }
    }

    fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Told { warning: true, reason, note: note.into() }
    }

    pub(super) fn as_news(&self) -> News<'_> {
        let severity = if self.warning { "Warning" } else { "Normal" };
        News { severity, reason: self.reason, note: &self.note }
    }
}

/// What has changed from one state of a Service to the next.
pub(super) fn of(before: &Service, after: &Service, decision: &Decision) -> Vec<Told> {
    phase(before, after, decision).into_iter().chain(degraded(before, after)).collect()
}

fn phase(before: &Service, after: &Service, decision: &Decision) -> Option<Told> {
    let said = |service: &Service| {
        let serving = condition::find(service.conditions(), Condition::Serving)?;
        let busy = condition::is_true(service.conditions(), Condition::Provisioning);
        Some((busy, serving.status.clone(), serving.reason.clone(), serving.message.clone()))
    };
    let served = Record::of(before).map(|record| record.serves).unwrap_or_default();
    let changed = served != decision.report.record.serves;
    if said(before) == said(after) && !changed {
        return None;
    }
    let at = || {
        let addresses = after.ingress().iter().filter_map(|entry| entry.ip.as_deref());
        format!("the load balancer serves at {}", addresses.collect::<Vec<_>>().join(", "))
    };
    let was_serving = condition::is_true(before.conditions(), Condition::Serving);
    Some(match &decision.report.phase {
        Phase::Serving if was_serving && !changed => return None,
        Phase::Serving if was_serving => Told::normal("UpdatedLoadBalancer", at()),
        Phase::Serving => Told::normal("EnsuredLoadBalancer", at()),
        Phase::Building | Phase::Rebuilding => {
            Told::normal("EnsuringLoadBalancer", decision.report.message())
        }
        Phase::Stuck(_) => Told::warning("UpdateLoadBalancerFailed", decision.report.message()),
        Phase::Refused(_) | Phase::Failed(_) => {
            Told::warning("SyncLoadBalancerFailed", decision.report.message())
        }
    })
}

fn degraded(before: &Service, after: &Service) -> Option<Told> {
    let said = |service: &Service| {
        condition::find(service.conditions(), Condition::Degraded).map(|found| found.message.clone())
    };
    let message = said(after).filter(|message| said(before).as_ref() != Some(message))?;
    Some(Told::warning("LoadBalancerDegraded", message))
}

pub(super) fn deleted() -> Told {
    Told::normal("DeletedLoadBalancer", "the load balancer is gone")
}

pub(super) fn release_failed(why: &str) -> Told {
    Told::warning("DeleteLoadBalancerFailed", why)
}

/// The Service with a condition that says why its load balancer is still there.
pub(super) fn stuck_release(service: &Service, why: &str, now: Timestamp) -> Service {
    let mut service = service.clone();
    let message = format!("the load balancer cannot be taken down: {why}");
    let reason = ProvisioningReason::Provisioning;
    let desired = condition::Desired::new(Condition::Provisioning, true, reason, message);
    set_condition(service.status.conditions.get_or_insert_default(), desired, false, now);
    service
}
