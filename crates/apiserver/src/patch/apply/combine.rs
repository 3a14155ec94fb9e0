//! Merging an applied object into the live one.
//!
//! Nothing is removed here. Where both have a leaf the applied one wins, and so does the applied order of list elements;
//! elements that only the live list has keep their place among the others.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::view::{self, View};
use crate::shape::Shape;

/// The live value with the applied one laid over it.
pub(super) fn combine(live: &Value, applied: &Value, shape: &Shape) -> Value {
    match (View::of(live, shape), View::of(applied, shape)) {
        (old, new) if old.is_empty() && new.is_empty() => applied.clone(),
        (View::Fields(live), View::Fields(applied)) => Value::Object(combine_fields(live, applied, shape)),
        (View::Items(live), View::Items(applied)) => Value::Array(combine_items(live, applied, shape)),
        _ => applied.clone(),
    }
}

fn combine_fields(
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
    shape: &Shape,
) -> Map<String, Value> {
    let over = |name: &str| applied.and_then(|applied| applied.get(name));
    // What is replaced is not copied first: most of an object may be one list.
    let kept = live.into_iter().flatten().map(|(name, value)| match over(name) {
        Some(applied) => (name.clone(), combine(value, applied, view::field(shape, name).shape)),
        None => (name.clone(), value.clone()),
    });
    let mut merged: Map<String, Value> = kept.collect();
    let is_new = |name: &str| live.is_none_or(|live| !live.contains_key(name));
    let new = applied.into_iter().flatten().filter(|(name, _)| is_new(name));
    merged.extend(new.map(|(name, value)| (name.clone(), value.clone())));
    merged
}

/// A list whose elements are found by identity.
struct Index<'a> {
    items: &'a [Value],
    identities: Vec<String>,
    places: HashMap<String, Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Only(usize),
    Many,
}

impl<'a> Index<'a> {
    /// An element without an identity gets one that no other can have.
    fn new(items: &'a [Value], shape: &Shape) -> Self {
        let identities: Vec<String> = items
            .iter()
            .enumerate()
            .map(|(position, item)| view::identify(item, shape).unwrap_or_else(|_| format!("?:{position}")))
            .collect();
        let mut places = HashMap::with_capacity(items.len());
        for (position, identity) in identities.iter().enumerate() {
            let place = places.entry(identity.clone()).and_modify(|place| *place = Place::Many);
            place.or_insert(Place::Only(position));
        }
        Self { items, identities, places }
    }

    fn contains(&self, identity: &str) -> bool {
        self.places.contains_key(identity)
    }

    fn find(&self, identity: &str) -> Option<&'a Value> {
        match self.places.get(identity)? {
            Place::Only(position) => self.items.get(*position),
            Place::Many => None,
        }
    }
}

fn combine_items(live: &[Value], applied: &[Value], shape: &Shape) -> Vec<Value> {
    let (live, applied) = (Index::new(live, shape), Index::new(applied, shape));
    let merged = |identity: &str, item: &Value| match live.find(identity) {
        Some(live) => combine(live, item, view::item_shape(shape)),
        None => item.clone(),
    };
    let mut shared = applied.identities.iter().filter(|identity| live.contains(identity)).peekable();
    let mut done: HashSet<&str> = HashSet::new();
    let mut out = Vec::with_capacity(live.items.len().max(applied.items.len()));
    let (mut left, mut right) = (0, 0);
    while left < live.items.len() || right < applied.items.len() {
        if let (Some(next), Some(wanted)) = (live.identities.get(left), applied.identities.get(right))
            && next != wanted
            && applied.contains(next)
            && shared.peek().is_some_and(|shared| *shared != next)
        {
            // Shared, but the applied list has another one first: it comes when its turn is there.
            left += 1;
            continue;
        }
        if let Some(next) = live.identities.get(left) {
            if !applied.contains(next) {
                out.push(live.items[left].clone());
                left += 1;
                continue;
            }
            if done.contains(next.as_str()) || applied.identities.get(right) == Some(next) {
                left += 1;
            }
        }
        if let Some(wanted) = applied.identities.get(right) {
            out.push(merged(wanted, &applied.items[right]));
            done.insert(wanted);
            shared.next_if(|shared| *shared == wanted);
            right += 1;
        }
    }
    out
}
