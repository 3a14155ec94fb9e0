//! MultiClusterServices across clusters: a hub and the agents of its members, all in one process, under paused time.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod access;
mod clusters;
mod fleet;
mod health;
mod karmada;
mod local_first;
mod ports;
mod scale;
mod services;
mod simulation;
mod stories;
mod truth;
mod watchman;
