//! Load balancers with real packets: three nodes with proxies and balancers, pods, and a client outside of the cluster.
//!
//! The load balancer tests of Kubernetes, told anew for this lab, run with every capability profile. As KEP-4631's test
//! plan says, a test passes, or it skips itself because the Service's conditions say that it cannot pass; nothing else.

#![allow(clippy::unwrap_used, reason = "tests panic")]
#![allow(clippy::print_stdout, reason = "which cases were skipped, and why, is what people want to see")]

mod cases;
mod failover;
mod outcome;
mod profiles;
mod traffic;
mod world;
