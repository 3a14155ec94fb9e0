//! Strategic merge patch: a merge patch that knows which lists are merged, and by which key.
//!
//! `kubectl apply`, `edit` and `patch` send it for built-in kinds. Besides values a patch carries directives: `$patch`
//! (`delete`, `replace`, `merge`), `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>` and `$retainKeys`. None
//! of them ever reaches the result.

mod directive;
mod list;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::shape::{Member, Merge, Shape};
use directive::{DELETE_FROM, ORDER, PATCH, RETAIN, cleaned, shown};

type Fields = Map<String, Value>;

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum Error {
    /// A malformed directive: 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// The patch cannot be applied; a real server answers 500 with this message.
    #[error("{0}")]
    Unusable(String),
}

/// Applies `patch` to `target` and returns the result.
pub(crate) fn apply(target: &Value, patch: &Value, shape: &Shape) -> Result<Value, Error> {
    let (Value::Object(fields), Value::Object(patch)) = (target, patch) else {
        return Err(Error::Malformed("invalid JSON document"));
    };
    merge_fields(fields.clone(), patch, shape).map(Value::Object)
}

/// Merges `patch` into an object of this shape.
fn merge_fields(mut target: Fields, patch: &Fields, shape: &Shape) -> Result<Fields, Error> {
    match patch.get(PATCH).map(Value::as_str) {
        None => {}
        Some(Some("replace")) => return Ok(directive::cleaned_fields(patch)),
        Some(Some("delete")) => return Ok(Fields::new()),
        Some(Some("merge")) => {}
        Some(_) => return Err(unknown_directive(patch)),
    }
    retain(&mut target, patch)?;
    for (name, order) in patch {
        if let Some(name) = name.strip_prefix(ORDER) {
            merge_ordered(&mut target, patch, name, order, shape)?;
        }
    }
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix(DELETE_FROM) {
            delete_scalars(&mut target, name, value)?;
        } else if !name.starts_with('$') && !is_ordered(patch, name) {
            merge_member(&mut target, name, value, shape)?;
        }
    }
    Ok(target)
}

fn unknown_directive(patch: &Fields) -> Error {
    let directive = patch.get(PATCH).map(shown).unwrap_or_default();
    Error::Unusable(format!("unknown patch type: {directive} in map: {}", directive::shown_fields(patch)))
}

/// A list that comes with an order was merged together with it, unless it is deleted.
fn is_ordered(patch: &Fields, name: &str) -> bool {
    patch.contains_key(&format!("{ORDER}{name}")) && !patch.get(name).is_some_and(Value::is_null)
}

/// `$retainKeys`: clears what it does not name, and must name all that the patch sets.
fn retain(target: &mut Fields, patch: &Fields) -> Result<(), Error> {
    const MALFORMED: Error = Error::Malformed("invalid patch format of retainKeys");
    let Some(names) = patch.get(RETAIN) else { return Ok(()) };
    let names = names.as_array().ok_or(MALFORMED)?;
    let retained = |name: &str| names.iter().any(|retained| retained.as_str() == Some(name));
    let unnamed =
        |(name, value): (&String, &Value)| !value.is_null() && !name.starts_with('$') && !retained(name);
    if patch.iter().any(unnamed) {
        return Err(MALFORMED);
    }
    target.retain(|name, _| retained(name));
    Ok(())
}

fn merge_member(target: &mut Fields, name: &str, patch: &Value, shape: &Shape) -> Result<(), Error> {
    if patch.is_null() {
        target.remove(name);
        return Ok(());
    }
    let member = member(shape, name);
    let merged = match (target.remove(name), patch) {
        (Some(Value::Object(fields)), Value::Object(patch)) => {
            Some(Value::Object(merge_fields(fields, patch, inner(member))?))
        }
        (Some(Value::Array(items)), Value::Array(patch)) => match strategy(member) {
            Some(merge) => Some(Value::Array(list::merge(items, patch, merge, element(member))?)),
            None => cleaned(&Value::Array(patch.clone())),
        },
        (_, patch) => cleaned(patch),
    };
    if let Some(value) = merged {
        target.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Merges the list called `name`, then puts its elements into the given order.
fn merge_ordered(
    target: &mut Fields,
    patch: &Fields,
    name: &str,
    order: &Value,
    shape: &Shape,
) -> Result<(), Error> {
    const MALFORMED: Error = Error::Malformed("invalid patch format of setElementOrder list");
    let order = order.as_array().ok_or(MALFORMED)?;
    let patched = match patch.get(name) {
        Some(Value::Array(items)) => items.as_slice(),
        Some(Value::Null) => return Ok(()),
        None => &[],
        Some(_) => return Err(MALFORMED),
    };
    let live = match target.get(name) {
        Some(Value::Array(items)) => items.clone(),
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err(MALFORMED),
    };
    let merge = strategy(member(shape, name));
    list::check_order(patched, order, merge)?;
    if let Some(value) = patch.get(name) {
        merge_member(target, name, value, shape)?;
    }
    if let Some(Value::Array(items)) = target.get_mut(name) {
        let merged = std::mem::take(items);
        *items = list::reorder(merged, order, &live, merge)?;
    }
    Ok(())
}

/// `$deleteFromPrimitiveList`: takes values out of a list of scalars.
fn delete_scalars(target: &mut Fields, name: &str, values: &Value) -> Result<(), Error> {
    let values = values.as_array().ok_or(Error::Malformed("invalid patch format of primitive list"))?;
    if let Some(Value::Array(items)) = target.get_mut(name) {
        let doomed: HashSet<String> = values.iter().map(Value::to_string).collect();
        items.retain(|item| !doomed.contains(&item.to_string()));
    }
    Ok(())
}

fn member<'a>(shape: &'a Shape, name: &str) -> Option<&'a Member> {
    match shape {
        Shape::Record(record) => record.fields.get(name),
        _ => None,
    }
}

fn strategy(member: Option<&Member>) -> Option<&Merge> {
    member?.strategy.as_ref()?.merge.as_ref()
}

/// The shape to go on with inside a member; nothing is special inside a map or what is unknown.
fn inner(member: Option<&Member>) -> &Shape {
    member.map_or(&Shape::Open, |member| &member.shape)
}

fn element(member: Option<&Member>) -> &Shape {
    match member.map(|member| &member.shape) {
        Some(Shape::Keyed(keyed)) => &keyed.element,
        _ => &Shape::Open,
    }
}
