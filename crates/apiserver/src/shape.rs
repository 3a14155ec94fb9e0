//! How the parts of an object combine when two people write it.
//!
//! A [`Shape`] says for every place of a kind whether a list is replaced whole, merged by key or kept as a set, and
//! whether a map is granular. Strategic merge patch and server-side apply both walk it; built-in kinds take theirs from
//! the table in `types`, custom resources from their schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The shape of one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A string, number or boolean.
    Scalar,
    /// A list or map that has one owner and is replaced whole.
    Atomic,
    /// An object with known fields.
    Record(Arc<Record>),
    /// A granular map from strings to values of one shape.
    Map(Arc<Shape>),
    /// A list of scalars in which every value has its own owners.
    Set,
    /// A list of records that are told apart by some of their fields.
    Keyed(Arc<Keyed>),
    /// Nothing is known: maps are granular, lists atomic.
    Open,
}

/// An object with known fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) fields: BTreeMap<String, Member>,
    /// The shape of fields that are not listed; `None` where no other field may exist.
    pub(crate) others: Option<Shape>,
}

/// One field of a [`Record`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) shape: Shape,
    /// How strategic merge patch treats this field, where that differs from "replace lists, merge maps".
    pub(crate) strategy: Option<Strategy>,
}

/// The `patchStrategy` and `patchMergeKey` of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strategy {
    /// The list is merged: by this key, or, without one, as a set of scalars.
    pub(crate) merge: Option<Merge>,
    /// Fields that a patch's `$retainKeys` does not name are cleared.
    pub(crate) retain_keys: bool,
}

/// How a list is merged by a strategic merge patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Merge {
    ByKey(String),
    Set,
}

/// A list whose elements are told apart by `keys`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Keyed {
    /// Key fields in order, each with the value that stands for an absent one.
    pub(crate) keys: Vec<(String, Option<Value>)>,
    pub(crate) element: Shape,
}
