//! The process kit: what every part of Tombolo needs around its decisions.
//!
//! Watch events → [`Cache`] → [`Queue`] → a [`Controller`] that looks at everything and does what is missing; one clock;
//! [`Candidate`]s for leadership; [`Signal`]s to wait for; [`put`], which writes only what differs, a [`Ledger`] of what was
//! written, and [`Events`]; [`Readiness`] and the [`Admin`] endpoint that tells about it.

mod abreast;
mod admin;
mod boxed;
mod cache;
mod causes;
mod clock;
mod complete;
mod events;
mod key;
mod leader;
mod ledger;
mod pace;
mod patience;
mod queue;
mod readiness;
mod signal;
mod silence;
mod token;
mod trim;
mod unread;
mod work;
mod write;

pub use self::abreast::try_abreast;
pub use self::admin::Admin;
pub use self::boxed::Boxed;
pub use self::cache::{Cache, Change, follow};
pub use self::causes::with_causes;
pub use self::clock::{Clock, stamp};
pub use self::complete::follow_completely;
pub use self::events::{Events, News};
pub use self::key::Key;
pub use self::leader::Candidate;
pub use self::ledger::Ledger;
pub use self::pace::at_own_pace;
pub use self::patience::Patience;
pub use self::queue::Queue;
pub use self::readiness::{Readiness, Waiting};
pub use self::signal::Signal;
pub use self::silence::notice_silence;
pub use self::token::request_token;
pub use self::trim::{trim_annotations, trim_metadata};
pub use self::work::{
    Controller, LONGEST_ATTEMPT, Next, in_time, is_absent, is_already_there, is_conflict, is_final,
    is_not_found, is_place_gone, is_refusal, unless_gone, unless_there, work,
};
pub use self::write::{Extent, Kind, delete, delete_unchanged, find, holds, put};
