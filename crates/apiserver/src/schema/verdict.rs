//! What a part of a schema says about a value: its errors, and how much of it applied.
//!
//! `anyOf` and `oneOf` report the errors of the branch that fitted best, which is the one where most checks applied. The
//! API server counts in a particular way; since that decides which messages a person sees, it is counted the same here.

use std::collections::HashSet;

use serde_json::Value;

use super::path;
use crate::invalid::{FieldError, Problem};

#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) errors: Vec<FieldError>,
    pub(super) matches: usize,
}

impl Verdict {
    /// No error, and one check that applied.
    pub(super) fn matched() -> Self {
        Self { errors: Vec::new(), matches: 1 }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn push(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    /// Merges the verdict of a check that applied, which is itself worth a point.
    pub(super) fn apply(&mut self, other: Self) {
        self.merge(other);
        self.matches += 1;
    }

    /// The errors, each one once: branches of a junctor repeat what the schema itself has found.
    pub(super) fn into_errors(self) -> Vec<FieldError> {
        let mut seen = HashSet::new();
        self.errors.into_iter().filter(|error| seen.insert(error.to_string())).collect()
    }
}

impl From<FieldError> for Verdict {
    fn from(error: FieldError) -> Self {
        Self { errors: vec![error], matches: 0 }
    }
}

/// An error about the value at `at`; the text continues "`at` in body ...".
pub(super) fn invalid(at: &str, value: impl Into<Value>, text: impl std::fmt::Display) -> FieldError {
    FieldError::invalid(path::field(at), value, format!("{at} in body {text}"))
}

/// The value at `at` is of the type `found` where `expected` is wanted.
pub(super) fn wrong_type(at: &str, expected: &str, found: &str) -> FieldError {
    let detail = format!("{at} in body must be of type {expected}: {found:?}");
    FieldError::new(path::field(at), Problem::TypeInvalid(found.into()), detail)
}

/// An error that the API server attaches to no field.
pub(super) fn nowhere(text: String) -> FieldError {
    FieldError::invalid(path::NOWHERE, "", text)
}
