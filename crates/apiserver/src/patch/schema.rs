//! The shape of a custom resource, read from the schema of its definition.
//!
//! Lists are atomic and maps granular unless the schema says otherwise; `metadata` is what it is for every kind, whatever
//! the schema says about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::object_meta;
use crate::shape::{Keyed, Member, Record, Shape};

/// The shape of the objects that a structural `openAPIV3Schema` describes.
pub(crate) fn shape(schema: &Value) -> Shape {
    let mut record = match object(schema) {
        Shape::Record(record) => Arc::unwrap_or_clone(record),
        Shape::Map(values) => Record { fields: BTreeMap::new(), others: Some(Shape::clone(&values)) },
        _ => Record { fields: BTreeMap::new(), others: Some(Shape::Open) },
    };
    for name in ["apiVersion", "kind"] {
        record.fields.insert(name.to_owned(), member(Shape::Scalar));
    }
    record.fields.insert("metadata".to_owned(), member(object_meta::shape()));
    Shape::Record(Arc::new(record))
}

fn value(schema: &Value) -> Shape {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Shape::Scalar;
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        return if is_atomic_map(schema) { Shape::Atomic } else { shape(schema) };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object(schema),
        Some("array") => list(schema),
        Some(_) => Shape::Scalar,
        None => Shape::Open,
    }
}

fn object(schema: &Value) -> Shape {
    if is_atomic_map(schema) {
        return Shape::Atomic;
    }
    let fields: BTreeMap<String, Member> = match schema.get("properties") {
        Some(Value::Object(properties)) => {
            properties.iter().map(|(name, schema)| (name.clone(), member(value(schema)))).collect()
        }
        _ => BTreeMap::new(),
    };
    match (fields.is_empty(), others(schema)) {
        (true, Some(Shape::Open) | None) => Shape::Open,
        (true, Some(values)) => Shape::Map(Arc::new(values)),
        (false, others) => Shape::Record(Arc::new(Record { fields, others })),
    }
}

fn is_atomic_map(schema: &Value) -> bool {
    text(schema, "x-kubernetes-map-type") == Some("atomic")
}

fn others(schema: &Value) -> Option<Shape> {
    match schema.get("additionalProperties") {
        Some(values @ Value::Object(_)) => Some(value(values)),
        Some(Value::Bool(true)) => Some(Shape::Open),
        _ => flag(schema, "x-kubernetes-preserve-unknown-fields").then_some(Shape::Open),
    }
}

fn list(schema: &Value) -> Shape {
    match text(schema, "x-kubernetes-list-type") {
        Some("set") => Shape::Set,
        Some("map") => keyed(schema),
        _ => Shape::Atomic,
    }
}

fn keyed(schema: &Value) -> Shape {
    let items = schema.get("items").unwrap_or(&Value::Null);
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys = names.into_iter().flatten().filter_map(Value::as_str);
    let keys: Vec<_> = keys.map(|name| (name.to_owned(), key_default(items, name))).collect();
    if keys.is_empty() {
        return Shape::Atomic;
    }
    Shape::Keyed(Arc::new(Keyed { keys, element: value(items) }))
}

fn key_default(items: &Value, name: &str) -> Option<Value> {
    items.get("properties")?.get(name)?.get("default").filter(|value| !value.is_null()).cloned()
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn member(shape: Shape) -> Member {
    Member { shape, strategy: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: Value) -> Shape {
        let whole = json!({"type": "object", "properties": {"spec": schema}});
        let Shape::Record(record) = shape(&whole) else { panic!("an object is a record") };
        record.fields["spec"].shape.clone()
    }

    #[test]
    fn every_kind_of_schema_has_its_shape() {
        let string = json!({"type": "string"});
        let cases = [
            (json!({"type": "string"}), Shape::Scalar),
            (json!({"x-kubernetes-int-or-string": true}), Shape::Scalar),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), Shape::Open),
            (json!({"type": "object"}), Shape::Open),
            (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), Shape::Open),
            (
                json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": string}}),
                Shape::Atomic,
            ),
            (json!({"type": "object", "additionalProperties": string}), Shape::Map(Arc::new(Shape::Scalar))),
            (json!({"type": "array", "items": string}), Shape::Atomic),
            (json!({"type": "array", "items": string, "x-kubernetes-list-type": "set"}), Shape::Set),
            (json!({"type": "array", "items": string, "x-kubernetes-list-type": "map"}), Shape::Atomic),
        ];
        for (schema, expected) in cases {
            assert_eq!(field(schema.clone()), expected, "{schema}");
        }
    }

    #[test]
    fn a_record_admits_unknown_fields_only_where_they_are_preserved() {
        let closed = field(json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
        let open = field(json!({
            "type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-preserve-unknown-fields": true,
        }));
        let fields = BTreeMap::from([("a".to_owned(), member(Shape::Scalar))]);
        assert_eq!(closed, Shape::Record(Arc::new(Record { fields: fields.clone(), others: None })));
        assert_eq!(open, Shape::Record(Arc::new(Record { fields, others: Some(Shape::Open) })));
    }

    #[test]
    fn keys_of_a_list_take_their_defaults_from_the_items() {
        let items = json!({"type": "object", "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
        }});
        let Shape::Keyed(keyed) = field(json!({
            "type": "array", "items": items,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        })) else {
            panic!("a list with keys is keyed")
        };
        assert_eq!(keyed.keys, [("port".to_owned(), None), ("protocol".to_owned(), Some(json!("TCP")))]);
        assert!(matches!(keyed.element, Shape::Record(_)));
    }

    #[test]
    fn metadata_is_the_same_for_every_schema() {
        for schema in [json!({}), json!({"type": "object", "properties": {"metadata": {"type": "object"}}})] {
            let Shape::Record(record) = shape(&schema) else { panic!("an object is a record") };
            assert_eq!(record.fields["metadata"].shape, object_meta::shape(), "{schema}");
        }
    }
}
