//! Only for tests: clusters, embedded or real; what stands between a client and a cluster when things go wrong, real clients as processes, and
//! networks to send packets through.

mod body;
mod cluster;
mod faults;
mod kubectl;
pub mod lab;
mod manifests;
mod waiting;
pub mod witness;

pub use self::cluster::{
    Cluster, Server, keep_clusters, left_out, linger, linger_at_least, name_of, not_run, patience, relaxed,
    serve_all, timely,
};
pub use self::faults::{FaultPlan, Faults, Outage};
pub use self::kubectl::{Kubectl, Outcome, Running};
pub use self::manifests::{EDITIONS, exported_echo};
pub use self::waiting::{eventually, until, within};

/// The allocator of `tombolo`, for every program of tests that uses the kit.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
