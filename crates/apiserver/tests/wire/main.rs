//! The embedded API server as its clients see it: requests in, bytes out.
//!
//! What a real API server answers is the specification here, down to the reason, the causes and the message. Everything
//! goes through the service that also stands behind TLS; nothing looks inside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, also in what it calls")]

mod access;
mod bad_input;
mod client;
mod custom;
mod deletion;
mod discovery;
mod events;
mod fuzz;
mod golden;
mod kube_client;
mod lists;
mod logs;
mod mutate;
mod mutations;
mod names;
mod objects;
mod oddities;
mod parts;
mod patches;
mod repeatable;
mod services;
mod watches;
