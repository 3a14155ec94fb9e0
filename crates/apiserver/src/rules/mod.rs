//! What the API server does to single built-in kinds beyond the life cycle that all objects share.
//!
//! Every file holds one kind: what a client may leave out, what it may not write and what it may not change. All of it
//! is pure: a function takes the object before and after a write and returns what is wrong, in the words that clients
//! of Kubernetes know. Nothing here reads a clock, draws a random number or keeps state; those are parameters.

pub(crate) mod config_map;
pub(crate) mod endpoint_slice;
pub(crate) mod field;
pub(crate) mod ip;
pub(crate) mod lease;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod rbac;
pub(crate) mod secret;
pub(crate) mod selector;
pub(crate) mod service;
pub(crate) mod workloads;

use serde_json::Value;

use crate::invalid::FieldError;

/// The error for a field that differs between the stored and the written object, if it does.
///
/// An absent field, `null` and an empty value are the same thing, as they are for a typed server.
pub(crate) fn unchanged(new: &Value, old: &Value, path: &str) -> Option<FieldError> {
    let (new, old) = (field::at(new, path), field::at(old, path));
    (!field::is_alike(new, old))
        .then(|| FieldError::invalid(path, new.cloned().unwrap_or_default(), "field is immutable"))
}

/// The error for a whole number below zero, if it is one.
pub(crate) fn not_negative(object: &Value, path: &str) -> Option<FieldError> {
    let number = field::number(object, path);
    (number < 0).then(|| FieldError::invalid(path, number, "must be greater than or equal to 0"))
}
