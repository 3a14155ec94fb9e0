//! The conditions of KEP-4631 and the rest of a Service's status, written so that they can be waited for.
//!
//! A Service has no generation on most servers, so transition times tell that a change was seen: that of `Provisioning`
//! moves with every change of a field that has to do with the load balancer, that of `Serving` with every change that
//! clients notice. They increase strictly, by at least a second, because that is how finely they are written.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, PortStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tombolo_api::condition::{self, Desired, Status, Stored as _};
use tombolo_api::loadbalancer::{
    Condition as Type, DegradedReason, ProvisioningReason, Service, ServingReason,
};
use tombolo_api::service::Protocol;

use super::record::Record;
use super::verdict::{Degradation, Terms};

/// Where a load balancer is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is as the Service asks.
    Serving,
    /// It is being built or rebuilt, and serves nothing meanwhile.
    Building,
    /// It is being rebuilt, and serves as it did before.
    Rebuilding,
    /// It could not be rebuilt, and serves as it did before: why.
    Stuck(String),
    /// It will not be built: why.
    Refused(String),
    /// It cannot be built, or does not work any more, for want of something outside: why.
    Failed(String),
}

/// What is to be said about a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub phase: Phase,
    /// Only said while the load balancer serves.
    pub degraded: Vec<Degradation>,
    /// What else people should know.
    pub notes: Vec<String>,
    /// What is to be left on the Service: compared with what is there, it says what has changed.
    pub record: Record,
    /// The Service's generation, on servers that count it.
    pub generation: Option<i64>,
}

impl Report {
    /// The conditions of the Service with what this report says, at the time `now`. Those of others stay.
    pub fn conditions(&self, service: &Service, now: Timestamp) -> Vec<Condition> {
        let mut conditions = service.conditions().to_vec();
        let before = Record::of(service).unwrap_or_default();
        let serving = self.serving();
        let changed = before.serves != self.record.serves && serving.status == Status::True;
        set(&mut conditions, serving, changed, now);
        set(&mut conditions, self.provisioning(), before.seen != self.record.seen, now);
        match self.degradation() {
            Some(degraded) => set(&mut conditions, degraded, false, now),
            None => drop(condition::remove(&mut conditions, Type::Degraded)),
        }
        conditions
    }

    /// Whether connections are taken.
    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Rebuilding | Phase::Stuck(_))
    }

    /// In a sentence.
    pub fn message(&self) -> String {
        let said = match &self.phase {
            Phase::Serving => "the load balancer serves as the Service asks".to_owned(),
            Phase::Building => "the load balancer is being built and does not serve yet".to_owned(),
            Phase::Rebuilding => "the load balancer is being changed and serves as before".to_owned(),
            Phase::Stuck(why) => {
                format!("the change could not be made, the load balancer serves as before: {why}")
            }
            Phase::Refused(why) | Phase::Failed(why) => why.clone(),
        };
        std::iter::once(said).chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
    }

    fn serving(&self) -> Desired {
        let reason = match &self.phase {
            Phase::Serving | Phase::Rebuilding | Phase::Stuck(_) => ServingReason::Serving,
            Phase::Building => ServingReason::Provisioning,
            Phase::Refused(_) => ServingReason::Unsupported,
            Phase::Failed(_) => ServingReason::Infrastructure,
        };
        Desired::new(Type::Serving, self.is_serving(), reason, self.message()).observed(self.generation)
    }

    fn provisioning(&self) -> Desired {
        let busy = matches!(self.phase, Phase::Building | Phase::Rebuilding | Phase::Stuck(_));
        let reason = if busy { ProvisioningReason::Provisioning } else { ProvisioningReason::Complete };
        Desired::new(Type::Provisioning, busy, reason, self.message()).observed(self.generation)
    }

    /// Nobody can say that nothing is missing, so there is no `False`.
    fn degradation(&self) -> Option<Desired> {
        let reason = match self.degraded.as_slice() {
            _ if !self.is_serving() => return None,
            [] => return None,
            [only] => only.feature.degraded_reason(),
            _ => DegradedReason::Multiple,
        };
        let said: Vec<String> = self.degraded.iter().map(ToString::to_string).collect();
        Some(Desired::new(Type::Degraded, true, reason, said.join("; ")).observed(self.generation))
    }
}

/// Sets a condition; its time moves with its status or reason, or because something else `changed`.
pub fn set(conditions: &mut Vec<Condition>, desired: Desired, changed: bool, now: Timestamp) {
    let Some(current) = conditions.iter_mut().find(|condition| condition.type_ == desired.type_) else {
        conditions.push(Condition::build(desired, Time(whole(now))));
        return;
    };
    let same = current.status == desired.status.as_str() && current.reason == desired.reason;
    let before = current.last_transition_time.0;
    let since = if same && !changed { before } else { next(before, now) };
    *current = Condition::build(desired, Time(since));
}

/// The time of a change after `before`: now, but a second later at least.
fn next(before: Timestamp, now: Timestamp) -> Timestamp {
    let second = before.as_second().saturating_add(1).max(now.as_second());
    Timestamp::from_second(second).unwrap_or(now)
}

fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The conditions without those of KEP-4631, for a Service that has no load balancer any more.
pub fn clear(conditions: &[Condition]) -> Vec<Condition> {
    let ours = |condition: &&Condition| Type::ALL.iter().all(|kind| kind.as_str() != condition.type_);
    conditions.iter().filter(ours).cloned().collect()
}

impl Terms {
    /// The entries of `status.loadBalancer.ingress`. Where some ports are not served, each entry says which.
    pub fn ingress(&self, addresses: &[IpAddr]) -> Vec<LoadBalancerIngress> {
        let ports = (!self.dropped_ports.is_empty()).then(|| self.port_statuses());
        let entry = |address: &IpAddr| LoadBalancerIngress {
            ip: Some(address.to_string()),
            ip_mode: Some("VIP".to_owned()),
            ports: ports.clone(),
            hostname: None,
        };
        addresses.iter().map(entry).collect()
    }

    fn port_statuses(&self) -> Vec<PortStatus> {
        let status = |(protocol, port): &(Protocol, u16), error: Option<String>| PortStatus {
            port: i32::from(*port),
            protocol: protocol.to_string(),
            error,
        };
        let error = || Some(format!("tombolo.dev/{}", DegradedReason::PortsNotSupported));
        let served = self.ports.iter().map(|port| status(port, None));
        served.chain(self.dropped_ports.iter().map(|port| status(port, error()))).collect()
    }
}
