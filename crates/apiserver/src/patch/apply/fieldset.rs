//! A set of field paths, and its form on the wire.
//!
//! A tree of path elements in which every node says whether its own path is a member; being a member says nothing about
//! the paths below. That makes union, difference and intersection plain set operations. No node is kept that neither is
//! a member nor leads to one.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element;

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn get(&self, element: &str) -> Option<&Node> {
        self.nodes.get(element)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(element, node)| (element.as_str(), node))
    }

    /// Adds a path and everything below it; does nothing when there is nothing to add.
    pub(super) fn insert(&mut self, element: String, member: bool, below: FieldSet) {
        if !member && below.is_empty() {
            return;
        }
        let node = self.nodes.entry(element).or_default();
        node.member |= member;
        node.below.extend(below);
    }

    /// Takes one path and everything below it away.
    pub(super) fn remove(&mut self, element: &str) {
        self.nodes.remove(element);
    }

    /// The same without the fields at these paths and everything below them.
    pub(super) fn without(mut self, paths: &[&[&str]]) -> FieldSet {
        paths.iter().for_each(|path| self.forget(path));
        self
    }

    fn forget(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [name] => self.remove(&element::field(name)),
            [name, below @ ..] => self.edit(&element::field(name), |node| node.below.forget(below)),
        }
    }

    /// Applies `change` to the set below `element`, and forgets the element when nothing is left of it.
    pub(super) fn edit(&mut self, element: &str, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(element) {
            change(node);
            if !node.member && node.below.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// Union, in place.
    pub(super) fn extend(&mut self, other: FieldSet) {
        if self.nodes.is_empty() {
            self.nodes = other.nodes;
            return;
        }
        for (element, node) in other.nodes {
            self.insert(element, node.member, node.below);
        }
    }

    /// Difference, in place.
    pub(super) fn subtract(&mut self, other: &FieldSet) {
        for (element, taken) in &other.nodes {
            self.edit(element, |node| {
                node.member &= !taken.member;
                node.below.subtract(&taken.below);
            });
        }
    }

    pub(super) fn union(mut self, other: FieldSet) -> FieldSet {
        self.extend(other);
        self
    }

    pub(super) fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.subtract(other);
        self
    }

    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut shared = FieldSet::default();
        for (element, node) in &self.nodes {
            if let Some(twin) = other.nodes.get(element) {
                let below = node.below.intersection(&twin.below);
                shared.insert(element.clone(), node.member && twin.member, below);
            }
        }
        shared
    }

    pub(super) fn is_subset(&self, other: &FieldSet) -> bool {
        self.nodes.iter().all(|(element, node)| {
            other
                .nodes
                .get(element)
                .is_some_and(|twin| (twin.member || !node.member) && node.below.is_subset(&twin.below))
        })
    }

    #[cfg(test)]
    pub(super) fn contains<T: AsRef<str>>(&self, path: &[T]) -> bool {
        match path {
            [] => false,
            [last] => self.nodes.get(last.as_ref()).is_some_and(|node| node.member),
            [first, rest @ ..] => {
                self.nodes.get(first.as_ref()).is_some_and(|node| node.below.contains(rest))
            }
        }
    }

    /// Every member, those of one level before what is below them.
    pub(super) fn paths(&self) -> Vec<Vec<&str>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths<'a>(&'a self, prefix: &mut Vec<&'a str>, paths: &mut Vec<Vec<&'a str>>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            paths.push(prefix.iter().copied().chain([element.as_str()]).collect());
        }
        for (element, node) in &self.nodes {
            prefix.push(element);
            node.below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub(super) fn encode(&self) -> Value {
        Value::Object(self.nodes.iter().map(|(element, node)| (element.clone(), node.encode())).collect())
    }

    /// Reads `fieldsV1`; elements of unknown kinds are left out.
    pub(super) fn decode(fields: &Value) -> Result<FieldSet, String> {
        let Value::Object(fields) = fields else {
            return Err("fieldsV1 must be an object".to_owned());
        };
        let mut set = FieldSet::default();
        for (text, below) in fields.iter().filter(|(text, _)| *text != ".") {
            let member = is_member(below);
            let below = FieldSet::decode(below)?;
            if let Some(element) = element::canonical(text)? {
                set.insert(element, member, below);
            }
        }
        Ok(set)
    }
}

fn is_member(below: &Value) -> bool {
    below.as_object().is_some_and(|fields| fields.is_empty() || fields.contains_key("."))
}

impl Node {
    fn encode(&self) -> Value {
        let Value::Object(mut fields) = self.below.encode() else { return Value::Null };
        if self.member && !fields.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(fields)
    }
}

/// A path as people read it, such as `.spec.ports[port=80,protocol="TCP"].name`.
pub(super) fn shown<T: AsRef<str>>(path: &[T]) -> String {
    path.iter().map(|step| element::shown(step.as_ref())).collect()
}
