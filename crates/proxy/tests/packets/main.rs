//! Packets through the rules, in networks of namespaces: two nodes, pods on both, a client outside.
//!
//! Every case is decided by the model, planned, walked through by the simulator and sent through the kernel; all must agree.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod affinity;
mod changes;
mod large;
mod policies;
mod restart;
mod sctp;
mod spread;
mod world;
