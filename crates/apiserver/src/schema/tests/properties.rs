//! Whatever the value: no panic, and pruning and defaulting settle.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{define, parse};
use crate::schema::Definition;
use crate::schema::structural::Schema;

/// A schema with every keyword, whose fields are the ones that [`any_value`] likes to use.
static RICH: LazyLock<Schema> = LazyLock::new(|| {
    parse(&json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "object", "default": {}, "minProperties": 0, "maxProperties": 4, "properties": {
                "a": {"type": "integer", "default": 2, "minimum": 0, "maximum": 1000, "multipleOf": 2, "format": "int32"},
                "b": {"type": "string", "nullable": true, "minLength": 1, "maxLength": 3, "pattern": "^[a-z]", "format": "hostname"},
                "c": {"type": "number", "exclusiveMinimum": true, "minimum": -2.5, "format": "double"},
                "d": {"x-kubernetes-int-or-string": true, "default": "x", "anyOf": [{"minimum": 1}, {"pattern": "^x"}]},
            }, "x-kubernetes-validations": [
                {"rule": "!has(self.a) || self.a < 500", "message": "too large"},
                {"rule": "!has(self.c) || self.c >= oldSelf.c", "messageExpression": "'c was ' + string(oldSelf.c)"},
            ]},
            "b": {"type": "array", "minItems": 1, "maxItems": 3, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"], "items": {"type": "object", "properties": {
                    "a": {"type": "string", "default": "k"},
                    "b": {"type": "boolean", "enum": [true]},
                }}},
            "c": {"type": "object", "additionalProperties": {"type": "integer", "default": 1}},
            "d": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true,
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]},
                "properties": {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "b": {"type": "string"}, "c": {"type": "string"}}},
        },
    }))
});

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..8_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.é -]{0,5}".prop_map(Value::from),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-e]|metadata|kind", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An object that is close to valid, so that checks get past its outermost fields.
fn near_object() -> impl Strategy<Value = Value> {
    let number = prop_oneof![4 => (0..20_i64).prop_map(Value::from), 1 => scalar()];
    let word = prop_oneof![4 => "[a-z]{1,3}".prop_map(Value::from), 1 => scalar()];
    let a = (number.clone(), word.clone(), any_value()).prop_map(|(a, b, d)| json!({"a": a, "b": b, "z": d}));
    let b =
        prop::collection::vec(word.clone().prop_map(|a| json!({"a": a, "y": 1})), 1..3).prop_map(Value::from);
    let c = prop::collection::btree_map("[a-z]", number, 0..3).prop_map(|map| json!(map));
    let d = (word, any_value()).prop_map(|(b, x)| json!({"apiVersion": "v1", "kind": "Pod", "b": b, "x": x}));
    (a, prop::option::of(b), c, d).prop_map(|(a, b, c, d)| match b {
        Some(b) => json!({"a": a, "b": b, "c": c, "d": d}),
        None => json!({"a": a, "c": c, "d": d}),
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop_oneof![near_object(), any_value()]
}

proptest! {
    #[test]
    fn no_value_makes_the_schema_panic(value in object(), old in prop::option::of(object())) {
        RICH.validate(&value, old.as_ref());
        let mut changed = value;
        RICH.drop_nulls(&mut changed);
        RICH.default(&mut changed);
        RICH.prune(&mut changed);
        RICH.validate(&changed, old.as_ref());
    }

    #[test]
    fn pruning_twice_finds_nothing_more(value in object()) {
        let mut once = value;
        RICH.prune(&mut once);
        let mut twice = once.clone();
        prop_assert!(RICH.prune(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn pruning_only_removes_what_it_names(value in object()) {
        let mut pruned = value.clone();
        prop_assert_eq!(RICH.prune(&mut pruned).is_empty(), pruned == value);
    }

    #[test]
    fn defaulting_twice_changes_nothing_more(value in object()) {
        let mut once = value;
        RICH.default(&mut once);
        let mut twice = once.clone();
        RICH.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_valid_object_stays_valid_when_pruned_and_defaulted_again(value in near_object()) {
        let mut first = value;
        RICH.prune(&mut first);
        RICH.default(&mut first);
        prop_assume!(RICH.validate(&first, None).is_empty());
        let mut second = first.clone();
        RICH.prune(&mut second);
        RICH.default(&mut second);
        prop_assert!(RICH.validate(&second, None).is_empty());
        prop_assert!(RICH.validate(&second, Some(&first)).is_empty());
    }

    #[test]
    fn any_schema_is_accepted_or_refused(schema in any_value()) {
        let crd = json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        });
        if Definition::parse(&crd).is_ok() {
            prop_assert_eq!(define(&crd).group, "example.com");
        }
    }
}
