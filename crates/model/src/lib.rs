//! What multi-cluster services mean, as pure functions.
//!
//! Every agent computes the same answer from the same offers, so there is no central controller: what is here must not
//! depend on the order of its input, on a clock or on chance. Times are parameters, input that makes no sense gives the
//! best possible result and a list of [`Complaint`]s, and nothing panics whatever the hub contains.
//!
//! The two editions of the API share one pipeline. Where they differ, functions take the difference as a [`Policy`]:
//!
//! ```text
//! ServiceExport + Service ── offer ──► ServiceOffer ── origin ──► merge ──► Import ──► import object, derived Service
//! EndpointSlices ── slices::publish ──► at the hub ── origin ─────────────────┴─ slices::import ──► imported slices
//!                                      watermarks ── acknowledge ──► conditions ◄── Verdict
//! ```

pub mod acknowledge;
pub mod address;
pub mod auto_export;
pub mod balancer;
mod cluster;
mod complaint;
pub mod conditions;
pub mod happening;
pub mod hearing;
pub mod import;
pub mod liveness;
pub mod merge;
pub mod multi_cluster_service;
pub mod names;
pub mod offer;
pub mod origin;
mod policy;
mod prefer;
pub mod routing;
pub mod slices;
pub mod strategy;
mod syntax;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use cluster::{BadClusterId, ClusterId};
pub use complaint::Complaint;
pub use import::{Contribution, Import};
pub use merge::{Merged, merge};
pub use policy::{Disagreement, Policy};
pub use verdict::{Conflict, Verdict};
