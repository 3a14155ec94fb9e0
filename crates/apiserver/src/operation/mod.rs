//! What a request does to objects: read, create, replace, patch, delete.
//!
//! Transport stays outside: an operation takes decoded values and returns stored ones or a [`Status`]. The order of
//! steps is that of a real API server, because clients see it in which of two errors they get.

mod admission;
mod create;
mod definition;
mod delete;
mod events;
mod names;
mod patch;
mod read;
mod subresource;
mod update;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub(crate) use self::admission::{decoded, present};
pub(crate) use self::create::create;
pub(crate) use self::delete::{DeleteOptions, Deleted, delete, delete_collection};
pub(crate) use self::patch::{PatchKind, patch, patched};
pub(crate) use self::read::{ListQuery, VersionMatch, get, list, parse_revision};
pub(crate) use self::subresource::{bind, evict, finalize, read_scale, write_scale};
pub(crate) use self::update::update;
use crate::core::Core;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{Key, Stored};

/// What to do about fields nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How a write is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// Who is written down as owner of the changed fields.
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    pub(crate) dry_run: bool,
    /// Take fields from other managers in a server-side apply.
    pub(crate) force: bool,
    /// Paths of keys that came twice in the body.
    pub(crate) duplicates: Vec<String>,
}

/// Which part of the object an operation addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    /// The whole, of which only the number of replicas was sent: that is who changes it is written down for.
    Scale,
}

/// One operation on one resource.
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Core,
    pub(crate) resource: &'a Arc<Resource>,
    /// Empty for cluster-scoped resources and for lists over all namespaces.
    pub(crate) namespace: &'a str,
    pub(crate) part: Part,
    pub(crate) options: WriteOptions,
    /// Sentences for the `Warning` headers of the answer.
    warnings: Mutex<Vec<String>>,
}

/// What a write left behind.
#[derive(Debug)]
pub(crate) enum Outcome {
    Created(Arc<Stored>),
    Updated(Arc<Stored>),
}

impl Outcome {
    pub(crate) fn stored(&self) -> &Arc<Stored> {
        match self {
            Self::Created(stored) | Self::Updated(stored) => stored,
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(core: &'a Core, resource: &'a Arc<Resource>, namespace: &'a str) -> Self {
        Self {
            core,
            resource,
            namespace,
            part: Part::Whole,
            options: WriteOptions::default(),
            warnings: Mutex::default(),
        }
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.namespace, name)
    }

    fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.resource.subject(name))
    }

    pub(crate) fn warn(&self, sentence: impl Into<String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(sentence.into());
    }

    /// The sentences for the `Warning` headers so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A stored object that was not stored: the answer to a dry run.
    fn pretend(&self, value: Value) -> Arc<Stored> {
        Arc::new(value.into())
    }
}
