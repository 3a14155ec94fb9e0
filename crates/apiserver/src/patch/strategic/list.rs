//! Merging two lists, by key or as sets of scalars, and the order of the outcome.
//!
//! The order that `kubectl apply` counts on: elements that the patch mentions stand in the patch's order, all others keep
//! their place among the live ones.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Error, Fields, directive, merge_fields};
use crate::shape::{Merge, Shape};

/// Merges `patch` into `live`.
pub(super) fn merge(
    live: Vec<Value>,
    patch: &[Value],
    merge: &Merge,
    element: &Shape,
) -> Result<Vec<Value>, Error> {
    match merge {
        Merge::Set => {
            let mut seen = HashSet::new();
            let unique = live.iter().chain(patch).filter(|value| seen.insert(value.to_string()));
            reorder(unique.cloned().collect(), patch, &live, Some(merge))
        }
        Merge::ByKey(key) => merge_by_key(live, patch, key, element),
    }
}

fn merge_by_key(live: Vec<Value>, patch: &[Value], key: &str, element: &Shape) -> Result<Vec<Value>, Error> {
    let edit = Edit::read(patch, key)?;
    if edit.replace {
        return Ok(edit.set.iter().copied().filter_map(clean).collect());
    }
    let live: Vec<Value> = live.into_iter().filter(|item| !edit.deletes(item, key)).collect();
    let mut merged = live.clone();
    let mut places = Places::of(&live, Some(&Merge::ByKey(key.to_owned())))?;
    for item in &edit.set {
        merge_element(&mut merged, &mut places, item, key, element)?;
    }
    let order: Vec<Value> = edit.set.iter().map(|item| Value::Object((*item).clone())).collect();
    reorder(merged, &order, &live, Some(&Merge::ByKey(key.to_owned())))
}

fn clean(item: &Fields) -> Option<Value> {
    Some(Value::Object(directive::cleaned_fields(item)))
}

/// What the elements of a patch ask for.
struct Edit<'a> {
    set: Vec<&'a Fields>,
    delete: HashSet<String>,
    replace: bool,
}

impl<'a> Edit<'a> {
    fn read(patch: &'a [Value], key: &str) -> Result<Self, Error> {
        let mut edit = Self { set: Vec::new(), delete: HashSet::new(), replace: false };
        for item in patch {
            let item = fields(item)?;
            match item.get(directive::PATCH).map(Value::as_str) {
                None => edit.set.push(item),
                Some(Some("delete")) => {
                    edit.delete.insert(key_of(item, key)?.to_string());
                }
                Some(Some("replace")) => edit.replace = true,
                Some(Some("merge")) => {
                    let text = "merging lists cannot yet be specified in the patch";
                    return Err(Error::Unusable(text.to_owned()));
                }
                Some(_) => return Err(super::unknown_directive(item)),
            }
        }
        Ok(edit)
    }

    fn deletes(&self, item: &Value, key: &str) -> bool {
        item.get(key).is_some_and(|value| self.delete.contains(&value.to_string()))
    }
}

fn merge_element(
    merged: &mut Vec<Value>,
    places: &mut Places,
    item: &Fields,
    key: &str,
    element: &Shape,
) -> Result<(), Error> {
    let wanted = key_of(item, key)?;
    match places.find(wanted).and_then(|place| merged.get_mut(place)) {
        Some(Value::Object(live)) => *live = merge_fields(std::mem::take(live), item, element)?,
        _ => {
            places.0.insert(wanted.to_string(), merged.len());
            merged.extend(clean(item));
        }
    }
    Ok(())
}

fn fields(item: &Value) -> Result<&Fields, Error> {
    item.as_object().ok_or_else(|| {
        Error::Unusable(format!(
            "expected a map[string]interface {{}}, but received {}",
            directive::shown(item)
        ))
    })
}

fn key_of<'a>(item: &'a Fields, key: &str) -> Result<&'a Value, Error> {
    item.get(key).ok_or_else(|| {
        let map = directive::shown_fields(item);
        Error::Unusable(format!("map: {map} does not contain declared merge key: {key}"))
    })
}

/// An order must name the elements that the patch sets, in the patch's own order.
pub(super) fn check_order(patch: &[Value], order: &[Value], merge: Option<&Merge>) -> Result<(), Error> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(directive::PATCH).is_none()) {
        let wanted = identity(item, merge)?;
        let found = loop {
            match rest.next() {
                Some(next) if identity(next, merge)? == wanted => break true,
                Some(_) => {}
                None => break false,
            }
        };
        if !found {
            return Err(misordered(patch, order));
        }
    }
    Ok(())
}

fn misordered(patch: &[Value], order: &[Value]) -> Error {
    let (patch, order) = (directive::shown(&patch.to_vec().into()), directive::shown(&order.to_vec().into()));
    Error::Unusable(format!(
        "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
    ))
}

/// Sorts `merged`: elements named by `order` in that order, the others where they stood among the `live` ones.
pub(super) fn reorder(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge: Option<&Merge>,
) -> Result<Vec<Value>, Error> {
    let order = Places::of(order, merge)?;
    let live = Places::of(live, merge)?;
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let place = live.find(identity(&item, merge)?);
        match order.find(identity(&item, merge)?) {
            Some(wanted) => named.push((wanted, place, item)),
            None => others.push((place, item)),
        }
    }
    named.sort_by_key(|(wanted, ..)| *wanted);
    others.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    Ok(interleave(named.into_iter().map(|(_, place, item)| (place, item)).collect(), others))
}

/// Lets an element of `others` go first only where the live list says that it does.
fn interleave(named: Vec<(Option<usize>, Value)>, others: Vec<(Option<usize>, Value)>) -> Vec<Value> {
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (place, item) in named {
        while let Some((_, other)) = others
            .next_if(|(other, _)| matches!((other, place), (Some(other), Some(place)) if *other < place))
        {
            sorted.push(other);
        }
        sorted.push(item);
    }
    sorted.extend(others.map(|(_, item)| item));
    sorted
}

/// Where each element of a list stands, by the text of its identity: lists may be long.
struct Places(HashMap<String, usize>);

impl Places {
    fn of(items: &[Value], merge: Option<&Merge>) -> Result<Self, Error> {
        let mut places = HashMap::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            places.entry(identity(item, merge)?.to_string()).or_insert(place);
        }
        Ok(Self(places))
    }

    fn find(&self, wanted: &Value) -> Option<usize> {
        self.0.get(&wanted.to_string()).copied()
    }
}

/// What tells the elements of a list apart: the merge key, or the whole value.
fn identity<'a>(item: &'a Value, merge: Option<&Merge>) -> Result<&'a Value, Error> {
    match merge {
        Some(Merge::ByKey(key)) => key_of(fields(item)?, key),
        _ => Ok(item),
    }
}
