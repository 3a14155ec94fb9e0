//! The controllers against an embedded cluster, through its API only.
//!
//! The clock is paused and moves by itself when everybody waits, so minutes pass in milliseconds and every run is the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, also in what it calls")]

mod lifetimes;
mod slices;
mod slow;
mod stateful;
mod steadiness;
mod workloads;
mod world;
