//! `tombolo apiserver --data` as a process: what it keeps when it is killed, and how the clients that others wrote get on with it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod crash;
mod informers;
mod python;
mod server;
