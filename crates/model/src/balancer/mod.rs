//! The rules of KEP-4631, and addresses from pools, for any provider of load balancers.
//!
//! A provider in Rust needs nothing else to say the truth about its load balancers:
//!
//! ```text
//! Service ── concern ──► ours? ── Wish ── judge(Capabilities) ──► Terms, or why not
//!                                                  │
//! AddressPools ── Pools ── Ledger::assign ──► Grant ── settle ──► Settled ── Report ──► conditions, ingress, Record
//! nodes, endpoints ── announced, elect ──► who answers for an address
//! ```
//!
//! [`concern()`] says whether a Service is the provider's business at all. [`Wish`] is what it asks for, [`judge`] what a
//! provider with some [`Capabilities`] makes of that: serve, serve with less, or refuse. [`Ledger`] is who has which
//! address; [`settle()`] puts both together. [`Report`] says it in the Service's status: the three conditions with transition
//! times that acknowledge changes, and the [`Record`] that lets a provider that starts anew tell what has changed since.
//! [`decide`] does all of that for one Service at a time; a provider with other means than pools of addresses uses the
//! pieces.
//!
//! Decisions where the KEP leaves a choice: source ranges have a feature and a reason like all others; `Local` without the
//! client's address is served and degraded; a required feature that the Service does not use is satisfied if its name is
//! known; transition times increase strictly, by whole seconds; a change that failed while the former state is served
//! leaves `Provisioning` and `Serving` true, with the error in the message; endpoints do not matter for `Serving`;
//! `RequireDualStack` is never served with one family; an address that a pool has lost stays with its Service, which says so;
//! one that another provider left in the status, and that no pool has, does not.

mod announce;
mod capabilities;
mod concern;
mod decision;
mod election;
mod fingerprint;
mod ledger;
mod pools;
mod record;
mod report;
mod settle;
#[cfg(test)]
mod tests;
mod verdict;
mod wish;

pub use announce::{Announced, Herald, announced, local_nodes, may_announce, node_addresses, unannounced};
pub use capabilities::{Capabilities, Pace};
pub use concern::{Concern, concern, is_answered, is_marked};
pub use decision::{Around, Decision, addresses, decide, forget, rightful, sharing, unreleasable};
pub use election::{Runner, elect};
pub use fingerprint::{seen, serves};
pub use ledger::{Claim, Denied, Grant, Ledger, Sharing, Shortage};
pub use pools::{Pool, PoolVerdict, Pools};
pub use record::Record;
pub use report::{Phase, Report, clear, set as set_condition};
pub use settle::{Settled, settle};
pub use verdict::{Degradation, Terms, Verdict, judge};
pub use wish::{Asked, Wish};
