//! Only for tests: what stands between a client and a cluster when things go wrong, and real clients as processes.

mod body;
mod faults;
mod kubectl;

pub use self::faults::{FaultPlan, Faults, Outage};
pub use self::kubectl::{Kubectl, Outcome, Running};
