//! The provider on an embedded cluster: objects in, statuses out. No packets.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod bad_input;
mod lifecycle;
mod restart;
mod world;
