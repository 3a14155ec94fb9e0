//! What differs between two versions of an object, as field sets.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element;
use super::fieldset::FieldSet;
use super::owned::Level;
use super::view::{self, View};
use crate::shape::Shape;

/// The fields in which two versions of an object differ. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    pub(super) changed: FieldSet,
    pub(super) added: FieldSet,
    pub(super) removed: FieldSet,
}

impl Change {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }

    /// The same without the fields at some paths, whatever is below them.
    pub(super) fn without(self, paths: &[&[&str]]) -> Self {
        Self {
            changed: self.changed.without(paths),
            added: self.added.without(paths),
            removed: self.removed.without(paths),
        }
    }

    fn attach(&mut self, element: impl FnOnce() -> String, (mark, below): (Mark, Change)) {
        if mark == Mark::Same && below.is_empty() {
            return;
        }
        let element = element();
        self.changed.insert(element.clone(), mark == Mark::Changed, below.changed);
        self.added.insert(element.clone(), mark == Mark::Added, below.added);
        self.removed.insert(element, mark == Mark::Removed, below.removed);
    }
}

/// What happened to one path itself.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Same,
    Changed,
    Added,
    Removed,
}

impl Mark {
    fn presence(old: Option<&Value>, new: Option<&Value>) -> Self {
        match (old, new) {
            (None, Some(_)) => Self::Added,
            (Some(_), None) => Self::Removed,
            _ => Self::Same,
        }
    }

    fn leaf(old: Option<&Value>, new: Option<&Value>) -> Self {
        match Self::presence(old, new) {
            Self::Same if old != new => Self::Changed,
            mark => mark,
        }
    }
}

/// Compares two objects, leaving out what nobody owns.
pub(super) fn compare(old: &Value, new: &Value, shape: &Shape) -> Change {
    walk(Some(old), Some(new), shape, Level::Object).1
}

fn walk(old: Option<&Value>, new: Option<&Value>, shape: &Shape, level: Level) -> (Mark, Change) {
    let views = (old.map(|value| View::of(value, shape)), new.map(|value| View::of(value, shape)));
    match views {
        (Some(View::Leaf) | None, Some(View::Leaf) | None) => (Mark::leaf(old, new), Change::default()),
        (before, after) if before.is_none_or(View::is_empty) && after.is_none_or(View::is_empty) => {
            (Mark::leaf(old, new), Change::default())
        }
        (Some(View::Fields(_)) | None, Some(View::Fields(_)) | None) => {
            let change = compare_fields(fields(views.0), fields(views.1), shape, level);
            (Mark::presence(old, new), change)
        }
        (Some(View::Items(_)) | None, Some(View::Items(_)) | None) => {
            match compare_items(items(views.0), items(views.1), shape) {
                Some(change) => (Mark::presence(old, new), change),
                None => (Mark::leaf(old, new), Change::default()),
            }
        }
        // What was one kind of value became another: all that was below is gone, all that is below is new.
        _ => {
            let mut change = walk(old, None, shape, level).1;
            change.added = walk(None, new, shape, level).1.added;
            (Mark::Changed, change)
        }
    }
}

fn fields<'a>(view: Option<View<'a>>) -> Option<&'a Map<String, Value>> {
    match view {
        Some(View::Fields(fields)) => fields,
        _ => None,
    }
}

fn items<'a>(view: Option<View<'a>>) -> &'a [Value] {
    match view {
        Some(View::Items(items)) => items,
        _ => &[],
    }
}

fn compare_fields(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    shape: &Shape,
    level: Level,
) -> Change {
    let mut change = Change::default();
    let mut visit = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        if level.skips(name) {
            return;
        }
        let inner = level.below(name);
        let (mark, below) = walk(before, after, view::field(shape, name).shape, inner);
        // Nobody owns `metadata` itself.
        let mark = if inner == Level::Metadata { Mark::Same } else { mark };
        change.attach(|| element::field(name), (mark, below));
    };
    for (name, value) in old.into_iter().flatten() {
        visit(name, Some(value), new.and_then(|new| new.get(name)));
    }
    for (name, value) in new.into_iter().flatten() {
        if !old.is_some_and(|old| old.contains_key(name)) {
            visit(name, None, Some(value));
        }
    }
    change
}

/// All elements that share an identity, before and after.
type Twins<'a> = (Vec<&'a Value>, Vec<&'a Value>);

/// `None` when an element has no identity: such a list can only be compared as a whole.
fn compare_items(old: &[Value], new: &[Value], shape: &Shape) -> Option<Change> {
    if old == new {
        return Some(Change::default());
    }
    let mut twins: BTreeMap<String, Twins<'_>> = BTreeMap::new();
    for item in old {
        twins.entry(view::identify(item, shape).ok()?).or_default().0.push(item);
    }
    for item in new {
        twins.entry(view::identify(item, shape).ok()?).or_default().1.push(item);
    }
    let mut change = Change::default();
    for (identity, (before, after)) in twins {
        let outcome = compare_twins(&before, &after, view::item_shape(shape));
        change.attach(|| identity, outcome);
    }
    Some(change)
}

/// Duplicates are owned together, as if they were one leaf.
fn compare_twins(before: &[&Value], after: &[&Value], shape: &Shape) -> (Mark, Change) {
    match (before, after) {
        ([] | [_], [] | [_]) => walk(before.first().copied(), after.first().copied(), shape, Level::Deeper),
        ([_, _, ..], [_, _, ..]) => {
            (if before == after { Mark::Same } else { Mark::Changed }, Change::default())
        }
        ([_, _, ..], []) => (Mark::Removed, Change::default()),
        ([], [_, _, ..]) => (Mark::Added, Change::default()),
        ([_, _, ..], [only]) => (Mark::Changed, walk(None, Some(only), shape, Level::Deeper).1),
        ([only], [_, _, ..]) => (Mark::Changed, walk(Some(only), None, shape, Level::Deeper).1),
    }
}
