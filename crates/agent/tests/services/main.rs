//! Services across clusters: agents of several members and a hub, all in one process, under paused time.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod events;
mod fleet;
mod leases;
mod lifecycle;
mod metrics;
mod native;
mod verdicts;
