//! The service proxy: one per node. It routes the addresses of Services and imports, and can take kube-proxy's place.
//!
//! What becomes of a connection is decided in `model::routing`. Here decisions become elements of a few maps ([`plan`]),
//! which rules that never change look into (`ruleset`), and the kernel is made to have them ([`kernel`]). [`simulate`] asks
//! a plan what it means for a packet.

pub mod kernel;
pub mod plan;
mod ruleset;
pub mod simulate;

pub use self::ruleset::Settings;
