//! Only for tests: what stands between a client and a cluster when things go wrong.

mod body;
mod faults;

pub use self::faults::{FaultPlan, Faults, Outage};
