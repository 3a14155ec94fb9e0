//! Removing what a manager applied before, does not apply now, and nobody else owns.

use serde_json::Value;

use super::element;
use super::fieldset::FieldSet;
use super::owned::fields_of;
use super::view;
use crate::shape::Shape;

/// Removes from `merged` what is in `last` but in nobody's set. `owned` is the union of all sets, the new one of the
/// manager included.
pub(super) fn prune(mut merged: Value, last: &FieldSet, owned: &FieldSet, shape: &Shape) -> Value {
    let last = with_parents(last, shape);
    let all = with_parents(&fields_of(&merged, shape), shape);
    let kept = fields_left(&merged, &last, shape).union(with_parents(owned, shape));
    let kept = fields_left(&merged, &all.clone().difference(&kept), shape);
    let doomed = all.difference(&kept).intersection(&last);
    remove(&mut merged, &doomed, Emptied::Goes, shape);
    merged
}

/// The fields of what is left of `value` without `doomed`.
fn fields_left(value: &Value, doomed: &FieldSet, shape: &Shape) -> FieldSet {
    let mut left = value.clone();
    remove(&mut left, doomed, Emptied::IsNull, shape);
    with_parents(&fields_of(&left, shape), shape)
}

/// The set with every named field that leads to a member: a record goes with the last of its fields, an entry of a map
/// has an owner itself.
fn with_parents(set: &FieldSet, shape: &Shape) -> FieldSet {
    let mut all = FieldSet::default();
    for (step, node) in set.nodes() {
        let (named, inner) = match (element::field_name(step), shape) {
            (Some(name), Shape::Record(_) | Shape::Map(_) | Shape::Open) => {
                let field = view::field(shape, name);
                (field.named, field.shape)
            }
            (None, Shape::Keyed(keyed)) if element::is_key(step) => (false, &keyed.element),
            _ => (false, &Shape::Scalar),
        };
        all.insert(step.to_owned(), node.member || named, with_parents(&node.below, inner));
    }
    all
}

/// What becomes of a container that is not removed itself but loses all it has.
#[derive(Clone, Copy, PartialEq)]
enum Emptied {
    /// It counts as there.
    IsNull,
    Goes,
}

#[derive(PartialEq)]
enum Fate {
    Stays,
    Doomed,
    Emptied,
}

fn fate(value: &mut Value, step: &str, doomed: &FieldSet, emptied: Emptied, shape: &Shape) -> Fate {
    match doomed.get(step) {
        None => Fate::Stays,
        Some(node) if node.member => Fate::Doomed,
        Some(node) => {
            if !remove(value, &node.below, emptied, shape) {
                return Fate::Stays;
            }
            *value = Value::Null;
            if emptied == Emptied::Goes { Fate::Emptied } else { Fate::Stays }
        }
    }
}

/// Removes the members of `doomed` from a value; says whether it had any fields and all were members.
fn remove(value: &mut Value, doomed: &FieldSet, emptied: Emptied, shape: &Shape) -> bool {
    let mut is_left = false;
    let mut judge = |fate: Fate| {
        is_left |= fate != Fate::Doomed;
        fate == Fate::Stays
    };
    let had_any = match (value, shape) {
        (Value::Object(fields), Shape::Record(_) | Shape::Map(_) | Shape::Open) => {
            let had_any = !fields.is_empty();
            fields.retain(|name, value| {
                let shape = view::field(shape, name).shape;
                judge(fate(value, &element::field(name), doomed, emptied, shape))
            });
            had_any
        }
        (Value::Array(items), Shape::Set | Shape::Keyed(_)) => {
            let had_any = !items.is_empty();
            items.retain_mut(|item| match view::identify(item, shape) {
                Ok(identity) => judge(fate(item, &identity, doomed, emptied, view::item_shape(shape))),
                Err(_) => judge(Fate::Stays),
            });
            had_any
        }
        _ => false,
    };
    had_any && !is_left
}
