//! The four ways to change part of an object.
//!
//! JSON Patch, JSON Merge Patch, strategic merge patch and server-side apply, as pure functions from what is stored and
//! what was sent to what should be stored. The time is an argument, nothing here reads a clock or does I/O, and no input
//! makes them panic. Input is expected to be nested at most as deep as the HTTP layer admits; what comes out is not
//! nested deeper than what goes in, except that `managedFields` repeats the nesting of the object a few levels down.

pub(crate) mod apply;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod object_meta;
pub(crate) mod schema;
pub(crate) mod strategic;

#[cfg(test)]
mod fixtures;
