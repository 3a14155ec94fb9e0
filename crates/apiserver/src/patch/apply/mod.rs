//! Server-side apply: who owns which field, and what happens when several people write one object.
//!
//! Every write is attributed to a manager. [`update()`] tracks ordinary writes; [`plan()`] merges an applied configuration
//! that [`check()`] has passed into the live object and [`Pending::finish`] records the outcome, so that defaulting and admission can run in between.
//! Ownership is a `FieldSet` per manager, stored in `metadata.managedFields`.

mod combine;
mod compare;
mod conflict;
mod element;
mod entries;
mod fieldset;
mod last_applied;
mod owned;
mod plan;
mod prune;
mod update;
mod view;

#[cfg(test)]
mod goldens;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub(crate) use conflict::{Conflict, causes, message};
pub(crate) use owned::{Misshapen, check};
pub(crate) use plan::{Kind, Pending, plan};
pub(crate) use update::update;

/// Who writes, through what, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The field manager; an empty name is recorded as `unknown`.
    pub manager: &'a str,
    /// The version the object was written in, such as `apps/v1`.
    pub api_version: &'a str,
    pub subresource: Option<&'a str>,
    /// The paths of the fields that this endpoint ignores: whoever may not set a field cannot own it.
    pub ignored: &'static [&'static [&'static str]],
    /// The time of the write, RFC 3339 in UTC with whole seconds.
    pub now: &'a str,
}
