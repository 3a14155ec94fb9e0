//! Removing what a manager applied before, does not apply now, and nobody else owns.

use serde_json::Value;

use super::element;
use super::fieldset::FieldSet;
use super::owned::fields_of;
use super::view;
use crate::shape::Shape;

/// Removes from `merged` what is in `last` but in nobody's set. `owned` is the union of all sets, the new one of the
/// manager included. A container that somebody owns but nothing is left of becomes null, even one that is applied empty:
/// that is what a real server makes of it.
pub(super) fn prune(mut merged: Value, last: &FieldSet, owned: &FieldSet, shape: &Shape) -> Value {
    let last = with_parents(last, shape);
    let all = with_parents(&fields_of(&merged, shape), shape);
    let kept = fields_left(&merged, &last, shape).union(with_parents(owned, shape));
    let kept = fields_left(&merged, &all.clone().difference(&kept), shape);
    let doomed = all.difference(&kept).intersection(&last);
    remove(&mut merged, &doomed, shape);
    merged
}

/// The fields of what is left of `value` without `doomed`.
fn fields_left(value: &Value, doomed: &FieldSet, shape: &Shape) -> FieldSet {
    let mut left = value.clone();
    remove(&mut left, doomed, shape);
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

/// Whether a field or an element stays; a container that stays but loses all it has becomes null.
fn stays(value: &mut Value, step: &str, doomed: &FieldSet, shape: &Shape) -> bool {
    match doomed.get(step) {
        None => true,
        Some(node) if node.member => false,
        Some(node) => {
            if remove(value, &node.below, shape) {
                *value = Value::Null;
            }
            true
        }
    }
}

/// Removes the members of `doomed` from a value; says whether it had any fields and all were members.
fn remove(value: &mut Value, doomed: &FieldSet, shape: &Shape) -> bool {
    match (value, shape) {
        (Value::Object(fields), Shape::Record(_) | Shape::Map(_) | Shape::Open) => {
            let had_any = !fields.is_empty();
            fields.retain(|name, value| {
                stays(value, &element::field(name), doomed, view::field(shape, name).shape)
            });
            had_any && fields.is_empty()
        }
        (Value::Array(items), Shape::Set | Shape::Keyed(_)) => {
            let had_any = !items.is_empty();
            items.retain_mut(|item| match view::identify(item, shape) {
                Ok(identity) => stays(item, &identity, doomed, view::item_shape(shape)),
                Err(_) => true,
            });
            had_any && items.is_empty()
        }
        _ => false,
    }
}
