//! Services across clusters: agents of several members and a hub, all in one process, under paused time.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod absence;
mod conflicts;
mod continuity;
mod events;
mod families;
mod fleet;
mod leases;
mod lifecycle;
mod metrics;
mod namespaces;
mod native;
mod ownership;
mod scale;
mod types;
mod verdicts;
