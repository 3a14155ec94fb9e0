//! The fields an object consists of: what whoever applies it owns.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::element;
use super::fieldset::{self, FieldSet};
use super::view::{self, View};
use crate::shape::Shape;

/// Parts of `metadata` that nobody owns: they are the identity of the object or kept by the server.
const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Where in an object a walk is: two levels have members that nobody owns.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Level {
    Object,
    Metadata,
    Deeper,
}

impl Level {
    /// Whether nobody owns this member, nor what is in it.
    pub(super) fn skips(self, name: &str) -> bool {
        match self {
            Self::Object => matches!(name, "apiVersion" | "kind"),
            Self::Metadata => UNOWNED_METADATA.contains(&name),
            Self::Deeper => false,
        }
    }

    pub(super) fn below(self, name: &str) -> Self {
        if self == Self::Object && name == "metadata" { Self::Metadata } else { Self::Deeper }
    }
}

/// An applied object that does not fit its shape.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {problem}")]
pub(crate) struct Misshapen {
    pub path: String,
    pub problem: String,
}

/// The set without what nobody owns.
pub(super) fn ownable(mut set: FieldSet) -> FieldSet {
    set.remove("f:apiVersion");
    set.remove("f:kind");
    set.edit("f:metadata", |metadata| {
        metadata.member = false;
        for name in UNOWNED_METADATA {
            metadata.below.remove(&element::field(name));
        }
    });
    set
}

/// Every field of a value, identity included.
pub(super) fn fields_of(value: &Value, shape: &Shape) -> FieldSet {
    match View::of(value, shape) {
        View::Leaf | View::Fields(None) => FieldSet::default(),
        View::Items(items) => items_of(items, shape),
        View::Fields(Some(fields)) => {
            let mut set = FieldSet::default();
            for (name, value) in fields {
                let field = view::field(shape, name);
                let member = !field.named || is_leaf(value, field.shape);
                set.insert(element::field(name), member, fields_of(value, field.shape));
            }
            set
        }
    }
}

/// An empty object is a leaf where it stands, an empty list is nothing.
fn is_leaf(value: &Value, shape: &Shape) -> bool {
    match View::of(value, shape) {
        View::Leaf | View::Fields(None) => true,
        View::Fields(Some(fields)) => fields.is_empty(),
        View::Items(_) => value.is_null(),
    }
}

/// Elements that share an identity are owned together; one without an identity cannot be owned.
fn items_of(items: &[Value], shape: &Shape) -> FieldSet {
    let identities: Vec<_> = items.iter().map(|item| view::identify(item, shape).ok()).collect();
    let mut times: HashMap<&str, usize> = HashMap::with_capacity(items.len());
    for identity in identities.iter().flatten() {
        *times.entry(identity).or_default() += 1;
    }
    let mut set = FieldSet::default();
    for (item, identity) in items.iter().zip(&identities) {
        let Some(identity) = identity else { continue };
        let is_unique = times.get(identity.as_str()) == Some(&1);
        let below = if is_unique { fields_of(item, view::item_shape(shape)) } else { FieldSet::default() };
        set.insert(identity.clone(), true, below);
    }
    set
}

/// Whether an object may be applied: all fields are declared, all elements of a list have an identity of their own.
pub(crate) fn check(value: &Value, shape: &Shape) -> Result<(), Misshapen> {
    check_below(value, shape, &mut Vec::new())
}

fn check_below(value: &Value, shape: &Shape, path: &mut Vec<String>) -> Result<(), Misshapen> {
    match View::of(value, shape) {
        View::Leaf | View::Fields(None) => Ok(()),
        View::Fields(Some(fields)) => fields.iter().try_for_each(|(name, value)| {
            let field = view::field(shape, name);
            path.push(element::field(name));
            if !field.declared {
                return Err(misshapen(path, "field not declared in schema".to_owned()));
            }
            check_below(value, field.shape, path)?;
            path.pop();
            Ok(())
        }),
        View::Items(items) => check_items(items, shape, path),
    }
}

fn check_items(items: &[Value], shape: &Shape, path: &mut Vec<String>) -> Result<(), Misshapen> {
    let mut seen = HashSet::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let identity = view::identify(item, shape)
            .map_err(|problem| misshapen(path, format!("element {position}: {problem}")))?;
        if !seen.insert(identity.clone()) {
            return Err(misshapen(path, format!("duplicate entries for key {}", element::shown(&identity))));
        }
        path.push(identity);
        check_below(item, view::item_shape(shape), path)?;
        path.pop();
    }
    Ok(())
}

fn misshapen(path: &[String], problem: String) -> Misshapen {
    Misshapen { path: fieldset::shown(path), problem }
}
