//! MultiClusterServices across clusters: a hub and the agents of its members, all in one process, under paused time.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod access;
mod clusters;
mod fleet;
mod health;
mod local_first;
mod scale;
mod simulation;
mod stories;
mod truth;
mod watchman;
