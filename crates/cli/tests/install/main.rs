//! `tombolo install`, `join` and `leave` on API servers that enforce RBAC, with the real kubectl beside them.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod again;
mod gitops;
mod hub_as_member;
mod hub_gone;
mod load_balancers;
mod places;
mod refusals;
mod registered;
mod roles;
mod story;
mod turns;
mod upgrade;
mod world;
