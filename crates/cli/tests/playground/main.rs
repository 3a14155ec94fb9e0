//! `tombolo up` as a person uses it: real kubectl, real packets, and nothing left afterwards.
//!
//! Needs root or user namespaces, and curl. Each test has a playground of its own.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod command_line;
mod demo;
mod lifecycle;
mod load_balancers;
mod logs;
mod native_names;
mod ordinary_user;
mod real_servers;
mod stateful;
mod strategies;
mod streams;
mod traffic;
mod world;
