//! Validation rules in CEL.

use serde_json::{Value, json};

use super::{parse, texts};
use crate::schema::structural::Schema;

/// An autoscaler with rules of every kind.
fn schema() -> Schema {
    parse(&json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "required": ["min", "max"],
            "properties": {
                "min": {"type": "integer"},
                "max": {"type": "integer"},
                "class": {"type": "string", "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "class is immutable"},
                ]},
                "targets": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.weight >= oldSelf.weight", "message": "may only grow"}],
                    },
                },
            },
            "x-kubernetes-validations": [
                {"rule": "self.min <= self.max"},
                {"rule": "self.min > 0", "message": "must be positive", "fieldPath": ".min", "reason": "FieldValueForbidden"},
                {"rule": "self.max < 10", "messageExpression": "'max is ' + string(self.max)", "message": "unused"},
            ],
        }},
    }))
}

#[track_caller]
fn check(spec: Value, old: Option<Value>, expected: &[&str]) {
    let old = old.map(|old| json!({"spec": old}));
    let found = texts(&schema().validate(&json!({"spec": spec}), old.as_ref()));
    assert_eq!(found, expected, "{spec}");
}

#[test]
fn rules_that_hold_say_nothing() {
    check(json!({"min": 1, "max": 2, "class": "a"}), None, &[]);
}

#[test]
fn a_failed_rule_is_reported_with_its_message_path_and_reason() {
    check(json!({"min": 0, "max": 2}), None, &["spec.min: Forbidden: must be positive"]);
    check(
        json!({"min": 3, "max": 2}),
        None,
        &[r#"spec: Invalid value: "object": failed rule: self.min <= self.max"#],
    );
    check(json!({"min": 1, "max": 20}), None, &[r#"spec: Invalid value: "object": max is 20"#]);
}

#[test]
fn transition_rules_compare_with_the_old_object() {
    let spec = |class: &str| json!({"min": 1, "max": 2, "class": class});
    check(spec("a"), Some(spec("a")), &[]);
    check(spec("a"), Some(json!({"min": 1, "max": 2})), &[]);
    check(spec("a"), Some(spec("b")), &[r#"spec.class: Invalid value: "a": class is immutable"#]);
}

#[test]
fn elements_of_a_map_are_compared_by_key_and_not_by_place() {
    let spec = |targets: Value| json!({"min": 1, "max": 2, "targets": targets});
    let old = spec(json!([{"name": "a", "weight": 9}, {"name": "b", "weight": 1}]));
    let new =
        spec(json!([{"name": "b", "weight": 1}, {"name": "a", "weight": 5}, {"name": "c", "weight": 0}]));
    check(new, Some(old), &[r#"spec.targets[1]: Invalid value: "object": may only grow"#]);
}

#[test]
fn rules_do_not_run_on_objects_of_the_wrong_shape() {
    let found = schema().validate(&json!({"spec": {"max": 2}}), None);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].to_string(), "spec.min: Required value");
    assert!(found[1].detail.starts_with("some validation rules were not checked"));
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let spec = json!({"min": 3, "max": 2});
    check(spec.clone(), Some(spec), &[]);
}

#[test]
fn an_optional_old_self_is_an_optional() {
    let schema = parse(
        &json!({"type": "object", "properties": {"s": {"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf.orValue('first') == self || self == 'oldSelf'", "optionalOldSelf": true, "message": "no"},
        ]}}}),
    );
    let s = |text: &str| json!({"s": text});
    assert_eq!(texts(&schema.validate(&s("first"), None)), [""; 0]);
    assert_eq!(texts(&schema.validate(&s("oldSelf"), None)), [""; 0]);
    assert_eq!(texts(&schema.validate(&s("x"), None)), [r#"s: Invalid value: "x": no"#]);
    assert_eq!(texts(&schema.validate(&s("first"), Some(&s("x")))), [r#"s: Invalid value: "first": no"#]);
}

#[test]
fn rules_that_fail_to_run_reject_the_object() {
    let schema =
        parse(&json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.missing > 1"}]}));
    let found = texts(&schema.validate(&json!({}), None));
    assert_eq!(
        found,
        [r#"<nil>: Invalid value: "object": no such key: missing evaluating rule: self.missing > 1"#]
    );
}

#[test]
fn rules_that_do_not_compile_reject_the_schema() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "true"}, {"rule": "self.x >"}, {"rule": "true", "messageExpression": "'a"},
    ]});
    let errors = Schema::parse(&schema, "at").expect_err("two expressions are broken");
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        ["at.x-kubernetes-validations[1].rule", "at.x-kubernetes-validations[2].messageExpression"]
    );
    assert!(errors.iter().all(|error| error.detail.contains("compilation failed: ")), "{errors:?}");
}

#[test]
fn deeply_nested_expressions_are_refused_and_not_followed() {
    let rule = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    assert!(
        Schema::parse(&json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}), "at")
            .is_err()
    );
}
