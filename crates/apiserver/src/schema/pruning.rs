//! Dropping the fields that a schema does not know.

use serde_json::{Map, Value};

use super::path;
use super::structural::Schema;

/// Fields that every resource has, so that no schema has to name them.
pub(super) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields of a whole object and returns their paths, sorted.
    pub(crate) fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut pruner = Pruner { unknown: Vec::new() };
        let root = Node { schema: Some(self), preserve: self.preserve_unknown_fields, meta: true };
        pruner.prune(value, root, "");
        pruner.unknown.sort();
        pruner.unknown
    }
}

/// What holds for one value while it is pruned.
#[derive(Clone, Copy)]
struct Node<'a> {
    schema: Option<&'a Schema>,
    /// Unknown fields stay.
    preserve: bool,
    /// The value is a resource, so that it has a type and metadata.
    meta: bool,
}

impl<'a> Node<'a> {
    fn of(schema: Option<&'a Schema>) -> Self {
        let preserve = schema.is_some_and(|schema| schema.preserve_unknown_fields);
        Self { schema, preserve, meta: schema.is_some_and(|schema| schema.embedded_resource) }
    }

    /// Elements of a list that preserves unknown fields do so, too, whatever their own schema says.
    fn item(self) -> Self {
        let item = Self::of(self.schema.and_then(|schema| schema.items.as_deref()));
        Self { preserve: item.preserve || self.preserve, ..item }
    }

    /// The field `name`, or `None` where it is unknown.
    fn field(self, name: &str) -> Option<Self> {
        let schema = self.schema?;
        match schema.properties.get(name) {
            Some(property) => Some(Self::of(Some(property))),
            None => schema.additional.as_ref().map(|additional| Self::of(additional.schema())),
        }
    }
}

struct Pruner {
    unknown: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, node: Node<'_>, at: &str) {
        match value {
            Value::Object(fields) => self.prune_fields(fields, node, at),
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.prune(item, node.item(), &path::index(at, i));
                }
            }
            _ => {}
        }
    }

    fn prune_fields(&mut self, fields: &mut Map<String, Value>, node: Node<'_>, at: &str) {
        fields.retain(|name, value| {
            if node.meta && META.contains(&name.as_str()) {
                return true;
            }
            let place = path::child(at, name);
            match node.field(name) {
                Some(field) => self.prune(value, field, &place),
                None if node.preserve => {}
                None => {
                    self.unknown.push(place);
                    return false;
                }
            }
            true
        });
    }
}
