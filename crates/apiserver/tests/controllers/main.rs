//! The controllers against an embedded cluster, through its API only.
//!
//! The clock is paused and moves by itself when everybody waits, so minutes pass in milliseconds and every run is the same.

mod lifetimes;
mod slices;
mod slow;
mod steadiness;
mod workloads;
mod world;
